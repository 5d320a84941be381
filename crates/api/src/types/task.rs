//! Tasks: durable requests to agents.

use provost_core::command::{InputProvenance, RoutingContext};
use provost_core::execution_policy::ExecutionPolicyPatch;
use provost_core::id::name::SessionName;
use provost_core::lifecycle::{InputOutcome, TaskState};
use provost_core::scheduling::InputMode;
use provost_core::{ContentPart, InputId, Money, RunId, TaskId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{DateTime, MessageInput};

/// A task to submit.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTask {
    /// Message of the user: text, images and documents.
    pub message: MessageInput,
    /// Name of the agent. The default is the default agent of the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Id of the inbound hook that submitted the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook_id: Option<String>,
    /// Session that the task continues. If absent, the server creates a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionName>,
    /// Session key. The task continues the session that has this key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// True delivers the answer to the channel in `routing`.
    #[serde(default)]
    pub deliver: bool,
    /// True accepts the task even if no channel can deliver the answer. The answer is then only stored.
    #[serde(default)]
    pub best_effort_deliver: bool,
    /// Time limit of a run in milliseconds. Zero means no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Restrictions of the agent's execution policy. They cannot widen it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<ExecutionPolicyPatch>,
    /// Lane: tasks of different lanes use different execution classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
    /// Text to append to the agent's system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_system_prompt: Option<String>,
    /// User of the task. The run reads and writes the `user:` state of this user. The default is the name of the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Origin of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_provenance: Option<InputProvenance>,
    /// Channel of the message and of its answer.
    #[serde(default)]
    pub routing: RoutingContext,
    /// Images and documents to append to the message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<ContentPart>,
    /// Idempotency key. A repeated request with the same key returns the first result. The header `Idempotency-Key` has the
    /// same meaning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Id for the run that answers, chosen by the caller. A repeated request with the same id returns the first result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Label for display and for filters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Schedule, run or channel that requested the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spawned_by: Option<String>,
    /// Handling of the message if the session has an active run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_mode: Option<InputMode>,
    /// Priority. One step is worth one minute of waiting.
    #[serde(default)]
    pub priority: i32,
    /// Spending limit of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Money>,
    /// Time by which the task must have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<DateTime>,
    /// True always creates a task. False lets the message follow up on the active task of the session.
    #[serde(default)]
    pub new_task: bool,
    /// Delay before the task starts, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// Maximum time in milliseconds that a due task waits for a worker. If absent, there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_timeout_ms: Option<u64>,
}

impl NewTask {
    /// Creates a task with a text message.
    pub fn text(text: impl Into<String>) -> Self {
        Self { message: MessageInput::Text(text.into()), ..Self::default() }
    }
}

/// Receipt of a task that is stored durably.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskReceipt {
    /// Id of the task.
    pub task: TaskId,
    /// Run that answers the task.
    pub run: RunId,
    /// Id of the message.
    pub input: InputId,
    /// Session of the task.
    pub session: String,
    /// How the message is handled.
    pub outcome: InputOutcome,
    /// True if the task was accepted before under the same idempotency key or run id.
    pub deduped: bool,
}

/// Receipt of a retry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RetryReceipt {
    /// The new run.
    pub run: RunId,
}

/// A durable request to an agent. One or more runs answer it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    /// Id of the task.
    pub id: TaskId,
    /// Namespace of the task.
    pub namespace: String,
    /// State of the task.
    pub state: TaskState,
    /// Name of the agent.
    pub agent: String,
    /// Revision of the agent when the task was submitted.
    pub agent_revision: u64,
    /// Session of the task.
    pub session: String,
    /// Parent task, if another task requested this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<TaskId>,
    /// Handling of inputs while a run is active.
    pub queue_mode: InputMode,
    /// Priority. One step is worth one minute of waiting.
    pub priority: i64,
    /// Text of the first message. Lists contain only its beginning.
    pub message: String,
    /// Label for display and for filters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Schedule, run or channel that requested the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spawned_by: Option<String>,
    /// Current run of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Number of runs.
    pub run_count: u64,
    /// Reason why the task was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop_reason: Option<String>,
    /// Condition that the task waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    /// Time at which the task continues by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_at: Option<DateTime>,
    /// Time by which the task must have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<DateTime>,
    /// Total cost of all runs.
    pub cost: Money,
    /// Version of the task. Each change increases it.
    pub version: u64,
    /// Creation time.
    pub created: DateTime,
    /// Time of the last change.
    pub updated: DateTime,
    /// End time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<DateTime>,
    /// Time at which the task was archived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<DateTime>,
}

/// Filter of the list of tasks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TaskQuery {
    /// Lists only tasks in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<TaskState>,
    /// Lists only tasks of this agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Lists only tasks of this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Lists only tasks with this label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Lists only children of this task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<TaskId>,
    /// True includes archived tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archived: Option<bool>,
    /// Maximum number of items in the page, from 1 to 500. The default is 50.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 500))]
    pub limit: Option<u64>,
    /// Start of the page: the `next` value of the previous page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}
