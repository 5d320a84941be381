//! What a run comes to.

use std::ops::Deref;
use std::sync::Arc;

use provost_core::{ApprovalDecision, ApprovalId, ApprovalRequest, Message, RunId, RunSummary};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::Error;
use crate::run::{Feed, FeedError, Run};

/// The result of a run that ended by itself or at a limit.
///
/// Reads like its [`RunSummary`]: `result.turns`, `result.usage`, `result.stop`.
#[derive(Debug, Clone, PartialEq)]
pub struct RunResult<O = String> {
    /// The answer.
    pub output: O,
    /// The run.
    pub run_id: RunId,
    /// Numbers and details.
    pub summary: RunSummary,
    /// Every message the run added to the conversation.
    pub messages: Vec<Arc<Message>>,
    /// The run's own notes at the end.
    pub state: Map<String, Value>,
}

impl<O> Deref for RunResult<O> {
    type Target = RunSummary;
    fn deref(&self) -> &RunSummary {
        &self.summary
    }
}

/// How a run ended, where each way is worth a case.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome<O = String> {
    /// With an answer, or at a limit with what it had.
    Done(RunResult<O>),
    /// It waits for decisions; store it and resume it later, here or elsewhere.
    Suspended(Suspended),
    /// A hook refused it before the first model call.
    Denied {
        /// Why.
        reason: String,
    },
    /// It was stopped from outside.
    Cancelled(RunSummary),
}

impl<O> Outcome<O> {
    /// The result; every other way to end is an error.
    pub fn into_result(self) -> Result<RunResult<O>, Error> {
        match self {
            Self::Done(result) => Ok(result),
            Self::Suspended(suspended) => Err(Error::Suspended(Box::new(suspended))),
            Self::Denied { reason } => Err(Error::Denied { reason }),
            Self::Cancelled(partial) => Err(Error::Cancelled { partial: Box::new(partial) }),
        }
    }
}

impl Outcome<String> {
    /// The same with the answer as its type.
    pub(crate) fn decode<O>(
        self,
        decode: fn(&str) -> Result<O, String>,
    ) -> Result<Outcome<O>, Error> {
        Ok(match self {
            Self::Done(result) => {
                let output = decode(&result.output)
                    .map_err(|problem| Error::Output { problem, raw: result.output.clone() })?;
                let RunResult { run_id, summary, messages, state, .. } = result;
                Outcome::Done(RunResult { output, run_id, summary, messages, state })
            }
            Self::Suspended(suspended) => Outcome::Suspended(suspended),
            Self::Denied { reason } => Outcome::Denied { reason },
            Self::Cancelled(partial) => Outcome::Cancelled(partial),
        })
    }
}

/// Why stored bytes are not a suspended run.
#[derive(Debug, thiserror::Error)]
pub enum SuspendedError {
    /// Not the form this version writes.
    #[error("not a suspended run: {0}")]
    Format(#[from] serde_json::Error),
    /// Written by another version.
    #[error("the run was stored by another version of Provost; resume it with that version")]
    Version,
    /// There is no such question.
    #[error(transparent)]
    Decision(#[from] FeedError),
}

/// A run that waits, as a value: give it to [`Agent::resume`](crate::Agent::resume) once its questions are answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Suspended {
    pub(crate) run: Box<Run>,
    pub(crate) session: Option<SessionPoint>,
    /// The number of the first event after resuming.
    pub(crate) next_seq: u64,
}

/// Where the run's session stood.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionPoint {
    pub(crate) id: String,
    pub(crate) revision: u64,
}

impl Suspended {
    /// The run.
    pub fn run_id(&self) -> RunId {
        self.run.id()
    }

    /// The questions it waits for.
    pub fn approvals(&self) -> Vec<&ApprovalRequest> {
        self.run.open_approvals()
    }

    /// Answers one question.
    pub fn decide(
        mut self,
        id: ApprovalId,
        decision: ApprovalDecision,
    ) -> Result<Self, SuspendedError> {
        self.run.apply(Feed::ApprovalDecided { id, decision })?;
        Ok(self)
    }

    /// Says yes to every open question.
    #[must_use]
    pub fn approve_all(self) -> Self {
        self.decide_all(&ApprovalDecision::Approve)
    }

    /// Says no to every open question.
    #[must_use]
    pub fn deny_all(self, reason: impl Into<String>) -> Self {
        self.decide_all(&ApprovalDecision::Deny { reason: reason.into() })
    }

    fn decide_all(mut self, decision: &ApprovalDecision) -> Self {
        let ids: Vec<ApprovalId> = self.approvals().iter().map(|request| request.id).collect();
        for id in ids {
            // An id that was listed as open a line above is open.
            let decided = self.run.apply(Feed::ApprovalDecided { id, decision: decision.clone() });
            debug_assert!(decided.is_ok());
        }
        self
    }

    /// The stored form.
    pub fn to_bytes(&self) -> Result<Vec<u8>, SuspendedError> {
        Ok(serde_json::to_vec(self)?)
    }

    /// Back from the stored form.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SuspendedError> {
        #[derive(Deserialize)]
        struct Probe {
            run: Version,
        }
        #[derive(Deserialize)]
        struct Version {
            version: u16,
        }
        let probe: Probe = serde_json::from_slice(bytes)?;
        if probe.run.version != crate::run::RUN_VERSION {
            return Err(SuspendedError::Version);
        }
        Ok(serde_json::from_slice(bytes)?)
    }
}
