//! Approvals: each request is a row and is answered by its id; the first answer wins, and every request is settled in
//! the end.
//!
//! Invariant: an answer applies to the exact plan that was shown. A parked run holds no worker and no slot. The
//! transaction that
//! records the answer also appends the entry that resumes the run.

pub(crate) mod ask_user;
mod decide;
mod grant;
mod parked_answer;
mod plan;
mod request;
mod vote;

use std::time::Duration;

use provost_core::id::name::Namespace;
use provost_core::lifecycle::{ApprovalState, ApprovalTimeoutAction, GrantScope};
use provost_core::{ApprovalDecision, ApprovalId};
use provost_store::table::governance::approval_grant::{self};

pub(crate) use self::decide::{answer, answer_in_words, expire, wake};
pub(crate) use self::plan::{Standing, standing};
pub(crate) use crate::approval::parked_answer::feed_parked;
pub(crate) use crate::approval::request::{ask_for_money, ask_start, asks_start, close_open, park};
use crate::engine::Engine;
use crate::error::EngineError;

/// The timer that settles an approval that expires without an answer.
pub(crate) const EXPIRY: &str = "approval_expiry";

/// The result of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The approval.
    pub id: ApprovalId,
    /// The state after the answer: still pending if further approvers must vote.
    pub state: ApprovalState,
    /// False if the approval was settled before. The other fields then describe the recorded decision.
    pub counted: bool,
    /// The principal that settled the approval.
    pub by: Option<String>,
}

/// Settings of the approvals that an engine creates.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asking {
    /// The id of an approval that the engine itself may have to request.
    pub(crate) id: ApprovalId,
    /// Time to wait for a decision; `None` for the default of its kind.
    pub(crate) expiry: Option<Duration>,
    /// The decision about a tool call or a start that expires.
    pub(crate) fallback: ApprovalTimeoutAction,
}

impl Asking {
    /// Returns the default settings.
    pub(crate) fn plain(id: ApprovalId) -> Self {
        Self { id, expiry: None, fallback: ApprovalTimeoutAction::default() }
    }
}

/// An answer to an approval.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Said {
    /// Approval, and the calls that it covers.
    Yes(GrantScope),
    /// Denial with its reason.
    No(String),
    /// A text that answers a question.
    Words(String),
    /// No answer before the expiry.
    Nothing,
}

impl From<&ApprovalDecision> for Said {
    fn from(decision: &ApprovalDecision) -> Self {
        match decision {
            // The authenticated caller is the approver, not a name in the decision.
            ApprovalDecision::Approve | ApprovalDecision::ApprovedBy { .. } => {
                Self::Yes(GrantScope::Once)
            }
            ApprovalDecision::Deny { reason } => Self::No(reason.clone()),
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
    ) -> Result<Answered, EngineError> {
        self.say(namespace, id, Said::Yes(grant), by).await
    }

    /// Answers with a text: a question of the agent, or the outcome of a call that is not known.
    pub async fn answer_text(
        self,
        namespace: &Namespace,
        id: ApprovalId,
        text: &str,
        by: &str,
    ) -> Result<Answered, EngineError> {
        self.say(namespace, id, Said::Words(text.to_owned()), by).await
    }

    async fn say(
        self,
        namespace: &Namespace,
        id: ApprovalId,
        said: Said,
        by: &str,
    ) -> Result<Answered, EngineError> {
        let (namespace, by) = (namespace.clone(), by.to_owned());
        self.engine.store().write(move |tx| decide::say(tx, &namespace, id, &said, &by)).await
    }

    /// Revokes a standing approval: the next such call requests approval again.
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
