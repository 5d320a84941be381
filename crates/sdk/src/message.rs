//! The parts of a [`Message`](crate::Message): media, reasoning, tool calls and tool results.
//!
//! ```
//! use provost::Message;
//! use provost::message::Role;
//!
//! let message = Message::user("Hello!");
//! assert_eq!((message.role, message.text().as_str()), (Role::User, "Hello!"));
//! ```

pub use provost_core::{
    Document, Image, MediaSource, MessageId, ProviderData, Reasoning, Role, StopReason, Timestamp,
    ToolCall, ToolDefinition, ToolResult, ToolResultPart,
};
