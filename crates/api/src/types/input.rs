//! Inputs: messages to tasks and runs in progress.

use provost_core::command::{InputProvenance, RoutingContext};
use provost_core::lifecycle::{InputOutcome, InteractionState};
use provost_core::scheduling::InputMode;
use provost_core::{ApprovalId, ExecutionId, InputId, Message, RunId, TaskId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{DateTime, MessageInput};

/// A message to a run or a task.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewInput {
    /// Content of the message.
    pub message: MessageInput,
    /// Handling of the message if the run is active. The default is the setting of the session or agent, else `followup`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<InputMode>,
    /// Idempotency key. A repeated request with the same key returns the first result. The header `Idempotency-Key` has the
    /// same meaning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Origin of the message.
    #[serde(default)]
    pub provenance: InputProvenance,
    /// Channel of the message and of its answer.
    #[serde(default)]
    pub routing: RoutingContext,
}

/// Receipt of an accepted message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InputReceipt {
    /// Id of the message.
    pub input: InputId,
    /// Task that received the message.
    pub task: TaskId,
    /// Run that answers the message.
    pub run: RunId,
    /// How the message is handled.
    pub outcome: InputOutcome,
    /// True if the message was accepted before under the same idempotency key.
    pub deduped: bool,
}

/// A message that no run has read yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PendingInput {
    /// Id of the message.
    pub id: InputId,
    /// Task that received the message.
    pub task: TaskId,
    /// Run that will read the message. Absent if no run is assigned yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Handling of the message.
    pub mode: InputMode,
    /// Outcome that the sender received.
    pub outcome: InputOutcome,
    /// Content of the message.
    pub message: Message,
    /// Origin of the message.
    pub provenance: InputProvenance,
    /// Time at which the message was accepted.
    pub created: DateTime,
}

/// Input state of a run: whether it accepts messages, and what it waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunInteraction {
    /// Id of the run.
    pub run: RunId,
    /// Whether the run works, waits for input, or accepts no more input.
    pub state: InteractionState,
    /// Current execution of the run. Absent if no worker executes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<ExecutionId>,
    /// Pending approvals of the run.
    pub approvals: Vec<ApprovalId>,
    /// Messages that the run has not read yet.
    pub pending: Vec<PendingInput>,
}
