//! Payloads of events about model calls and the conversation.

use serde::{Deserialize, Serialize};

use crate::{StopReason, Usage};

/// A user message entered the conversation. The message is stored with the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UserMessage {}

/// A model call starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnStarted {
    /// Number of the model call, from 1.
    pub turn: u32,
}

/// A model call finished. The response is stored with the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnFinished {
    /// Number of the model call.
    pub turn: u32,
    /// Reason why the model stopped.
    pub stop: StopReason,
    /// Tokens that the call used.
    #[serde(default)]
    pub usage: Usage,
}

/// A model call is repeated, and the deltas of the lost attempt are void.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DraftDiscarded {
    /// Number of the model call.
    pub turn: u32,
    /// Number of the lost attempt, from 1.
    #[serde(rename = "try")]
    pub lost_try: u64,
}

/// The conversation is about to be shortened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionStarted {
    /// Number of the model call that follows.
    pub turn: u32,
}

/// The conversation was shortened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compacted {
    /// Step that stores the shortened conversation.
    pub step: u64,
    /// Number of parts in the shortened conversation.
    pub pieces: u64,
}

/// A response did not match the output type and was returned to the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputRejected {
    /// Validation error.
    pub reason: String,
}
