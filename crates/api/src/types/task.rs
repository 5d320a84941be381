//! Tasks: what was asked for.

use provost_core::command::{InputProvenance, RoutingContext};
use provost_core::execution_policy::ExecutionPolicyPatch;
use provost_core::id::name::SessionName;
use provost_core::lifecycle::{InputOutcome, TaskState};
use provost_core::scheduling::InputMode;
use provost_core::{ContentPart, InputId, Money, RunId, TaskId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Said, Time};

/// A piece of work that is handed in.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTask {
    /// What is said: text, pictures, documents.
    pub message: Said,
    /// Which agent; the namespace's own if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The hook that sent it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook_id: Option<String>,
    /// Which conversation; a new one if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionName>,
    /// The routing bucket whose present conversation is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// True if the answer is sent out by the routing.
    #[serde(default)]
    pub deliver: bool,
    /// True if it is accepted also where nobody knows how to send the answer out.
    #[serde(default)]
    pub best_effort_deliver: bool,
    /// Milliseconds a run may take in all; zero is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How commands may run, as far as it is tighter than what the agent may do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<ExecutionPolicyPatch>,
    /// A label that splits or joins budgets of concurrency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
    /// What is added to the agent's instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_system_prompt: Option<String>,
    /// For whom it is: whose `user:` values of the state the run sees and sets. The name of the token, if nobody is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Where the message came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_provenance: Option<InputProvenance>,
    /// Where it came in and where the answer goes.
    #[serde(default)]
    pub routing: RoutingContext,
    /// Pictures and documents that come with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<ContentPart>,
    /// Makes a repeat of this command harmless; the header `Idempotency-Key` says the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// The id of the run that answers, chosen by the caller; it makes a repeat harmless, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Who spawned it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spawned_by: Option<String>,
    /// What to do if the session is busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_mode: Option<InputMode>,
    /// Who goes first: one step counts like one minute of waiting.
    #[serde(default)]
    pub priority: i32,
    /// Money the task may spend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Money>,
    /// When the task must be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// True if it is never a follow-up of what the session already has.
    #[serde(default)]
    pub new_task: bool,
    /// Milliseconds to wait before it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// Milliseconds it may wait for a worker once it is due; without it, as long as it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_timeout_ms: Option<u64>,
}

impl NewTask {
    /// A task that says some text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { message: Said::Text(text.into()), ..Self::default() }
    }
}

/// A command that was taken in: nothing can lose it any more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Accepted {
    /// The task.
    pub task: TaskId,
    /// The run that answers.
    pub run: RunId,
    /// The message that was taken in.
    pub input: InputId,
    /// The session.
    pub session: String,
    /// What becomes of the message.
    pub outcome: InputOutcome,
    /// True if this very command had been accepted before.
    pub deduped: bool,
}

/// A run that was started again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Started {
    /// The run.
    pub run: RunId,
}

/// A task as it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    /// The id.
    pub id: TaskId,
    /// The namespace.
    pub namespace: String,
    /// Where it stands.
    pub state: TaskState,
    /// The agent that was asked.
    pub agent: String,
    /// Its revision at that time.
    pub agent_revision: u64,
    /// The session it belongs to.
    pub session: String,
    /// The task that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<TaskId>,
    /// How inputs are queued.
    pub queue_mode: InputMode,
    /// One step counts like a minute of waiting.
    pub priority: i64,
    /// What was asked first, as text; where the task is one of many, the beginning of it.
    pub message: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Who asked: a schedule, a run, a channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spawned_by: Option<String>,
    /// The run that answers for it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// How many runs it had.
    pub run_count: u64,
    /// Why it was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop_reason: Option<String>,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    /// When it goes on by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_at: Option<Time>,
    /// It must have ended by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// What all its runs cost.
    pub cost: Money,
    /// Rises with each change.
    pub version: u64,
    /// When it was asked.
    pub created: Time,
    /// When it last changed.
    pub updated: Time,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
    /// When it was put away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<Time>,
}

/// Which tasks to list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TaskList {
    /// In this state only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<TaskState>,
    /// Of this agent only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Of this session only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// With this label only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Asked for by this task only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<TaskId>,
    /// Also those that were put away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archived: Option<bool>,
    /// Items of a page: 1 to 500.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 500))]
    pub limit: Option<u64>,
    /// Where the page begins: `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}
