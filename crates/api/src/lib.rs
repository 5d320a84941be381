//! Types of the HTTP API and its typed client.
//!
//! Every request and every response is a type of this crate with a JSON Schema. The server, the OpenAPI document, the command
//! line and the generated clients share these types, so they cannot disagree. A [`Client`] uses a [`Transport`]: an HTTP
//! connection to a server, or the router of a server in the same process.
//!
//! Invariant: this crate depends on neither a database nor an HTTP server.

mod client;
mod cursor;
mod date_time;
mod message_input;
mod page;
mod problem;
mod scope;
mod types;

pub use client::{
    ApiError, BodyStream, Client, EventStream, Transport, TransportError, WatchOptions,
};
#[cfg(feature = "http")]
pub use client::{HttpOptions, HttpTransport};
pub use cursor::{Cursor, CursorError, CursorPosition};
pub use date_time::DateTime;
pub use message_input::MessageInput;
pub use page::{LIMIT_DEFAULT, LIMIT_MAX, Page, PageQuery};
pub use problem::{FieldProblem, Problem};
pub use scope::Scope;
pub use types::agent::{Agent, AgentChange, NewAgent};
pub use types::approval::{
    Approval, ApprovalQuery, ApprovalReceipt, Decision, DecisionRequest, StandingApproval,
    StandingApprovalKey, Vote, VoteCount,
};
pub use types::budget::{Budget, BudgetChange, BudgetKey, BudgetPeriod};
pub use types::delivery::{Delivery, DeliveryQuery};
pub use types::event::{Delta, EventBatch, LogEntry, LogStream, RunEvent, StreamItem};
pub use types::execution_class::{ConcurrencyLimit, ExecutionClass};
pub use types::explanation::{Evidence, Explanation, NextStep};
pub use types::input::{InputReceipt, NewInput, PendingInput, RunInteraction};
pub use types::run::{
    Attempt, CancelOutcome, CancelReceipt, ForkReceipt, ForkRequest, ReplayReport, Run, RunQuery,
    RunTransition, Step, WaitResult,
};
pub use types::schedule::{OverlapPolicy, Schedule, ScheduleChange, SchedulePause, ScheduleTiming};
pub use types::server::{HealthCheck, HealthReport, Identity, Version};
pub use types::session::{NewSession, Session, SessionMessage, SessionQuery};
pub use types::task::{NewTask, RetryReceipt, Task, TaskQuery, TaskReceipt};
pub use types::token::{CreatedToken, NewToken, Token};
pub use types::tool::{AuditQuery, AuditRecord, Capabilities, Capability, ToolInfo, UsageRecord};
pub use types::webhook::{CreatedWebhook, NewWebhook, Webhook, WebhookDelivery};
