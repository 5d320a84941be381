//! Calls the hooks of one run in order, with the error handling of each point.

use std::sync::Arc;
use std::time::Duration;

use provost_core::{AgentHandoff, Compaction, ContentPart, Env, RunSummary, ToolCall};
use provost_model::{ChatRequest, ModelError, ModelResponse};
use provost_tool::ToolOutput;

use super::{
    Hook, HookDecision, HookError, HookEvent, HookPoint, ModelCallEnd, RunContext, RunEnd,
    StartDecision, SubagentInfo, TeamMessageInfo, TeammateInfo, ToolCallEnd, ToolFailure,
};

/// The hooks of one run. Without hooks, each point costs one comparison.
#[derive(Clone)]
pub(crate) struct HookChain {
    hooks: Vec<Arc<dyn Hook>>,
    cx: RunContext,
    env: Env,
}

impl HookChain {
    pub(crate) fn new(hooks: Vec<Arc<dyn Hook>>, cx: RunContext, env: Env) -> Self {
        Self { hooks, cx, env }
    }

    /// Returns the run context that the hooks receive.
    pub(crate) fn context(&self) -> &RunContext {
        &self.cx
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.hooks.is_empty()
    }

    pub(crate) async fn before_run(&self, input: &str) {
        for hook in &self.hooks {
            hook.before_run(&self.cx, input).await;
        }
        self.notify(HookPoint::BeforeRun, |event| event.input = Some(input.to_owned())).await;
    }

    pub(crate) async fn on_user_message(
        &self,
        parts: &mut Vec<ContentPart>,
    ) -> Result<HookDecision, HookError> {
        for hook in &self.hooks {
            if let HookDecision::Deny(reason) = hook.on_user_message(&self.cx, parts).await? {
                return Ok(HookDecision::Deny(reason));
            }
        }
        self.notify(HookPoint::UserMessage, |event| event.input = Some(text_of(parts))).await;
        Ok(HookDecision::Allow)
    }

    pub(crate) async fn before_agent(&self, input: &str) -> Result<StartDecision, HookError> {
        for hook in &self.hooks {
            let entry = hook.before_agent(&self.cx, input).await?;
            if entry != StartDecision::Continue {
                return Ok(entry);
            }
        }
        self.notify(HookPoint::BeforeAgent, |event| event.input = Some(input.to_owned())).await;
        Ok(StartDecision::Continue)
    }

    pub(crate) async fn before_model_call(
        &self,
        request: &mut ChatRequest,
    ) -> Result<(), HookError> {
        for hook in &self.hooks {
            hook.before_model_call(&self.cx, request).await?;
        }
        self.notify(HookPoint::BeforeModelCall, |_| {}).await;
        Ok(())
    }

    pub(crate) async fn after_model_call(
        &self,
        outcome: &mut Result<ModelResponse, ModelError>,
        duration: Duration,
    ) -> Result<(), HookError> {
        for hook in &self.hooks {
            hook.after_model_call(&self.cx, &mut ModelCallEnd { outcome, duration }).await?;
        }
        self.notify(HookPoint::AfterModelCall, |event| {
            event.duration = Some(duration);
            match outcome {
                Ok(response) => event.usage = Some(response.usage),
                Err(error) => {
                    event.error = Some(error.to_string());
                    event.is_error = true;
                }
            }
        })
        .await;
        Ok(())
    }

    pub(crate) async fn on_model_error(
        &self,
        request: &ChatRequest,
        error: &ModelError,
    ) -> Result<Option<ModelResponse>, HookError> {
        let mut rescued = None;
        for hook in &self.hooks {
            let answer = hook.on_model_error(&self.cx, request, error).await?;
            rescued = rescued.or(answer);
        }
        self.notify(HookPoint::ModelError, |event| {
            event.error = Some(error.to_string());
            event.is_error = true;
        })
        .await;
        Ok(rescued)
    }

    pub(crate) async fn before_tool_call(&self, call: &mut ToolCall) -> HookDecision {
        for hook in &self.hooks {
            match hook.before_tool_call(&self.cx, call).await {
                Ok(HookDecision::Allow) => {}
                Ok(HookDecision::Deny(reason)) => return HookDecision::Deny(reason),
                Err(error) => return HookDecision::Deny(error.0),
            }
        }
        self.notify(HookPoint::BeforeToolCall, |event| about_call(event, call)).await;
        HookDecision::Allow
    }

    pub(crate) async fn on_tool_error(&self, failure: &ToolFailure<'_>) -> Option<ToolOutput> {
        let mut rescued = None;
        for hook in &self.hooks {
            if let Ok(answer) = hook.on_tool_error(&self.cx, failure).await {
                rescued = rescued.or(answer);
            }
        }
        self.notify(HookPoint::ToolError, |event| {
            about_call(event, failure.call);
            event.error = Some(failure.error.to_owned());
            event.is_error = true;
            event.duration = Some(failure.duration);
        })
        .await;
        rescued
    }

    pub(crate) async fn after_tool_call(
        &self,
        call: &ToolCall,
        output: &mut ToolOutput,
        duration: Duration,
    ) {
        for hook in &self.hooks {
            let before = output.clone();
            let mut end = ToolCallEnd { call, output, duration };
            // A hook that fails halfway must not leave a partially changed output.
            if hook.after_tool_call(&self.cx, &mut end).await.is_err() {
                *output = before;
            }
        }
        self.notify(HookPoint::AfterToolCall, |event| {
            about_call(event, call);
            event.output = Some(output.to_text());
            event.is_error = output.is_error;
            event.duration = Some(duration);
        })
        .await;
    }

