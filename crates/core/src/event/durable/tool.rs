//! Payloads of events about tool calls.

use serde::{Deserialize, Serialize};

/// A tool call begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolStarted {
    /// Id of the call.
    pub call_id: String,
    /// Name of the tool.
    pub name: String,
    /// Step of the call.
    pub step: u64,
}

/// A tool call has its result, which its step holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolFinished {
    /// Step of the call.
    pub step: u64,
    /// Id of the call.
    pub call_id: String,
    /// Milliseconds that the call ran; none if it did not run, or began in an earlier attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// A tool call waits for runs of children.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingStarted {
    /// Step of the call.
    pub step: u64,
    /// Id of the call.
    pub call_id: String,
}
