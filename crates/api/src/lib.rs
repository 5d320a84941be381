//! The run API: the words of the wire and the typed client.
//!
//! Every request and every answer is a type of this crate with a JSON Schema, so the server, the OpenAPI document, the command
//! line and the clients in other languages cannot disagree. [`Client`] speaks over a [`Transport`]: a connection to a server, or
//! the server's own router in the same process.
//!
//! Invariant: nothing here knows a database or an HTTP server.

mod agent;
mod approval;
mod client;
mod cursor;
mod delivery;
mod event;
mod explanation;
mod health;
mod input;
mod operation;
mod page;
mod problem;
mod run;
mod said;
mod scope;
mod session;
mod task;
mod time;
mod token;
mod tool;
mod webhook;

pub use agent::{Agent, AgentChange, AgentConfig, NewAgent};
pub use approval::{
    Answer, Answered, Approval, ApprovalList, Decision, Grant, GrantKey, Tally, Vote,
};
pub use client::{Answers, ApiError, Client, EventStream, Transport, TransportError, Watch};
#[cfg(feature = "http")]
pub use client::{HttpOptions, HttpTransport};
pub use cursor::{Cursor, CursorError, Place};
pub use delivery::{Delivery, DeliveryList};
pub use event::{Delta, EventBatch, LogEntry, LogStream, RunEvent, StreamItem};
pub use explanation::{Evidence, Explanation, NextStep};
pub use health::{Check, Health, Version, Who};
pub use input::{InputReceipt, Interaction, NewInput, PendingInput};
pub use operation::{
    Budget, BudgetChange, BudgetKey, Class, ClassTarget, Overlap, PauseSchedule, Period, Schedule,
    ScheduleChange, Timing,
};
pub use page::{LIMIT_DEFAULT, LIMIT_MAX, Page, Paging};
pub use problem::{FieldProblem, Problem};
pub use run::{
    Attempt, CancelOutcome, Cancelled, Fork, Forked, Replay, Run, RunList, Snapshot, Step, Waited,
};
pub use said::Said;
pub use scope::Scope;
pub use session::{Session, SessionList, SessionMessage};
pub use task::{Accepted, NewTask, Started, Task, TaskList};
pub use time::Time;
pub use token::{NewToken, Token, TokenCreated};
pub use tool::{AuditList, AuditRecord, Capabilities, Capability, DeclaredTool, UsageRecord};
pub use webhook::{NewWebhook, Webhook, WebhookCreated, WebhookPost};
