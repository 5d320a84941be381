//! Questions to people: a row each, answered by id, the first answer wins, always settled in the end.
//!
//! Invariant: an answer is good for the exact plan that was shown. A parked run holds no worker and no place; what wakes it
//! is fed to it in the transaction that records the answer.

pub(crate) mod ask_user;
mod decide;
mod grant;
mod parked_answer;
mod plan;
mod request;
mod vote;

use std::time::Duration;

use provost_core::id::name::Namespace;
use provost_core::lifecycle::{ApprovalState, Fallback, Grant};
use provost_core::{ApprovalDecision, ApprovalId};
use provost_store::table::governance::approval_grant::{self};

pub(crate) use self::decide::{answer, answer_in_words, expire, wake};
pub(crate) use self::plan::{Standing, standing};
pub(crate) use crate::approval::parked_answer::feed_parked;
pub(crate) use crate::approval::request::{ask_for_money, ask_start, asks_start, close_open, park};
use crate::engine::Engine;
use crate::error::EngineError;

/// The timer that settles a question nobody answered.
pub(crate) const EXPIRY: &str = "approval_expiry";

/// What became of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The question.
    pub id: ApprovalId,
    /// How it stands now: still open, if others must say yes, too.
    pub state: ApprovalState,
    /// False if it was settled before; then the rest is what was recorded.
    pub counted: bool,
    /// Who settled it.
    pub by: Option<String>,
}

/// How questions are asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asking {
    /// The id of a question that the engine itself may have to ask.
    pub(crate) id: ApprovalId,
    /// How long a decision is waited for, if it is not the default.
    pub(crate) expiry: Option<Duration>,
    /// What silence means for a tool call or a start.
    pub(crate) fallback: Fallback,
}

impl Asking {
    /// As it is done unless an engine is told otherwise.
    pub(crate) fn plain(id: ApprovalId) -> Self {
        Self { id, expiry: None, fallback: Fallback::default() }
    }
}

/// What somebody says to a question.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Said {
    /// Yes, and how far it reaches.
    Yes(Grant),
    /// No, and why.
    No(String),
    /// An answer in words.
    Words(String),
    /// Nothing, and the time is over.
    Nothing,
}

impl From<&ApprovalDecision> for Said {
    fn from(decision: &ApprovalDecision) -> Self {
        match decision {
            // Who says it is whoever calls, not a name in what they say.
            ApprovalDecision::Approve | ApprovalDecision::ApprovedBy { .. } => {
                Self::Yes(Grant::Once)
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
    /// Answers a question yes, for this call and for the same one as far as the grant reaches. The first answer counts.
    pub async fn approve(
        self,
        namespace: &Namespace,
        id: ApprovalId,
        grant: Grant,
        by: &str,
    ) -> Result<Answered, EngineError> {
        self.say(namespace, id, Said::Yes(grant), by).await
    }

    /// Answers a question in words: what the agent asked, or what came of a call whose outcome nobody knew.
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

    /// Takes a grant back: the next such call asks again.
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
