//! Payloads of events about tool calls.

use serde::{Deserialize, Serialize};

/// A tool call starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolStarted {
    /// Id of the call.
    pub call_id: String,
    /// Name of the tool.
    pub name: String,
    /// Step of the call.
    pub step: u64,
}

/// A tool call finished. Its step stores the result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolFinished {
    /// Step of the call.
    pub step: u64,
    /// Id of the call.
    pub call_id: String,
    /// Execution time in milliseconds. `None` if the call did not run or started in an earlier attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// A tool call waits for child runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingStarted {
    /// Step of the call.
    pub step: u64,
    /// Id of the call.
    pub call_id: String,
}
