//! Events: durable events, live deltas and task logs.

use provost_core::{Message, RunId, TaskId, ToolResult};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{DateTime, PendingInput, Run, RunInteraction, Task};

/// A durable event of a run. The events of a run are numbered without gaps and never change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunEvent {
    /// Run of the event.
    pub run: RunId,
    /// Number of the event in its run, from 1.
    pub seq: u64,
    /// Epoch of the worker that wrote the event.
    pub epoch: u64,
    /// Run attempt that wrote the event.
    pub attempt: u64,
    /// Agent of a child run, preceded by the agents of its parent runs. Absent for events of the run itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Tool call of the parent run that started the child run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// Kind of the event, such as `accepted`, `turn_finished`, `tool_finished` or `finished`.
    pub kind: String,
    /// Time of the event.
    pub at: DateTime,
    /// Data of the event. Its structure depends on the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// Message that the event added to the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
    /// Result of the tool call that the event finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<ToolResult>,
}

/// A live event of an unfinished turn. A delta can be lost; the durable event that ends the turn contains the complete text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Delta {
    /// Run of the delta.
    pub run: RunId,
    /// Epoch of the run attempt.
    pub epoch: u64,
    /// The live event. Its `type` is `text_delta`, `tool_started` or another event of the agent.
    #[serde(flatten)]
    pub event: Value,
}

/// An item of an event stream.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamItem {
    /// A durable event and its cursor.
    Event {
        /// Cursor of the event. A stream that starts with this cursor as `after` continues with the next event.
        cursor: String,
        /// The event.
        event: Box<RunEvent>,
    },
    /// A live delta.
    Delta(Box<Delta>),
    /// The cursor belongs to another log, or its events were removed. The client discards its state, and the stream restarts
    /// at the oldest stored event.
    Reset,
    /// The server dropped deltas because this client reads slowly. No durable event is missing.
    Lagged,
    /// The run has ended. This is the last item.
    End,
}

/// Origin of a log entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogStream {
    /// The user.
    User,
    /// The agent.
    Assistant,
    /// A tool.
    Tool,
    /// Provost.
    System,
}

/// A line of a task's log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogEntry {
    /// Run of the entry.
    pub run: RunId,
    /// Time of the entry.
    pub at: DateTime,
    /// Origin of the entry.
    pub stream: LogStream,
    /// Text of the entry.
    pub text: String,
}

/// The state of a task and its new events, for clients that poll.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventBatch {
    /// Id of the task.
    pub task_id: TaskId,
    /// Current run of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The task.
    pub task: Task,
    /// The current run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Run>,
    /// Input state of the current run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interaction: Option<RunInteraction>,
    /// New log entries.
    pub logs: Vec<LogEntry>,
    /// New durable events.
    pub run_events: Vec<RunEvent>,
    /// Inputs that no run has read yet.
    pub pending_inputs: Vec<PendingInput>,
    /// Cursor of the next batch: send it as `after`. Log entries and events share this cursor.
    pub next: String,
    /// True if the next batch is not empty.
    pub more: bool,
    /// True if the cursor did not belong to this log and the batch starts at the oldest stored event.
    pub reset: bool,
}
