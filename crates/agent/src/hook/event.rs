//! The events that an observer receives.

use std::time::Duration;

use provost_core::{Timestamp, Usage};
use serde::{Deserialize, Serialize};

/// A point of a run where hooks are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookPoint {
    /// The start of a run.
    BeforeRun,
    /// A user message.
    UserMessage,
    /// Before the first model call.
    BeforeAgent,
    /// Before a model call.
    #[serde(rename = "pre_model_call")]
    BeforeModelCall,
    /// After a model call.
    #[serde(rename = "post_model_call")]
    AfterModelCall,
    /// A failed model call.
    ModelError,
    /// Before a tool call.
    #[serde(rename = "pre_tool_use")]
    BeforeToolCall,
    /// A failed tool call.
    ToolError,
    /// After a tool call.
    #[serde(rename = "post_tool_use")]
    AfterToolCall,
    /// The output of the agent.
    AfterAgent,
    /// The end of a run.
    AfterRun,
    /// Before a handoff to another agent.
    #[serde(rename = "hand_off")]
    Handoff,
    /// A compaction of the context.
    Compaction,
    /// The start of a background subagent.
    SubagentStart,
    /// The end of a background subagent.
    SubagentStop,
    /// A teammate that joined a team.
    TeammateJoin,
    /// A teammate that was stopped.
    #[serde(rename = "teammate_leave")]
    TeammateStopped,
    /// A teammate that completed its task.
    TeammateComplete,
    /// A teammate that failed.
    TeammateError,
    /// A message between members of a team.
    TeamMessage,
}

/// One call of the hooks at a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HookEvent {
    /// The hook point.
    pub point: HookPoint,
    /// Time of the call.
    pub at: Timestamp,
    /// Path of the agent: the names of its ancestors and its own name.
    pub agent: String,
    /// Id of the background task.
    pub task_id: Option<String>,
    /// Id of the tool call.
    pub call_id: Option<String>,
    /// Name of the tool.
    pub tool: Option<String>,
    /// Input: a message, tool arguments or a task.
    pub input: Option<String>,
    /// Output: a response, a tool result or an output.
    pub output: Option<String>,
    /// True if the output is an error.
    pub is_error: bool,
    /// Duration of the step.
    pub duration: Option<Duration>,
    /// Token usage of the step.
    pub usage: Option<Usage>,
    /// Error of the step.
    pub error: Option<String>,
}

impl HookEvent {
    /// Creates an event without details.
    pub(crate) fn at(point: HookPoint, agent: &str, at: Timestamp) -> Self {
        Self {
            point,
            at,
            agent: agent.to_owned(),
            task_id: None,
            call_id: None,
            tool: None,
            input: None,
            output: None,
            is_error: false,
            duration: None,
            usage: None,
            error: None,
        }
    }
}
