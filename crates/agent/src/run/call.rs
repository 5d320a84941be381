//! One tool call on its way to a result.

use provost_core::{ApprovalDecision, ApprovalRequest, ToolCall, ToolResult};
use serde::{Deserialize, Serialize};

/// A call of the current turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallState {
    /// The call as the model made it; this is what history keeps.
    pub(super) call: ToolCall,
    /// The call as hooks left it; this is what runs. Set once the hooks have seen it.
    pub(super) effective: Option<ToolCall>,
    /// The question a person must answer, or has answered.
    pub(super) approval: Option<ApprovalRequest>,
    pub(super) decision: Option<ApprovalDecision>,
    pub(super) result: Option<ToolResult>,
}

impl CallState {
    pub(super) fn new(call: ToolCall) -> Self {
        Self { call, effective: None, approval: None, decision: None, result: None }
    }

    /// True if it waits for a person.
    pub(super) fn waits(&self) -> bool {
        self.result.is_none() && self.approval.is_some() && self.decision.is_none()
    }

    /// True if it can go on now.
    pub(super) fn can_run(&self) -> bool {
        self.result.is_none() && !self.waits()
    }
}
