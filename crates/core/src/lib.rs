//! Shared data types and pure rules of Provost; the dependency of every other crate.
//!
//! Defines ids, messages, events, token usage, money, limits, errors and secrets. [`lifecycle`] contains the state
//! machines of durable work; [`recovery`] and [`scheduling`] contain the rules for crashes, retries and concurrency.
//!
//! Invariant: this crate does no I/O and does not depend on an async runtime. It reads the clock and the random
//! source only through [`Env`].

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
    AgentHandoff, AgentUsage, ApprovalDecision, ApprovalRequest, ApprovalRequestKind, Compaction,
    EVENT_VERSION, Event, EventKind, LimitKind, LimitReached, RunSummary, TeamMember, TeamMessage,
};
pub use id::{
    ApprovalId, AuditId, DeliveryId, ExecutionId, IdError, InputId, MemoryId, MessageId, RunId,
    SessionId, TaskId, TokenId, TypedId, UsageRecordId, WebhookDeliveryId, WebhookId, WorkerId,
};
pub use message::content::{
    ContentPart, Document, Image, MediaSource, ProviderData, Reasoning, ToolCall, ToolResult,
    ToolResultPart,
};
pub use message::tool_definition::ToolDefinition;
pub use message::{Message, Role, StopReason};
pub use scheduling::backoff::Backoff;
pub use scope::{SHARED_NAME_BYTES_MAX, SHARED_VALUE_BYTES_MAX, StateChange, StateScope};
pub use secret::Secret;
pub use usage::Usage;
pub use usage::limits::Limits;
pub use usage::money::{Currency, Money, MoneyError, Pricing};
