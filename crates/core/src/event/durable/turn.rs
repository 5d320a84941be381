//! Payloads of events about model calls and the conversation.

use serde::{Deserialize, Serialize};

use crate::{StopReason, Usage};

/// A message of the user's side entered the conversation. The event names the stored message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UserMessage {}

/// A model call begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnStarted {
    /// Number of the model call, from one.
    pub turn: u32,
}

/// A model call ended. The event names the stored answer.
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

/// A model call is repeated, and the deltas of its lost try are void.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DraftDiscarded {
    /// Number of the model call.
    pub turn: u32,
    /// Number of the lost try, from one.
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
    /// Step that holds the new conversation.
    pub step: u64,
    /// Pieces of the new conversation.
    pub pieces: u64,
}

/// An answer did not have the required form and went back to the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputRejected {
    /// What is wrong with the answer.
    pub reason: String,
}
