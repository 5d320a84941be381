//! Hooks: code of the program that sees, changes, stops or rescues what a run does.
//!
//! All methods have a default that changes nothing, so a hook implements only the points it cares for.
//! Hooks run in the order they were added. A value handed over as `&mut` may be changed; the next hook sees the change.

mod chain;
mod event;
mod observe;

use std::time::Duration;

use async_trait::async_trait;
use provost_core::{Compaction, ErrorInfo, HandOff, Part, RunSummary, ToolCall};
use provost_model::{ChatRequest, ModelError, ModelResponse};
use provost_tool::{RunContext, ToolOutput};

pub(crate) use chain::Hooks;
pub use event::{HookEvent, HookPoint};
pub use observe::Observe;

/// A hook's own failure. What follows depends on the point; see each method.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HookError(pub String);

impl HookError {
    /// From anything that can be shown.
    pub fn new(message: impl ToString) -> Self {
        Self(message.to_string())
    }
}

/// Whether something may happen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Gate {
    /// It may.
    #[default]
    Allow,
    /// It may not; no later hook is asked.
    Deny(String),
}

/// What happens to a run before its first model call.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Entry {
    /// It goes on.
    #[default]
    Go,
    /// It ends without an answer.
    Deny(String),
    /// It ends with this answer, and no model is asked.
    Answer(String),
}

/// A failed tool call, for hooks that may rescue it.
#[derive(Debug, Clone)]
pub struct ToolFailure<'a> {
    /// The call as it ran.
    pub call: &'a ToolCall,
    /// What the model would be told.
    pub error: &'a str,
    /// How long it ran.
    pub duration: Duration,
}

/// A finished tool call, for hooks that may change what the model is told.
#[derive(Debug)]
pub struct ToolEnd<'a> {
    /// The call as it ran.
    pub call: &'a ToolCall,
    /// What it gave.
    pub output: &'a mut ToolOutput,
    /// How long it ran.
    pub duration: Duration,
}

/// A finished model call, for hooks that may change it.
#[derive(Debug)]
pub struct ModelEnd<'a> {
    /// What it gave. Putting an answer in place of an error rescues the call.
    pub outcome: &'a mut Result<ModelResponse, ModelError>,
    /// How long it took.
    pub duration: Duration,
}

/// A finished run.
#[derive(Debug, Clone)]
pub struct RunEnd<'a> {
    /// What the user's side had said.
    pub input: &'a str,
    /// What it came to, if it ended well.
    pub summary: Option<&'a RunSummary>,
    /// What went wrong, if it did not.
    pub error: Option<&'a ErrorInfo>,
    /// How long it took.
    pub duration: Duration,
}

/// A child agent that works in the background.
#[derive(Debug, Clone, PartialEq)]
pub struct SubagentInfo {
    /// The task: `task-1`.
    pub task_id: String,
    /// The child.
    pub agent: String,
    /// What it was asked.
    pub task: String,
    /// What it gave, once it is over.
    pub result: Option<Result<String, String>>,
    /// How long it took.
    pub duration: Duration,
}

/// A member of a team.
#[derive(Debug, Clone, PartialEq)]
pub struct TeammateInfo {
    /// The team.
    pub team: String,
    /// The member.
    pub member: String,
    /// What it was asked.
    pub task: String,
    /// What it gave, once it is over.
    pub result: Option<Result<String, String>>,
    /// How long it took.
    pub duration: Duration,
}

/// A message between members of a team.
#[derive(Debug, Clone, PartialEq)]
pub struct TeamMessageInfo {
    /// The team.
    pub team: String,
    /// The sender.
    pub from: String,
    /// The recipient.
    pub to: String,
    /// What was said.
    pub content: String,
}

