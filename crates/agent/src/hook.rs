//! Hooks: code of the program that observes, changes or denies steps of a run, or recovers from failures.
//!
//! Every method has a default that changes nothing, so a hook implements only the points that it needs.
//! Hooks run in the order in which they were added. A hook may change a value that it receives as `&mut`; later hooks
//! see the change.

mod chain;
mod event;
mod observe;

use std::time::Duration;

use async_trait::async_trait;
use provost_core::{AgentHandoff, Compaction, ContentPart, ErrorInfo, RunSummary, ToolCall};
use provost_model::{ChatRequest, ModelError, ModelResponse};
use provost_tool::{RunContext, ToolOutput};

pub(crate) use chain::HookChain;
pub use event::{HookEvent, HookPoint};
pub use observe::ObserverHook;

/// An error of a hook. Its effect depends on the point; see each method.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HookError(pub String);

impl HookError {
    /// Creates an error from any value that implements `Display`.
    pub fn new(message: impl ToString) -> Self {
        Self(message.to_string())
    }
}

/// Allows or denies an operation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum HookDecision {
    /// Allows the operation.
    #[default]
    Allow,
    /// Denies the operation for this reason. Later hooks are not called.
    Deny(String),
}

/// Decides about a run before its first model call.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum StartDecision {
    /// Continues the run.
    #[default]
    Continue,
    /// Ends the run without an output, for this reason.
    Deny(String),
    /// Ends the run with this output, without a model call.
    Respond(String),
}

/// A failed tool call, for hooks that may recover from the failure.
#[derive(Debug, Clone)]
pub struct ToolFailure<'a> {
    /// The executed call.
    pub call: &'a ToolCall,
    /// The error text that the model would receive.
    pub error: &'a str,
    /// Duration of the execution.
    pub duration: Duration,
}

/// A finished tool call, for hooks that may change the output before the model receives it.
#[derive(Debug)]
pub struct ToolCallEnd<'a> {
    /// The executed call.
    pub call: &'a ToolCall,
    /// The output of the tool.
    pub output: &'a mut ToolOutput,
    /// Duration of the execution.
    pub duration: Duration,
}

/// A finished model call, for hooks that may change its response.
#[derive(Debug)]
pub struct ModelCallEnd<'a> {
    /// The result of the call. A hook that replaces an error with a response recovers the call.
    pub outcome: &'a mut Result<ModelResponse, ModelError>,
    /// Duration of the call.
    pub duration: Duration,
}

/// A finished run.
#[derive(Debug, Clone)]
pub struct RunEnd<'a> {
    /// The text of the input.
    pub input: &'a str,
    /// The summary, if the run succeeded.
    pub summary: Option<&'a RunSummary>,
    /// The error, if the run failed.
    pub error: Option<&'a ErrorInfo>,
    /// Duration of the run.
    pub duration: Duration,
}

/// A subagent that runs in the background.
#[derive(Debug, Clone, PartialEq)]
pub struct SubagentInfo {
    /// Id of the background task, for example `task-1`.
    pub task_id: String,
    /// Name of the agent.
    pub agent: String,
    /// The task.
    pub task: String,
    /// The output or the error text, once the subagent has ended.
    pub result: Option<Result<String, String>>,
    /// Duration of the run.
    pub duration: Duration,
}

/// A teammate.
#[derive(Debug, Clone, PartialEq)]
pub struct TeammateInfo {
    /// Name of the team.
    pub team: String,
    /// Name of the teammate.
    pub member: String,
    /// The task.
    pub task: String,
    /// The output or the error text, once the teammate has ended.
    pub result: Option<Result<String, String>>,
    /// Duration of the run.
    pub duration: Duration,
}

/// A message between members of a team.
#[derive(Debug, Clone, PartialEq)]
pub struct TeamMessageInfo {
    /// Name of the team.
    pub team: String,
    /// The sender.
    pub from: String,
    /// The recipient; `*` for all others.
    pub to: String,
    /// The text of the message.
    pub content: String,
}

