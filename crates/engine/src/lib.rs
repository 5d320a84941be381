//! Durable tasks and runs on one database.
//!
//! [`Engine`] stores submitted tasks and reports their state; a [`Worker`] executes their runs. They communicate only
//! through the database:
//!
//! - A state change and its durable event commit in one transaction.
//! - Every write of a worker carries the epoch of its claim. The database rejects a write with an old epoch.
//! - Every effect is journaled before it happens.
//! - Wakeups only reduce latency. If one is lost, polling finds the work.

mod agent;
mod approval;
mod attempt;
mod budget;
mod child;
mod engine;
mod error;
mod input;
mod journal;
mod maintenance;
mod metrics;
mod options;
mod outbound;
mod records;
mod run;
mod sessions;
mod submit;
mod tasks;
mod token;
mod worker;

pub use agent::{AgentRevision, AgentUpdate, DEFAULT_AGENT, ResourceDocument};
pub use approval::ApprovalReceipt;
pub use approval::Approvals;
pub use approval::ask_user::ask_user;
pub use attempt::events::UnfinishedTurn;
pub use attempt::workspace::WorkspaceProbe;
pub use budget::Budgets;
pub use budget::{Budget, BudgetUsage, DurableBudgetLedger};
pub use child::{ChildLimits, child_tools};
pub use engine::{AgentProvider, Engine};
pub use error::EngineError;
pub use input::Inputs;
pub use input::{InputReceipt, InputRequest};
pub use journal::transactional::TransactionalEffects;
pub use journal::verify::ReplayReport;
pub use maintenance::CrashLoopGuard;
pub use maintenance::Maintenance;
pub use maintenance::retention::{RetentionPolicy, RetentionReport};
pub use metrics::{EngineMetrics, LATENCY_BOUNDS, LatencyHistogram};
pub use options::{EngineDeps, EngineOptions};
pub use outbound::delivery::Deliveries;
pub use outbound::delivery::{DeliveryAdapter, DeliveryTarget, SendError, SendReceipt};
pub use outbound::webhook::Webhooks;
pub use outbound::webhook::{
    ClaimedWebhookDelivery, FanoutReport, NewWebhook, Webhook, WebhookClaimLimits,
    WebhookDeliveryResult,
};
pub use provost_core::command::InputTarget;
pub use provost_core::scheduling::{MissedRunPolicy, OverlapPolicy};
pub use provost_core::usage::{BudgetPeriod, BudgetScope};
pub use provost_store::query::Page;
pub use records::Records;
pub use run::Runs;
pub use run::cancel::CancelResult;
pub use run::fork::{ForkEdit, ForkOptions, ForkReceipt};
pub use sessions::{CreatedSession, NewSession, Sessions};
pub use submit::SubmitReceipt;
pub use submit::execution_class::{ConcurrencyScope, ExecutionClasses};
pub use submit::schedule::Schedules;
pub use submit::schedule::{Schedule, ScheduleSpec, ScheduleState};
pub use tasks::Tasks;
pub use token::Tokens;
pub use token::{NewToken, Token};
pub use worker::Worker;
pub use worker::claim::JOURNAL_FORMAT_VERSION;
pub use worker::lease::Lease;
pub use worker::served_sessions::ServedSessions;
