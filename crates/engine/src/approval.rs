//! Approvals: each request is a row with an id. The first answer decides it, and every request is settled.
//!
//! Invariant: an answer applies to the exact plan that was shown. A parked run holds no worker and no slot. The
//! transaction that records the answer also appends the entry that resumes the run.

pub(crate) mod ask_user;
mod decide;
mod grant;
mod parked_journal;
mod plan;
mod request;
mod vote;

use std::time::Duration;

use provost_core::id::name::Namespace;
use provost_core::lifecycle::{ApprovalState, ApprovalTimeoutAction, GrantScope};
use provost_core::{ApprovalDecision, ApprovalId};
use provost_store::table::governance::approval_grant::{self};

pub(crate) use self::decide::{answer_decision, answer_text, expire, resume_run};
pub(crate) use self::plan::{ApprovalStatus, approval_status};
pub(crate) use crate::approval::parked_journal::append_while_parked;
pub(crate) use crate::approval::request::{
    cancel_pending, park_for_approval, request_budget_increase, request_start_approval,
};
use crate::engine::Engine;
use crate::error::EngineError;

/// Result of an answer to an approval: the state of the approval, and whether this answer was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalReceipt {
    /// The approval.
    pub id: ApprovalId,
    /// State after the answer. Still pending if further approvers must vote.
    pub state: ApprovalState,
    /// False if the approval was settled before. The other fields then describe the recorded decision.
    pub is_recorded: bool,
    /// The principal that settled the approval.
    pub by: Option<String>,
}

/// Settings of the approvals that an engine creates.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ApprovalSettings {
    /// The id of an approval that the engine itself may have to request.
    pub(crate) id: ApprovalId,
    /// Time to wait for a decision; `None` for the default of its kind.
    pub(crate) expiry: Option<Duration>,
    /// The decision about a tool call or a start that expires.
    pub(crate) fallback: ApprovalTimeoutAction,
}

impl ApprovalSettings {
    /// Returns the default settings.
    pub(crate) fn new(id: ApprovalId) -> Self {
        Self { id, expiry: None, fallback: ApprovalTimeoutAction::default() }
    }
}

/// Answer to an approval.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ApprovalAnswer {
    /// Approval, and the calls that it covers.
    Approve(GrantScope),
    /// Denial with its reason.
    Deny(String),
    /// A text that answers a question.
    Text(String),
    /// No answer before the expiry.
    Expired,
}

impl From<&ApprovalDecision> for ApprovalAnswer {
    fn from(decision: &ApprovalDecision) -> Self {
        match decision {
            // The authenticated caller is the approver, not a name in the decision.
            ApprovalDecision::Approve | ApprovalDecision::ApprovedBy { .. } => {
                Self::Approve(GrantScope::Once)
            }
            ApprovalDecision::Deny { reason } => Self::Deny(reason.clone()),
        }
    }
}

/// Decisions about approvals. See [`Engine::approvals`](crate::Engine::approvals).
#[derive(Clone, Copy)]
pub struct Approvals<'a> {
    pub(crate) engine: &'a Engine,
}

impl Approvals<'_> {
    /// Approves a request, for this call and for equal calls that the grant covers. The first answer counts.
    pub async fn approve(
        self,
        namespace: &Namespace,
        id: ApprovalId,
        grant: GrantScope,
        by: &str,
    ) -> Result<ApprovalReceipt, EngineError> {
        self.record(namespace, id, ApprovalAnswer::Approve(grant), by).await
    }

    /// Answers a question of the agent with a text, or states the outcome of a call whose outcome is unknown.
    pub async fn answer_text(
        self,
        namespace: &Namespace,
        id: ApprovalId,
        text: &str,
        by: &str,
    ) -> Result<ApprovalReceipt, EngineError> {
        self.record(namespace, id, ApprovalAnswer::Text(text.to_owned()), by).await
    }

    /// Records an answer and applies it to the run.
    async fn record(
        self,
        namespace: &Namespace,
        id: ApprovalId,
        answer: ApprovalAnswer,
        by: &str,
    ) -> Result<ApprovalReceipt, EngineError> {
        let (namespace, by) = (namespace.clone(), by.to_owned());
        self.engine.store().write(move |tx| decide::answer(tx, &namespace, id, &answer, &by)).await
    }

    /// Revokes a standing approval, so that the next such call requests approval again. Fails if it does not exist.
    pub async fn revoke_grant(
        self,
        namespace: &Namespace,
        scope: &str,
        call_key: &str,
    ) -> Result<(), EngineError> {
        let namespace = namespace.clone();
        let (scope, key) = (scope.to_owned(), call_key.to_owned());
        let write = self.engine.store().write(move |tx| {
            match approval_grant::revoke(tx, namespace.as_str(), &scope, &key)? {
                true => Ok(()),
                false => Err(EngineError::not_found("grant", &key)),
            }
        });
        write.await
    }
}