    pub(crate) async fn after_agent(&self, summary: &mut RunSummary) -> Result<(), HookError> {
        for hook in &self.hooks {
            hook.after_agent(&self.cx, summary).await?;
        }
        self.notify(HookPoint::AfterAgent, |event| event.output = Some(summary.text.clone())).await;
        Ok(())
    }

    pub(crate) async fn after_run(&self, end: &RunEnd<'_>) {
        for hook in &self.hooks {
            hook.after_run(&self.cx, end).await;
        }
        self.notify(HookPoint::AfterRun, |event| {
            event.input = Some(end.input.to_owned());
            event.duration = Some(end.duration);
            event.error = end.error.map(ToString::to_string);
            event.is_error = end.error.is_some();
        })
        .await;
    }

    pub(crate) async fn on_compaction(&self, compaction: &Compaction) {
        for hook in &self.hooks {
            hook.on_compaction(&self.cx, compaction).await;
        }
        self.notify(HookPoint::Compaction, |_| {}).await;
    }

    pub(crate) async fn on_handoff(&self, handoff: &AgentHandoff) -> HookDecision {
        for hook in &self.hooks {
            match hook.on_handoff(&self.cx, handoff).await {
                Ok(HookDecision::Allow) => {}
                Ok(HookDecision::Deny(reason)) => return HookDecision::Deny(reason),
                Err(error) => return HookDecision::Deny(error.0),
            }
        }
        self.notify(HookPoint::Handoff, |event| {
            event.input = handoff.reason.clone();
            event.output = Some(handoff.to.clone());
        })
        .await;
        HookDecision::Allow
    }

    pub(crate) async fn on_subagent_start(&self, subagent: &SubagentInfo) {
        for hook in &self.hooks {
            hook.on_subagent_start(&self.cx, subagent).await;
        }
        self.notify(HookPoint::SubagentStart, |event| about_subagent(event, subagent)).await;
    }

    pub(crate) async fn on_subagent_stop(&self, subagent: &SubagentInfo) {
        for hook in &self.hooks {
            hook.on_subagent_stop(&self.cx, subagent).await;
        }
        self.notify(HookPoint::SubagentStop, |event| about_subagent(event, subagent)).await;
    }

    /// Calls the hook method for a change of a teammate's status.
    pub(crate) async fn on_teammate(&self, point: HookPoint, teammate: &TeammateInfo) {
        for hook in &self.hooks {
            match point {
                HookPoint::TeammateJoin => hook.on_teammate_join(&self.cx, teammate).await,
                HookPoint::TeammateComplete => hook.on_teammate_complete(&self.cx, teammate).await,
                HookPoint::TeammateError => hook.on_teammate_error(&self.cx, teammate).await,
                _ => hook.on_teammate_stopped(&self.cx, teammate).await,
            }
        }
        self.notify(point, |event| about_teammate(event, teammate)).await;
    }

    pub(crate) async fn on_team_message(&self, message: &TeamMessageInfo) {
        for hook in &self.hooks {
            hook.on_team_message(&self.cx, message).await;
        }
        self.notify(HookPoint::TeamMessage, |event| {
            event.agent.clone_from(&message.from);
            event.input = Some(message.content.clone());
        })
        .await;
    }

    /// Returns all hooks, for child runs.
    pub(crate) fn all(&self) -> &[Arc<dyn Hook>] {
        &self.hooks
    }

    async fn notify(&self, point: HookPoint, fill: impl FnOnce(&mut HookEvent)) {
        if self.hooks.is_empty() {
            return;
        }
        // Boxed because otherwise the future of each point would reserve space for an event, even without hooks.
        let mut event = Box::new(HookEvent::at(point, &self.cx.agent, self.env.now()));
        event.task_id = self.cx.task_id.as_deref().map(str::to_owned);
        fill(&mut event);
        for hook in &self.hooks {
            hook.on_event(&self.cx, &event).await;
        }
    }
}

fn about_subagent(event: &mut HookEvent, subagent: &SubagentInfo) {
    event.task_id = Some(subagent.task_id.clone());
    event.agent.clone_from(&subagent.agent);
    event.input = Some(subagent.task.clone());
    about_end(event, subagent.result.as_ref(), subagent.duration);
}

fn about_teammate(event: &mut HookEvent, teammate: &TeammateInfo) {
    event.agent.clone_from(&teammate.member);
    event.input = Some(teammate.task.clone());
    about_end(event, teammate.result.as_ref(), teammate.duration);
}

fn about_end(event: &mut HookEvent, end: Option<&Result<String, String>>, duration: Duration) {
    match end {
        None => {}
        Some(Ok(text)) => event.output = Some(text.clone()),
        Some(Err(error)) => {
            event.error = Some(error.clone());
            event.is_error = true;
        }
    }
    event.duration = end.is_some().then_some(duration);
}

fn about_call(event: &mut HookEvent, call: &ToolCall) {
    event.call_id = Some(call.id.clone());
    event.tool = Some(call.name.clone());
    event.input = Some(call.arguments.clone());
}

fn text_of(parts: &[ContentPart]) -> String {
    parts.iter().filter_map(ContentPart::as_text).collect()
}