/// A set of callbacks at the points of a run.
#[async_trait]
pub trait Hook: Send + Sync + 'static {
    /// Called when a run starts.
    async fn before_run(&self, _cx: &RunContext, _input: &str) {}

    /// Called for each user message. May change or deny it. A denial or an error ends the run with an error.
    async fn on_user_message(
        &self,
        _cx: &RunContext,
        _parts: &mut Vec<ContentPart>,
    ) -> Result<HookDecision, HookError> {
        Ok(HookDecision::Allow)
    }

    /// Called before the first model call. May deny the run or respond in place of the model. An error ends the run
    /// with an error.
    async fn before_agent(
        &self,
        _cx: &RunContext,
        _input: &str,
    ) -> Result<StartDecision, HookError> {
        Ok(StartDecision::Continue)
    }

    /// Called before each model call. Changes to the messages also apply to later calls; other changes apply to this
    /// call only. An error ends the run with an error.
    async fn before_model_call(
        &self,
        _cx: &RunContext,
        _request: &mut ChatRequest,
    ) -> Result<(), HookError> {
        Ok(())
    }

    /// Called after each model call, successful or not. An error ends the run with an error.
    async fn after_model_call(
        &self,
        _cx: &RunContext,
        _end: &mut ModelCallEnd<'_>,
    ) -> Result<(), HookError> {
        Ok(())
    }

    /// Called when a model call failed. The first response of any hook replaces the error. If a hook fails, the
    /// model's error remains.
    async fn on_model_error(
        &self,
        _cx: &RunContext,
        _request: &ChatRequest,
        _error: &ModelError,
    ) -> Result<Option<ModelResponse>, HookError> {
        Ok(None)
    }

    /// Called before each tool call. May change the arguments or deny the call. An error denies the call.
    async fn before_tool_call(
        &self,
        _cx: &RunContext,
        _call: &mut ToolCall,
    ) -> Result<HookDecision, HookError> {
        Ok(HookDecision::Allow)
    }

    /// Called when a tool call failed. The first output of any hook replaces the error. An error of the hook is
    /// ignored.
    async fn on_tool_error(
        &self,
        _cx: &RunContext,
        _failure: &ToolFailure<'_>,
    ) -> Result<Option<ToolOutput>, HookError> {
        Ok(None)
    }

    /// Called after each executed tool call. An error is ignored.
    async fn after_tool_call(
        &self,
        _cx: &RunContext,
        _end: &mut ToolCallEnd<'_>,
    ) -> Result<(), HookError> {
        Ok(())
    }

    /// Called when the agent has its output. May change the summary. An error ends the run with an error.
    async fn after_agent(
        &self,
        _cx: &RunContext,
        _summary: &mut RunSummary,
    ) -> Result<(), HookError> {
        Ok(())
    }

    /// Called when the run has ended, successfully or not. Called exactly once for each run that started.
    async fn after_run(&self, _cx: &RunContext, _end: &RunEnd<'_>) {}

    /// Called before the conversation is handed off to another agent. May deny it. An error denies the handoff.
    async fn on_handoff(
        &self,
        _cx: &RunContext,
        _handoff: &AgentHandoff,
    ) -> Result<HookDecision, HookError> {
        Ok(HookDecision::Allow)
    }

    /// Called after the context was compacted.
    async fn on_compaction(&self, _cx: &RunContext, _compaction: &Compaction) {}

    /// Called when a subagent starts in the background.
    async fn on_subagent_start(&self, _cx: &RunContext, _subagent: &SubagentInfo) {}

    /// Called when a background subagent has ended.
    async fn on_subagent_stop(&self, _cx: &RunContext, _subagent: &SubagentInfo) {}

    /// Called when a teammate joins a team.
    async fn on_teammate_join(&self, _cx: &RunContext, _teammate: &TeammateInfo) {}

    /// Called when a teammate was stopped.
    async fn on_teammate_stopped(&self, _cx: &RunContext, _teammate: &TeammateInfo) {}

    /// Called when a teammate has completed its task.
    async fn on_teammate_complete(&self, _cx: &RunContext, _teammate: &TeammateInfo) {}

    /// Called when a teammate failed.
    async fn on_teammate_error(&self, _cx: &RunContext, _teammate: &TeammateInfo) {}

    /// Called for each message between members of a team.
    async fn on_team_message(&self, _cx: &RunContext, _message: &TeamMessageInfo) {}

    /// Called after the hooks of each point above, for a hook that observes all points.
    async fn on_event(&self, _cx: &RunContext, _event: &HookEvent) {}
}
