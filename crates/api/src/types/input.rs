//! What is said to a task while it lives.

use provost_core::command::{InputProvenance, RoutingContext};
use provost_core::lifecycle::InputOutcome;
use provost_core::scheduling::InputMode;
use provost_core::{ApprovalId, ExecutionId, InputId, Message, RunId, TaskId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Said, Time};

/// A message for a run or a task.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewInput {
    /// What is said.
    pub message: Said,
    /// What to do if the run is busy; `followup` if nobody says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<InputMode>,
    /// Makes a repeat harmless; the header `Idempotency-Key` says the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Where it came from.
    #[serde(default)]
    pub provenance: InputProvenance,
    /// Where it came in and where the answer goes.
    #[serde(default)]
    pub routing: RoutingContext,
}

/// What became of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InputReceipt {
    /// The message.
    pub input: InputId,
    /// The task that has it.
    pub task: TaskId,
    /// The run that answers it.
    pub run: RunId,
    /// What happens to it.
    pub outcome: InputOutcome,
    /// True if it was here before.
    pub deduped: bool,
}

/// A message that nobody has read yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PendingInput {
    /// The message.
    pub id: InputId,
    /// The task it is for.
    pub task: TaskId,
    /// The run that will read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// How it waits.
    pub mode: InputMode,
    /// What its sender was told.
    pub outcome: InputOutcome,
    /// What it says.
    pub message: Message,
    /// Where it came from.
    pub provenance: InputProvenance,
    /// When it came.
    pub created: Time,
}

/// A run as somebody sees it who could say something to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interaction {
    /// The run.
    pub run: RunId,
    /// What it does: `working`, `waiting_for_input` or `closed`.
    pub state: provost_core::lifecycle::InteractionState,
    /// Where it is being carried out at this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<ExecutionId>,
    /// The questions that it has asked and nobody has answered.
    pub approvals: Vec<ApprovalId>,
    /// What waits to be read by it.
    pub pending: Vec<PendingInput>,
}
