//! One tool call on its way to a result.

use std::collections::HashSet;

use provost_core::{ApprovalDecision, ApprovalRequest, RequestKind, ToolCall, ToolResult};
use serde::{Deserialize, Serialize};

/// A person's answer, with the question: it is good for that question and no other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The question.
    pub request: ApprovalRequest,
    /// The answer.
    pub decision: ApprovalDecision,
}

impl Answer {
    /// True if the answer decides whether the call may run. False for a question of the running tool and for a wait.
    pub(crate) fn decides_call(&self) -> bool {
        let ApprovalRequest { kind, hint, payload, .. } = &self.request;
        *kind == RequestKind::Call && hint.is_none() && payload.is_none()
    }
}

/// The ids of all calls, collected when first needed: looking through the conversation in every turn would make long ones slow.
/// They follow from the rest of the run, so they are neither stored nor compared.
#[derive(Debug, Clone, Default)]
pub(super) struct CallIds(Option<HashSet<String>>);

impl CallIds {
    pub(super) fn take(&mut self) -> Option<HashSet<String>> {
        self.0.take()
    }
}

impl From<HashSet<String>> for CallIds {
    fn from(ids: HashSet<String>) -> Self {
        Self(Some(ids))
    }
}

impl PartialEq for CallIds {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

/// A call of the current turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallState {
    /// The call as the model made it; this is what history keeps.
    pub(super) call: ToolCall,
    /// The call as hooks left it; this is what runs. Set once the hooks have seen it.
    pub(super) effective: Option<ToolCall>,
    /// The question a person must answer now.
    pub(super) open: Option<ApprovalRequest>,
    /// What people have answered so far.
    pub(super) answers: Vec<Answer>,
    pub(super) result: Option<ToolResult>,
}

impl CallState {
    pub(super) fn new(call: ToolCall) -> Self {
        Self { call, effective: None, open: None, answers: Vec::new(), result: None }
    }

    /// True if it waits for a person.
    pub(super) fn waits(&self) -> bool {
        self.result.is_none() && self.open.is_some()
    }

    /// True if it can go on now.
    pub(super) fn can_run(&self) -> bool {
        self.result.is_none() && !self.waits()
    }
}