/// Code of the program at the points of a run.
#[async_trait]
pub trait Hook: Send + Sync + 'static {
    /// A run begins.
    async fn before_run(&self, _cx: &RunContext, _input: &str) {}

    /// A user's message came in. May change or refuse it; refusing and failing end the run with an error.
    async fn on_user_message(
        &self,
        _cx: &RunContext,
        _parts: &mut Vec<Part>,
    ) -> Result<Gate, HookError> {
        Ok(Gate::Allow)
    }

    /// Before the first model call. May refuse, or answer in the model's place; failing ends the run with an error.
    async fn before_agent(&self, _cx: &RunContext, _input: &str) -> Result<Entry, HookError> {
        Ok(Entry::Go)
    }

    /// Before each model call. Changed messages stay for the following calls, other changes are for this call only.
    /// Failing ends the run with an error.
    async fn pre_model_call(
        &self,
        _cx: &RunContext,
        _request: &mut ChatRequest,
    ) -> Result<(), HookError> {
        Ok(())
    }

    /// After each model call, failed or not. Failing ends the run with an error.
    async fn post_model_call(
        &self,
        _cx: &RunContext,
        _end: &mut ModelEnd<'_>,
    ) -> Result<(), HookError> {
        Ok(())
    }

    /// A model call failed. The first answer that a hook gives is taken in its place; if a hook fails itself, the model's own
    /// error stands.
    async fn on_model_error(
        &self,
        _cx: &RunContext,
        _request: &ChatRequest,
        _error: &ModelError,
    ) -> Result<Option<ModelResponse>, HookError> {
        Ok(None)
    }

    /// Before each tool call. May change the arguments or refuse; failing counts as refusing.
    async fn pre_tool_use(
        &self,
        _cx: &RunContext,
        _call: &mut ToolCall,
    ) -> Result<Gate, HookError> {
        Ok(Gate::Allow)
    }

    /// A tool call failed. The first output that a hook gives is taken in its place; failing is ignored.
    async fn on_tool_error(
        &self,
        _cx: &RunContext,
        _failure: &ToolFailure<'_>,
    ) -> Result<Option<ToolOutput>, HookError> {
        Ok(None)
    }

    /// After each tool call that ran. Failing is ignored.
    async fn post_tool_use(
        &self,
        _cx: &RunContext,
        _end: &mut ToolEnd<'_>,
    ) -> Result<(), HookError> {
        Ok(())
    }

    /// The agent has its answer. May change it; failing ends the run with an error.
    async fn after_agent(
        &self,
        _cx: &RunContext,
        _summary: &mut RunSummary,
    ) -> Result<(), HookError> {
        Ok(())
    }

    /// The run is over, well or not. Called exactly once for each run that began.
    async fn after_run(&self, _cx: &RunContext, _end: &RunEnd<'_>) {}

    /// The conversation is about to go to another agent. May refuse; failing counts as refusing.
    async fn on_hand_off(&self, _cx: &RunContext, _hand_off: &HandOff) -> Result<Gate, HookError> {
        Ok(Gate::Allow)
    }

    /// The conversation was shortened.
    async fn on_compaction(&self, _cx: &RunContext, _compaction: &Compaction) {}

    /// A child agent begins in the background.
    async fn on_subagent_start(&self, _cx: &RunContext, _subagent: &SubagentInfo) {}

    /// A child agent in the background is over.
    async fn on_subagent_stop(&self, _cx: &RunContext, _subagent: &SubagentInfo) {}

    /// A member joined a team.
    async fn on_teammate_join(&self, _cx: &RunContext, _teammate: &TeammateInfo) {}

    /// A member was stopped.
    async fn on_teammate_leave(&self, _cx: &RunContext, _teammate: &TeammateInfo) {}

    /// A member is done.
    async fn on_teammate_complete(&self, _cx: &RunContext, _teammate: &TeammateInfo) {}

    /// A member failed.
    async fn on_teammate_error(&self, _cx: &RunContext, _teammate: &TeammateInfo) {}

    /// A message went from one member to another.
    async fn on_team_message(&self, _cx: &RunContext, _message: &TeamMessageInfo) {}

    /// Every point above, after its hooks were through: one place to watch everything.
    async fn on_event(&self, _cx: &RunContext, _event: &HookEvent) {}
}
