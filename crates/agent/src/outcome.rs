//! Results of a run.

use std::sync::Arc;
use std::time::Duration;

use provost_core::{
    AgentUsage, ApprovalDecision, ApprovalId, ApprovalRequest, LimitReached, Message, Money, RunId,
    RunSummary, StopReason, ToolCall, ToolResult, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::Error;
use crate::run::{JournalEntry, Run, TransitionError};

/// The result of a run that completed, either normally or at a limit.
#[derive(Debug, Clone, PartialEq)]
pub struct RunResult<O = String> {
    /// The final response of the model, decoded into the output type.
    pub output: O,
    /// Id of the run.
    pub run_id: RunId,
    /// Text of the final response, as the model sent it.
    pub text: String,
    /// The model's reasoning in the final turn. Empty if the provider reports none.
    pub reasoning: String,
    /// Reason why the run stopped.
    pub stop: StopReason,
    /// Limit that stopped the run. `None` if no limit did.
    pub limit: Option<LimitReached>,
    /// Tool calls that the model requested and that did not run.
    pub pending_calls: Vec<ToolCall>,
    /// All tool results of the run, in call order.
    pub tool_results: Vec<ToolResult>,
    /// Tokens of all model calls, including descendants.
    pub usage: Usage,
    /// Cost of all model calls with a known price.
    pub cost: Option<Money>,
    /// Number of model calls without a known price. `cost` does not include them.
    pub unpriced_calls: u32,
    /// Number of model calls.
    pub turns: u32,
    /// Number of tool calls, including denied calls and calls of unknown tools.
    pub tool_calls: u32,
    /// Time from start to end.
    pub duration: Duration,
    /// Agent that gave the final response.
    pub agent: String,
    /// The provider's id of the last response.
    pub response_id: Option<String>,
    /// Usage per agent. Empty if the run had only one agent.
    pub agents: Vec<AgentUsage>,
    /// Every message that the run added to the conversation.
    pub messages: Vec<Arc<Message>>,
    /// The run's state at its end.
    pub state: Map<String, Value>,
}

impl RunResult {
    /// Creates the result from the summary of a run. The output is the text of the final response.
    pub(crate) fn new(run_id: RunId, summary: RunSummary, messages: Vec<Arc<Message>>) -> Self {
        Self {
            output: summary.text.clone(),
            run_id,
            text: summary.text,
            reasoning: summary.reasoning,
            stop: summary.stop,
            limit: summary.limit,
            pending_calls: summary.pending_calls,
            tool_results: summary.tool_results,
            usage: summary.usage,
            cost: summary.cost,
            unpriced_calls: summary.unpriced_calls,
            turns: summary.turns,
            tool_calls: summary.tool_calls,
            duration: summary.duration,
            agent: summary.agent,
            response_id: summary.response_id,
            agents: summary.agents,
            messages,
            state: Map::new(),
        }
    }
}

impl<O> RunResult<O> {
    /// Returns the totals of the run, as in the event [`Finished`](provost_core::EventKind::Finished).
    pub fn summary(&self) -> RunSummary {
        RunSummary {
            text: self.text.clone(),
            reasoning: self.reasoning.clone(),
            stop: self.stop,
            limit: self.limit.clone(),
            pending_calls: self.pending_calls.clone(),
            tool_results: self.tool_results.clone(),
            usage: self.usage,
            cost: self.cost,
            unpriced_calls: self.unpriced_calls,
            turns: self.turns,
            tool_calls: self.tool_calls,
            duration: self.duration,
            agent: self.agent.clone(),
            response_id: self.response_id.clone(),
            agents: self.agents.clone(),
        }
    }

    /// Replaces the output.
    fn with_output<T>(self, output: T) -> RunResult<T> {
        RunResult {
            output,
            run_id: self.run_id,
            text: self.text,
            reasoning: self.reasoning,
            stop: self.stop,
            limit: self.limit,
            pending_calls: self.pending_calls,
            tool_results: self.tool_results,
            usage: self.usage,
            cost: self.cost,
            unpriced_calls: self.unpriced_calls,
            turns: self.turns,
            tool_calls: self.tool_calls,
            duration: self.duration,
            agent: self.agent,
            response_id: self.response_id,
            agents: self.agents,
            messages: self.messages,
            state: self.state,
        }
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
    /// Returns the result of a completed run. Every other outcome becomes an error.
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
    /// Decodes the output of a completed run into its type. Returns an error if it does not match.
    pub(crate) fn decode<O>(
        self,
        decode: fn(&str) -> Result<O, String>,
    ) -> Result<RunOutcome<O>, Error> {
        Ok(match self {
            Self::Completed(result) => {
                let output = decode(&result.output)
                    .map_err(|problem| Error::Output { problem, raw: result.output.clone() })?;
                RunOutcome::Completed(result.with_output(output))
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
    /// Returns the id of the run.
    pub fn run_id(&self) -> RunId {
        self.run.id()
    }

    /// Returns the pending approvals.
    pub fn approvals(&self) -> Vec<&ApprovalRequest> {
        self.run.pending_approvals()
    }

    /// Approves one pending approval. Returns an error if the approval is not pending.
    pub fn approve(self, id: ApprovalId) -> Result<Self, SuspendedRunError> {
        self.decide(id, ApprovalDecision::Approve)
    }

    /// Rejects one pending approval. The model receives the reason.
    pub fn reject(
        self,
        id: ApprovalId,
        reason: impl Into<String>,
    ) -> Result<Self, SuspendedRunError> {
        self.decide(id, ApprovalDecision::Deny { reason: reason.into() })
    }

    /// Decides one pending approval with any [`ApprovalDecision`], such as an approval with other arguments. Returns an
    /// error if the approval is not pending.
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

    /// Rejects every pending approval.
    #[must_use]
    pub fn reject_all(self, reason: impl Into<String>) -> Self {
        self.decide_all(&ApprovalDecision::Deny { reason: reason.into() })
    }

    /// Applies one decision to every pending approval.
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

    /// Deserializes a stored run. Returns an error if another version of the program stored it.
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
