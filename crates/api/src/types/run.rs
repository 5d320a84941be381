//! Runs, their attempts, steps and transitions.

use provost_core::execution_policy::ExecutionPolicy;
use provost_core::lifecycle::{
    AttemptReason, AttemptStatus, RunPhase, RunStatus, StepKind, StepState,
};
use provost_core::recovery::{EffectClass, OutcomeCode};
use provost_core::{ExecutionId, Message, Money, RunId, TaskId, ToolResult, Usage, WorkerId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{DateTime, MessageInput};

/// One execution of an agent for a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Id of the run.
    pub id: RunId,
    /// Namespace of the run.
    pub namespace: String,
    /// Task that the run answers.
    pub task: TaskId,
    /// Number of the run within its task, from 1.
    pub ordinal: u64,
    /// Session that the run writes to.
    pub session: String,
    /// Name of the agent.
    pub agent: String,
    /// Revision of the agent. It does not change during the run.
    pub agent_revision: u64,
    /// Status for users.
    pub status: RunStatus,
    /// Phase for the scheduler.
    pub phase: RunPhase,
    /// Outcome of the run, or of its last attempt if the run has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OutcomeCode>,
    /// Explanation of the outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Answer of the run. Absent until the run has ended successfully.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Condition that a parked run waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked_for: Option<String>,
    /// Key of the execution class.
    pub class: String,
    /// Execution policy of commands.
    pub policy: ExecutionPolicy,
    /// Number of the current attempt. Zero before the first attempt.
    pub attempt: u64,
    /// Epoch of the run. Each claim increases it.
    pub epoch: u64,
    /// Worker that executes the run. Absent if no worker has claimed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerId>,
    /// Earliest start time.
    pub not_before: DateTime,
    /// Time by which the run must have ended. Absent if there is no deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<DateTime>,
    /// Time limit in milliseconds, counted from the start of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Time at which cancellation was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_requested: Option<DateTime>,
    /// Run that started this run as a child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunId>,
    /// Number of ancestors of the run.
    pub depth: u64,
    /// Run from which this run was forked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<RunId>,
    /// Last step that this run shares with the run from which it was forked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_step: Option<u64>,
    /// Tokens that the run used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Cost of the run.
    pub cost: Money,
    /// Number of durable events.
    pub events: u64,
    /// Number of steps.
    pub steps: u64,
    /// Creation time.
    pub created: DateTime,
    /// Time of the first claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<DateTime>,
    /// End time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<DateTime>,
}

/// Filter of the list of runs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RunQuery {
    /// Lists only runs with this status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
    /// Lists only runs in this phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<RunPhase>,
    /// Lists only runs of this task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// Lists only runs of this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Lists only runs of this agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Lists only children of this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunId>,
    /// Maximum number of items in the page, from 1 to 500. The default is 50.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 500))]
    pub limit: Option<u64>,
    /// Start of the page: the `next` value of the previous page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// One attempt of one worker to execute a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    /// Number of the attempt, from 1.
    pub number: u64,
    /// Reason of the attempt.
    pub strategy: AttemptReason,
    /// Status of the attempt.
    pub status: AttemptStatus,
    /// Epoch of the attempt.
    pub epoch: u64,
    /// Provider of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Name of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Id of the execution.
    pub execution: ExecutionId,
    /// Worker that executes the attempt.
    pub worker: WorkerId,
    /// Start time.
    pub started: DateTime,
    /// End time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<DateTime>,
    /// Outcome of the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OutcomeCode>,
    /// Explanation of the outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// A step of a run's journal: one effect, such as a model call or a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// Number of the step. A fork names this number.
    pub number: u64,
    /// Kind of the step.
    pub kind: StepKind,
    /// State of the step.
    pub state: StepState,
    /// Name of the tool or the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Id that the model gave the tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// Effect class of the tool call. It determines the recovery after a crash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect_class: Option<EffectClass>,
    /// Idempotency key that the tool receives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect_key: Option<String>,
    /// Number of attempts.
    pub tries: u64,
    /// Epoch of the last write.
    pub epoch: u64,
    /// Message that the step produced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
    /// Result of the tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<ToolResult>,
    /// Start time.
    pub started: DateTime,
    /// End time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<DateTime>,
}

/// A state change of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunTransition {
    /// Number of the event that recorded the change.
    pub seq: u64,
    /// Kind of the event.
    pub kind: String,
    /// Status of the run after the change.
    pub status: RunStatus,
    /// Attempt that was in progress. Zero before the first attempt.
    pub attempt: u64,
    /// Epoch of the write.
    pub epoch: u64,
    /// Time of the change.
    pub at: DateTime,
    /// Error that caused the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Data of the event. Its structure depends on the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<serde_json::Value>,
}

/// Outcome of a cancellation request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CancelOutcome {
    /// The run is cancelled. No worker was executing it.
    Now,
    /// The worker that executes the run will stop it. If the worker is gone, the run ends when its lease expires.
    Requested,
    /// The run had already ended.
    AlreadyTerminal,
}

/// Receipt of a cancellation request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CancelReceipt {
    /// Outcome of the request.
    pub outcome: CancelOutcome,
}

/// Request to fork a run. `say` and `instead` exclude each other.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ForkRequest {
    /// Last shared step. The default is the last committed step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// Message to add after the shared steps.
    #[serde(rename = "say", skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageInput>,
    /// Message that replaces the last user message of the shared steps.
    #[serde(rename = "instead", skip_serializing_if = "Option::is_none")]
    pub replace_last_message: Option<MessageInput>,
    /// Idempotency key. A repeated request with the same key returns the first result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// Receipt of a fork.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ForkReceipt {
    /// Task of the fork.
    pub task: TaskId,
    /// Run of the fork.
    pub run: RunId,
    /// Session of the fork.
    pub session: String,
    /// True if the fork was created before under the same idempotency key.
    pub deduped: bool,
}

/// Result of a replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayReport {
    /// True if the replay produced the stored results.
    pub consistent: bool,
    /// Number of replayed journal entries.
    pub feeds: u64,
    /// Number of events.
    pub events: u64,
    /// Number of model calls.
    pub turns: u32,
    /// Answer of the run according to its journal.
    pub answer: String,
    /// Differences in plain text. Empty if the replay is consistent.
    pub differences: Vec<String>,
}

/// Result of waiting for a run. A timeout does not affect the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitResult {
    /// True if the timeout elapsed before the run ended.
    pub timed_out: bool,
    /// The run.
    pub run: Run,
}
