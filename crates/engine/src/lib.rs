//! Durable tasks and runs: accept once, survive anything.
//!
//! [`Engine`] takes work in and answers for it; a [`Worker`] carries it out. Between them is a database and nothing else:
//! every change of state and its event commit together, every write of a worker carries the epoch of its claim, and every
//! effect is written down before it happens. Wake-ups are hints: without them everything still happens, only later.

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
mod queue;
mod run;
mod sessions;
mod submit;
mod tasks;
mod token;
mod worker;

pub use agent::{AgentChange, AgentConfig, AgentProfile, DEFAULT_AGENT, RUNNER};
pub use approval::Answered;
pub use approval::Approvals;
pub use approval::ask_user::ask_user;
pub use attempt::follow::Follow;
pub use attempt::live_events::Draft;
pub use attempt::timeouts::Clocks;
pub use attempt::workspace::Workspaces;
pub use budget::Budgets;
pub use budget::{Budget, BudgetPeriod, BudgetScope, BudgetState, DurableLedger};
pub use child::{ChildLimits, child_tools};
pub use engine::{Agents, Engine};
pub use error::EngineError;
pub use input::Inputs;
pub use input::{InputReceipt, InputRequest};
pub use journal::transactional::Transactional;
pub use journal::verify::ReplayReport;
pub use maintenance::BootGuard;
pub use maintenance::Maintenance;
pub use maintenance::retention::{Removed, Retention};
pub use metrics::{LATENCY_BOUNDS, Latencies, Vitals};
pub use options::{EngineDeps, EngineOptions};
pub use outbound::delivery::Deliveries;
pub use outbound::delivery::{DeliveryAdapter, Receipt, SendError, Target};
pub use outbound::webhook::Webhooks;
pub use outbound::webhook::{Claim, ClaimedPost, Filled, NewWebhook, PostOutcome, Webhook};
pub use provost_core::command::InputTarget;
pub use provost_store::query::Page;
pub use queue::class::Ceiling;
pub use queue::class::ExecutionClasses;
pub use run::Runs;
pub use run::cancel::Cancelled;
pub use run::fork::{ForkEdit, ForkEdits, Forked};
pub use sessions::{CreatedSession, NewSession, Sessions};
pub use submit::Accepted;
pub use submit::schedule::Schedules;
pub use submit::schedule::{CatchUp, Overlap, Schedule, ScheduleState, Timing};
pub use tasks::Tasks;
pub use token::Tokens;
pub use token::{NewToken, Token};
pub use worker::Worker;
pub use worker::claim::BUILD;
pub use worker::lease::Lease;
pub use worker::session_filter::Focus;
