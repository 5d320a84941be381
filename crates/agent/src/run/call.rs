//! The state of one tool call until it has a result.

use std::collections::HashSet;

use provost_core::{ApprovalDecision, ApprovalRequest, ApprovalRequestKind, ToolCall, ToolResult};
use serde::{Deserialize, Serialize};

/// A person's decision with its request. It applies to that request only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalAnswer {
    /// The request.
    pub request: ApprovalRequest,
    /// The decision.
    pub decision: ApprovalDecision,
}

impl ApprovalAnswer {
    /// Returns true if the decision is about running the call. False for a request of the running tool and for a wait.
    pub(crate) fn is_about_call(&self) -> bool {
        let ApprovalRequest { kind, hint, payload, .. } = &self.request;
        *kind == ApprovalRequestKind::Call && hint.is_none() && payload.is_none()
    }
}

/// The ids of all calls, collected on first use, because searching the conversation in every turn would make long
/// ones slow. The ids follow from the rest of the run, so they are neither stored nor compared.
#[derive(Debug, Clone, Default)]
pub(super) struct SeenCallIds(Option<HashSet<String>>);

impl SeenCallIds {
    /// Removes and returns the ids. `None` before the first use.
    pub(super) fn take(&mut self) -> Option<HashSet<String>> {
        self.0.take()
    }
}

impl From<HashSet<String>> for SeenCallIds {
    fn from(ids: HashSet<String>) -> Self {
        Self(Some(ids))
    }
}

impl PartialEq for SeenCallIds {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

/// A call of the current turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallState {
    /// The call as the model made it, which the conversation keeps.
    pub(super) call: ToolCall,
    /// The call after hooks changed it, which runs. `None` until the hooks have run.
    #[serde(rename = "effective")]
    pub(super) prepared_call: Option<ToolCall>,
    /// The approval that a person must decide now.
    #[serde(rename = "open")]
    pub(super) pending_approval: Option<ApprovalRequest>,
    /// The decisions so far.
    pub(super) answers: Vec<ApprovalAnswer>,
    pub(super) result: Option<ToolResult>,
}

impl CallState {
    pub(super) fn new(call: ToolCall) -> Self {
        Self {
            call,
            prepared_call: None,
            pending_approval: None,
            answers: Vec::new(),
            result: None,
        }
    }

    /// Returns true if the call waits for a decision.
    pub(super) fn awaits_approval(&self) -> bool {
        self.result.is_none() && self.pending_approval.is_some()
    }

    /// Returns true if the call can run now.
    pub(super) fn can_run(&self) -> bool {
        self.result.is_none() && !self.awaits_approval()
    }
}
