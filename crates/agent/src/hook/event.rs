//! What an observer is told.

use std::time::Duration;

use provost_core::{Timestamp, Usage};
use serde::{Deserialize, Serialize};

/// A point of a run where hooks are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookPoint {
    /// A run begins.
    BeforeRun,
    /// A user's message came in.
    UserMessage,
    /// Before the first model call.
    BeforeAgent,
    /// Before a model call.
    PreModelCall,
    /// After a model call.
    PostModelCall,
    /// A model call failed.
    ModelError,
    /// Before a tool call.
    PreToolUse,
    /// A tool call failed.
    ToolError,
    /// After a tool call.
    PostToolUse,
    /// The agent has its answer.
    AfterAgent,
    /// The run is over.
    AfterRun,
    /// The conversation goes to another agent.
    HandOff,
    /// The conversation was shortened.
    Compaction,
    /// A child agent begins in the background.
    SubagentStart,
    /// A child agent in the background is over.
    SubagentStop,
    /// A member joined a team.
    TeammateJoin,
    /// A member was stopped.
    TeammateLeave,
    /// A member is done.
    TeammateComplete,
    /// A member failed.
    TeammateError,
    /// A message went from one member to another.
    TeamMessage,
}

/// One passage through a hook point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HookEvent {
    /// Which point.
    pub point: HookPoint,
    /// When.
    pub at: Timestamp,
    /// The agent, with the agents above it.
    pub agent: String,
    /// The background task.
    pub task_id: Option<String>,
    /// The tool call.
    pub call_id: Option<String>,
    /// The tool.
    pub tool: Option<String>,
    /// What went in: a message, arguments, a task.
    pub input: Option<String>,
    /// What came out.
    pub output: Option<String>,
    /// True if what came out is a failure.
    pub is_error: bool,
    /// How long it took.
    pub duration: Option<Duration>,
    /// What it used.
    pub usage: Option<Usage>,
    /// What went wrong.
    pub error: Option<String>,
}

impl HookEvent {
    /// An event with nothing but its point.
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
