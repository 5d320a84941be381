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
mod deps;
mod engine;
mod error;
mod explain;
mod follow;
mod input;
mod journal;
mod live;
mod maintenance;
mod metrics;
mod outbound;
mod query;
mod queue;
mod run;
mod submit;
mod tasks;
mod token;
mod worker;

pub use agent::{AgentChange, AgentConfig, AgentProfile, DEFAULT_AGENT, RUNNER};
pub use approval::Answered;
pub use approval::ask_user::{ASK_USER, ask_user};
pub use attempt::timeouts::Clocks;
pub use attempt::workspace::Workspaces;
pub use budget::{Budget, BudgetPeriod, BudgetScope, BudgetState, DurableLedger};
pub use child::{ChildLimits, child_tools};
pub use deps::EngineDeps;
pub use engine::{Agents, Engine, EngineOptions};
pub use error::EngineError;
pub use explain::{Cause, Evidence, Explanation, NextStep, Subject};
pub use follow::Follow;
pub use input::{InputReceipt, InputRequest, InputTarget};
pub use journal::transactional::Transactional;
pub use journal::verify::ReplayReport;
pub use live::{Draft, LivePlace, LiveSink};
pub use maintenance::BootGuard;
pub use maintenance::retention::{Removed, Retention};
pub use metrics::{LATENCY_BOUNDS, Latencies, Vitals};
pub use outbound::delivery::{DeliveryAdapter, Receipt, SendError, Target};
pub use outbound::outbox::{DELIVERY_SETTLED, Notice, Publisher, RUN_ENDED};
pub use outbound::webhook::{Claim, ClaimedPost, Filled, NewWebhook, PostOutcome, Webhook};
pub use query::conversation::Conversation;
pub use query::event_log::{Below, LOG_PAGE_MAX, LogBounds, LogEntry, LogPage, RunPlace};
pub use query::history::{MachineSnapshot, RunChange, RunSnapshots};
pub use query::interaction::{PendingInput, QueuePosition, RunInteraction};
pub use query::session::{SessionPlace, ShownMessage, ShownStep};
pub use query::task_log::{LogStream, TaskLog, TaskLogPage};
pub use query::view::{Question, RunView, Told};
pub use queue::class::Ceiling;
pub use run::cancel::Cancelled;
pub use run::fork::{ForkEdit, ForkEdits, Forked};
pub use submit::schedule::{CatchUp, Overlap, Schedule, ScheduleState, Timing};
pub use submit::{Accepted, CLASS_DESIRED_DEFAULT};
pub use tasks::Page;
pub use token::{NewToken, Token};
pub use worker::Worker;
pub use worker::claim::BUILD;
pub use worker::lease::Lease;
pub use worker::session_filter::Focus;
