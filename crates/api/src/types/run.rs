//! Runs: one turn-taking life of a task, its attempts and its steps.

use provost_core::execution_policy::ExecutionPolicy;
use provost_core::lifecycle::{
    AttemptReason, AttemptStatus, RunPhase, RunStatus, StepKind, StepState,
};
use provost_core::recovery::{EffectClass, OutcomeCode};
use provost_core::{ExecutionId, Message, Money, RunId, TaskId, ToolResult, Usage, WorkerId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Said, Time};

/// A run as it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// The id.
    pub id: RunId,
    /// The namespace.
    pub namespace: String,
    /// The task it works on.
    pub task: TaskId,
    /// Its place among the task's runs, from 1.
    pub ordinal: u64,
    /// The session it writes to.
    pub session: String,
    /// The agent.
    pub agent: String,
    /// The agent's revision, for the whole life of the run.
    pub agent_revision: u64,
    /// How it stands for people.
    pub status: RunStatus,
    /// How it stands for the scheduler.
    pub phase: RunPhase,
    /// How it ended, or how its last try did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OutcomeCode>,
    /// What to say about how it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What it answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// What a parked run waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked_for: Option<String>,
    /// The scheduling class.
    pub class: String,
    /// How its commands may run.
    pub policy: ExecutionPolicy,
    /// The number of the current attempt; zero before the first.
    pub attempt: u64,
    /// The fencing token: each claim raises it.
    pub epoch: u64,
    /// Who works on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerId>,
    /// It may not start earlier.
    pub not_before: Time,
    /// It must have ended by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// How long it may take once it has started, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// When somebody asked to cancel it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_requested: Option<Time>,
    /// The run that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunId>,
    /// How many runs are above it.
    pub depth: u64,
    /// The run whose first steps it shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<RunId>,
    /// The last step that it shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_step: Option<u64>,
    /// What it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What it cost.
    pub cost: Money,
    /// Events it has.
    pub events: u64,
    /// Steps it has.
    pub steps: u64,
    /// When it was made.
    pub created: Time,
    /// When it was first claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
}

/// Which runs to list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RunList {
    /// With this status only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
    /// In this phase only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<RunPhase>,
    /// Of this task only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// Of this session only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Of this agent only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Started by this run only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunId>,
    /// Items of a page: 1 to 500.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 500))]
    pub limit: Option<u64>,
    /// Where the page begins: `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// One try of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    /// Counts up from one.
    pub number: u64,
    /// Why it was started.
    pub strategy: AttemptReason,
    /// Where it stands.
    pub status: AttemptStatus,
    /// The epoch under which it writes.
    pub epoch: u64,
    /// The model's provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The place where it runs.
    pub execution: ExecutionId,
    /// Who runs it.
    pub worker: WorkerId,
    /// When it was started.
    pub started: Time,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OutcomeCode>,
    /// What to say about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// One step of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// Its number: what a fork names.
    pub number: u64,
    /// What it does.
    pub kind: StepKind,
    /// Where it stands.
    pub state: StepState,
    /// The tool or the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The model's id of the tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// What may be done about it after a crash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect_class: Option<EffectClass>,
    /// The key by which a target sees a repetition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect_key: Option<String>,
    /// How often it was tried.
    pub tries: u64,
    /// The epoch that wrote it last.
    pub epoch: u64,
    /// The message that came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
    /// What its tool answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<ToolResult>,
    /// When it was started.
    pub started: Time,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
}

/// A change in the life of a run, with how it stood then.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// The number of the event.
    pub seq: u64,
    /// What happened.
    pub kind: String,
    /// How the run stood afterwards.
    pub status: RunStatus,
    /// The attempt that was under way; zero before the first.
    pub attempt: u64,
    /// The epoch that wrote it.
    pub epoch: u64,
    /// When.
    pub at: Time,
    /// What went wrong, if something did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<serde_json::Value>,
}

/// What a request to cancel found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CancelOutcome {
    /// It is over now: no worker had it.
    Now,
    /// Its worker stops it at the next moment; if that is gone, it ends with its lease.
    Requested,
    /// It had ended before.
    AlreadyTerminal,
}

/// A cancelled run or task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cancelled {
    /// What was found.
    pub outcome: CancelOutcome,
}

/// What is different in a fork.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Fork {
    /// The last step that is shared; the newest committed one if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// What is said after the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub say: Option<Said>,
    /// What is said instead of the newest message of the user's side up to the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead: Option<Said>,
    /// Makes a repeat harmless.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// A fork that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Forked {
    /// The new task.
    pub task: TaskId,
    /// Its run.
    pub run: RunId,
    /// Its session.
    pub session: String,
    /// True if this very fork was made before.
    pub deduped: bool,
}

/// What a read-only replay found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Replay {
    /// True if everything fits together.
    pub consistent: bool,
    /// How many feeds were folded.
    pub feeds: u64,
    /// How many events were read.
    pub events: u64,
    /// The model calls of the run.
    pub turns: u32,
    /// What the machine says that the run answered.
    pub answer: String,
    /// Everything that does not fit together, in words.
    pub differences: Vec<String>,
}

/// What waiting brought. Waiting out never stops a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Waited {
    /// True if the time was over first.
    pub timed_out: bool,
    /// The run as it stands.
    pub run: Run,
}
