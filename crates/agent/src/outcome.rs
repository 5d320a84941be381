//! Results of a run.

use std::ops::Deref;
use std::sync::Arc;

use provost_core::{ApprovalDecision, ApprovalId, ApprovalRequest, Message, RunId, RunSummary};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::Error;
use crate::run::{JournalEntry, Run, TransitionError};

/// The result of a run that completed, either normally or at a limit.
///
/// Dereferences to its [`RunSummary`]: `result.turns`, `result.usage`, `result.stop`.
#[derive(Debug, Clone, PartialEq)]
pub struct RunResult<O = String> {
    /// The final response of the model.
    pub output: O,
    /// Id of the run.
    pub run_id: RunId,
    /// Usage, limits and other details.
    pub summary: RunSummary,
    /// Every message that the run added to the conversation.
    pub messages: Vec<Arc<Message>>,
    /// The run's state at its end.
    pub state: Map<String, Value>,
}

impl<O> Deref for RunResult<O> {
    type Target = RunSummary;
    fn deref(&self) -> &RunSummary {
        &self.summary
    }
}

/// Outcome of a run. Only the first variant carries an output.
#[derive(Debug, Clone, PartialEq)]
pub enum RunOutcome<O = String> {
    /// The run completed, or stopped at a limit with a partial result.
    Completed(RunResult<O>),
    /// The run waits for decisions. Store it and resume it later, in this process or another one.
    Suspended(SuspendedRun),
    /// A hook denied the run before the first model call.
    Denied {
        /// Reason for the model or the user.
        reason: String,
    },
    /// The run was cancelled from outside.
    Cancelled(RunSummary),
}

impl<O> RunOutcome<O> {
    /// Returns the result of a completed run; every other variant becomes an error.
    pub fn into_result(self) -> Result<RunResult<O>, Error> {
        match self {
            Self::Completed(result) => Ok(result),
            Self::Suspended(suspended) => Err(Error::Suspended(Box::new(suspended))),
            Self::Denied { reason } => Err(Error::Denied { reason }),
            Self::Cancelled(partial) => Err(Error::Cancelled { partial: Box::new(partial) }),
        }
    }
}

impl RunOutcome<String> {
    /// Decodes the output into its type.
    pub(crate) fn decode<O>(
        self,
        decode: fn(&str) -> Result<O, String>,
    ) -> Result<RunOutcome<O>, Error> {
        Ok(match self {
            Self::Completed(result) => {
                let output = decode(&result.output)
                    .map_err(|problem| Error::Output { problem, raw: result.output.clone() })?;
                let RunResult { run_id, summary, messages, state, .. } = result;
                RunOutcome::Completed(RunResult { output, run_id, summary, messages, state })
            }
            Self::Suspended(suspended) => RunOutcome::Suspended(suspended),
            Self::Denied { reason } => RunOutcome::Denied { reason },
            Self::Cancelled(partial) => RunOutcome::Cancelled(partial),
        })
    }
}

/// Error of loading, storing or deciding a suspended run.
#[derive(Debug, thiserror::Error)]
pub enum SuspendedRunError {
    /// The bytes are not a suspended run of this version.
    #[error("not a suspended run: {0}")]
    Format(#[from] serde_json::Error),
    /// The run was stored by another version.
    #[error("the run was stored by another version of Provost; resume it with that version")]
    Version,
    /// No pending approval has this id.
    #[error(transparent)]
    Decision(#[from] TransitionError),
}

/// A suspended run as a value: pass it to [`Agent::resume`](crate::Agent::resume) after its approvals are decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SuspendedRun {
    pub(crate) run: Box<Run>,
    pub(crate) session: Option<SessionRevision>,
    /// Number of the first event after the run is resumed.
    pub(crate) next_seq: u64,
}

/// The session of a run and the revision that the run has seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionRevision {
    pub(crate) id: String,
    pub(crate) revision: u64,
}

impl SuspendedRun {
    /// Id of the run.
    pub fn run_id(&self) -> RunId {
        self.run.id()
    }

    /// The pending approvals.
    pub fn approvals(&self) -> Vec<&ApprovalRequest> {
        self.run.pending_approvals()
    }

    /// Decides one pending approval.
    pub fn decide(
        mut self,
        id: ApprovalId,
        decision: ApprovalDecision,
    ) -> Result<Self, SuspendedRunError> {
        self.run.apply(JournalEntry::ApprovalDecided { id, decision })?;
        Ok(self)
    }

    /// Approves every pending approval.
    #[must_use]
    pub fn approve_all(self) -> Self {
        self.decide_all(&ApprovalDecision::Approve)
    }

    /// Denies every pending approval.
    #[must_use]
    pub fn deny_all(self, reason: impl Into<String>) -> Self {
        self.decide_all(&ApprovalDecision::Deny { reason: reason.into() })
    }

    fn decide_all(mut self, decision: &ApprovalDecision) -> Self {
        let ids: Vec<ApprovalId> = self.approvals().iter().map(|request| request.id).collect();
        for id in ids {
            // The id comes from the list of pending approvals, so the decision cannot fail.
            let decided =
                self.run.apply(JournalEntry::ApprovalDecided { id, decision: decision.clone() });
            debug_assert!(decided.is_ok());
        }
        self
    }

    /// Serializes the run for storage.
    pub fn to_bytes(&self) -> Result<Vec<u8>, SuspendedRunError> {
        Ok(serde_json::to_vec(self)?)
    }

    /// Deserializes a stored run. Fails if another version stored it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SuspendedRunError> {
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
            return Err(SuspendedRunError::Version);
        }
        Ok(serde_json::from_slice(bytes)?)
    }
}
