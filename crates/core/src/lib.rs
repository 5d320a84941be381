//! The words of Provost: what every other crate speaks.
//!
//! Ids, messages, events, token usage, money, limits, errors and secrets, as plain data with pure rules.
//! [`lifecycle`] holds the state machines of durable work, [`recovery`] and [`scheduling`] the rules around them.
//!
//! Invariant: nothing here performs I/O or knows an async runtime.
//! The only outside things it touches are the clock and the random source, and those only behind [`Env`].

pub mod command;
pub mod contract;
mod env;
mod error;
mod event;
pub mod execution_policy;
pub mod hash;
pub mod id;
pub mod lifecycle;
mod message;
pub mod policy;
pub mod recovery;
pub mod resource;
pub mod scheduling;
mod scope;
mod secret;
pub mod text;
pub mod usage;

pub use env::Env;
pub use env::time::Timestamp;
pub use error::{ErrorInfo, ErrorKind};
pub use event::durable::{self, DURABLE_EVENT_VERSION, DurableEvent, DurableEventKind};
pub use event::{
    AgentUsed, ApprovalDecision, ApprovalRequest, Compaction, EVENT_VERSION, Event, EventKind,
    HandOff, LimitKind, LimitReached, RequestKind, RunSummary, TeamMessage, Teammate,
};
pub use id::{
    ApprovalId, AuditId, DeliveryId, ExecutionId, IdError, InputId, MemoryId, MessageId, MeterId,
    RunId, SessionId, TaskId, TokenId, TypedId, WebhookId, WebhookPostId, WorkerId,
};
pub use message::content::{
    Document, Image, Opaque, Part, Reasoning, ResultPart, Source, ToolCall, ToolResult,
};
pub use message::tool_definition::ToolDef;
pub use message::{Message, Role, StopReason};
pub use scheduling::backoff::Backoff;
pub use scope::{SHARED_NAME_BYTES_MAX, SHARED_VALUE_BYTES_MAX, StateChange, StateScope};
pub use secret::Secret;
pub use usage::Usage;
pub use usage::limits::Limits;
pub use usage::money::{Currency, Money, MoneyError, Pricing};
