//! What happens: durable events, live pieces, logs.

use provost_core::{Message, RunId, TaskId, ToolResult};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Interaction, PendingInput, Run, Task, Time};

/// A durable event of a run: numbered without a gap, never changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunEvent {
    /// The run.
    pub run: RunId,
    /// Its number in the run: 1, 2, 3 …
    pub seq: u64,
    /// The epoch that wrote it.
    pub epoch: u64,
    /// The attempt that wrote it.
    pub attempt: u64,
    /// The agent, with the agents above it, if the run is below another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The call of the run above that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// What happened: `accepted`, `turn_finished`, `tool_finished`, `finished` …
    pub kind: String,
    /// When.
    pub at: Time,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// The message it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
    /// The result of the tool call it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<ToolResult>,
}

/// A live piece of what a run is doing. It may be lost; the durable event that ends the thing has the whole of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Delta {
    /// The run.
    pub run: RunId,
    /// The epoch of the attempt.
    pub epoch: u64,
    /// The piece, in the words of the agent's own events: `text_delta`, `tool_started` …
    #[serde(flatten)]
    pub event: Value,
}

/// One thing of a stream.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamItem {
    /// A durable event and the cursor after it.
    Event {
        /// Give it as `after` to go on behind this event.
        cursor: String,
        /// The event.
        event: Box<RunEvent>,
    },
    /// A live piece.
    Delta(Box<Delta>),
    /// The cursor does not belong to this log, or what it names is not kept any more: forget what you had; the stream begins
    /// at the oldest event that is kept.
    Reset,
    /// Live pieces were left out because this reader is slow. Nothing durable is missing.
    Lagged,
    /// The run is over; nothing follows.
    End,
}

/// Who speaks in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogStream {
    /// The user's side.
    User,
    /// The agent.
    Assistant,
    /// A tool.
    Tool,
    /// Provost.
    System,
}

/// One line of a task's log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogEntry {
    /// The run.
    pub run: RunId,
    /// When.
    pub at: Time,
    /// Who speaks.
    pub stream: LogStream,
    /// What is said.
    pub text: String,
}

/// What is new about a task, for those who poll.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventBatch {
    /// The task.
    pub task_id: TaskId,
    /// The run that answers for it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The task as it stands.
    pub task: Task,
    /// The run as it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Run>,
    /// What can be said to it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interaction: Option<Interaction>,
    /// What was said since.
    pub logs: Vec<LogEntry>,
    /// What happened since.
    pub run_events: Vec<RunEvent>,
    /// What waits to be read.
    pub pending_inputs: Vec<PendingInput>,
    /// Give it as `after` to get what comes next; one cursor for logs and events.
    pub next: String,
    /// True if more is there already.
    pub more: bool,
    /// True if the cursor did not belong to this log and everything begins anew.
    pub reset: bool,
}
