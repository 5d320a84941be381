//! Tables of policies and of the records of their use: agents, approvals, budgets, audit, tokens.

pub mod agent;
pub mod approval;
pub mod approval_grant;
pub mod audit;
pub mod budget;
pub mod idempotency;
pub mod resource_set;
pub mod secret;
pub mod token;
pub mod usage_record;
