//! The run API: the words of the wire and the typed client.
//!
//! Every request and every answer is a type of this crate with a JSON Schema, so the server, the OpenAPI document, the command
//! line and the clients in other languages cannot disagree. [`Client`] speaks over a [`Transport`]: a connection to a server, or
//! the server's own router in the same process.
//!
//! Invariant: nothing here knows a database or an HTTP server.

mod client;
mod cursor;
mod page;
mod problem;
mod said;
mod scope;
mod time;
mod types;

pub use client::{Answers, ApiError, Client, EventStream, Transport, TransportError, Watch};
#[cfg(feature = "http")]
pub use client::{HttpOptions, HttpTransport};
pub use cursor::{Cursor, CursorError, Place};
pub use page::{LIMIT_DEFAULT, LIMIT_MAX, Page, Paging};
pub use problem::{FieldProblem, Problem};
pub use said::Said;
pub use scope::Scope;
pub use time::Time;
pub use types::agent::{Agent, AgentChange, AgentConfig, NewAgent};
pub use types::approval::{
    Answer, Answered, Approval, ApprovalList, Decision, Grant, GrantKey, Tally, Vote,
};
pub use types::delivery::{Delivery, DeliveryList};
pub use types::event::{Delta, EventBatch, LogEntry, LogStream, RunEvent, StreamItem};
pub use types::explanation::{Evidence, Explanation, NextStep};
pub use types::health::{Check, Health, Version, Who};
pub use types::input::{InputReceipt, Interaction, NewInput, PendingInput};
pub use types::operation::{
    Budget, BudgetChange, BudgetKey, Class, ClassTarget, Overlap, PauseSchedule, Period, Schedule,
    ScheduleChange, Timing,
};
pub use types::run::{
    Attempt, CancelOutcome, Cancelled, Fork, Forked, Replay, Run, RunList, Snapshot, Step, Waited,
};
pub use types::session::{NewSession, Session, SessionList, SessionMessage};
pub use types::task::{Accepted, NewTask, Started, Task, TaskList};
pub use types::token::{NewToken, Token, TokenCreated};
pub use types::tool::{
    AuditList, AuditRecord, Capabilities, Capability, DeclaredTool, UsageRecord,
};
pub use types::webhook::{NewWebhook, Webhook, WebhookCreated, WebhookPost};
