//! One tool call: hooks, guard, approval, run, hooks.

use std::sync::Arc;
use std::time::Duration;

use provost_core::recovery::EffectKey;
use provost_core::{
    ApprovalDecision, ApprovalRequest, ErrorInfo, EventKind, RequestKind, ToolCall, ToolResult,
};
use provost_tool::{Permit, Tool, ToolCx, ToolCxParts, ToolError, ToolOutput};
use serde_json::Value;
use tokio::time::Instant;
use tracing::Instrument;

use super::ask::{ApprovalPrompt, Outside};
use super::authorize::{Authorization, rejected};
use super::setup::Cx;
use crate::approval::OnApproval;
use crate::driver::offered_tools::Toolbox;
use crate::driver::telemetry;
use crate::hook::{Gate, ToolFailure};
use crate::journal::JournalError;
use crate::run::{Answer, CallTicket, answer_to, has_waited};
use crate::subagent::WAIT_HINT;

/// Questions that one call may put to people.
pub(super) const QUESTIONS_PER_CALL_MAX: usize = 16;

/// What became of a call.
pub(crate) struct CallOutcome {
    /// The call as hooks left it.
    pub(crate) effective: ToolCall,
    /// True if the model sent arguments the tool refuses.
    pub(crate) fault: bool,
    pub(crate) end: CallEnd,
}

/// How a call ended.
pub(crate) enum CallEnd {
    Result(ToolResult),
    NeedsApproval(ApprovalRequest),
    Fatal(ErrorInfo),
    /// The journal does not accept it; nothing was done.
    Stopped(JournalError),
}

impl CallOutcome {
    pub(super) fn new(effective: ToolCall, end: CallEnd) -> Self {
        Self { effective, fault: false, end }
    }
}

/// A call's circumstances.
pub(super) struct CallContext {
    /// Identifies the call: the same whenever this very call is made again.
    pub(super) key: EffectKey,
    /// How often the model has sent wrong arguments to this tool.
    faults: u32,
    /// The answers of people about this exact call.
    pub(super) answers: Vec<Answer>,
    /// The model call that asked for it.
    pub(super) turn: u32,
}

/// What a tool returned.
enum ToolExecution {
    Output(ToolOutput),
    /// Hooks may rescue it.
    Failed(ToolOutput),
    /// The arguments are wrong. Hooks may rescue it.
    InvalidArguments(String),
    Fatal(ErrorInfo),
    Question(ToolQuestion),
    /// The call waits for other runs.
    WaitsForRuns(Value),
}

/// A question of a running tool to a person.
struct ToolQuestion {
    kind: RequestKind,
    hint: String,
    payload: Option<Value>,
}

impl Cx {
    /// Takes one call to its end.
    pub(crate) async fn call(
        self: &Arc<Self>,
        toolbox: &Toolbox,
        ticket: CallTicket,
    ) -> CallOutcome {
        let key = ticket.effect_key(self.run_id);
        let CallTicket { mut call, turn, prepared, faults, answers, .. } = ticket;
        let context = CallContext { key, faults, answers, turn };
        if !prepared && !self.hooks.is_empty() {
            let id = call.id.clone();
            let gate = self.hooks.pre_tool_use(&mut call).await;
            // The id ties the result to the call; a hook may change the arguments, not that.
            call.id = id;
            if let Gate::Deny(reason) = gate {
                return self.refused(call, format!("the call was denied: {reason}"));
            }
        }
        let Some(tool) = toolbox.find(&call.name) else {
            let text =
                format!("there is no tool `{}`; the tools are: {}", call.name, toolbox.names());
            return self.failed(call, ToolOutput::error(text), Duration::ZERO).await;
        };
        if let Err(reason) = self.check_hand_off(&call.name, &call.arguments).await {
            return self.refused(call, format!("the hand-off was refused: {reason}"));
        }
        Box::pin(self.authorize_and_run(tool, call, context)).await
    }

    /// Runs a call once it is authorized, and again whenever a person has answered a question of the tool.
    async fn authorize_and_run(
        self: &Arc<Self>,
        tool: &Arc<dyn Tool>,
        call: ToolCall,
        mut context: CallContext,
    ) -> CallOutcome {
        let mut authorization = self.authorize(tool, &call, &context.answers).await;
        loop {
            let permit = match authorization {
                Authorization::Granted(permit) => permit,
                Authorization::Denied(text) => return self.refused(call, text),
                Authorization::InvalidArguments(text) => {
                    return self
                        .invalid(call, text, Duration::ZERO, context.retries_left(tool))
                        .await;
                }
                Authorization::Suspend(request) => {
                    return CallOutcome::new(call, CallEnd::NeedsApproval(request));
                }
            };
            if self.journal.is_some()
                && let Some(ended) = self.begin_effect(tool, &permit, &call, &context).await
            {
                return ended;
            }
            let revision = permit.revision().map(str::to_owned);
            let started = Instant::now();
            let execution = self.execute(tool, permit, &call, &context).await;
            let duration = started.elapsed();
            let question = match execution {
                ToolExecution::Output(output) => {
                    return self.finished(call, output, duration).await;
                }
                ToolExecution::Failed(output) => return self.failed(call, output, duration).await,
                ToolExecution::InvalidArguments(text) => {
                    return self.invalid(call, text, duration, context.retries_left(tool)).await;
                }
                ToolExecution::Fatal(error) => {
                    return CallOutcome::new(call, CallEnd::Fatal(error));
                }
                ToolExecution::WaitsForRuns(wait) => {
                    return self.wait_for_runs(call, wait, &context.answers);
                }
                ToolExecution::Question(question) => question,
            };
            authorization = match self.answer(&call, question, &context.answers).await {
                Ok(answer) => {
                    context.answers.push(answer);
                    self.reauthorize(tool, &call, revision.as_deref()).await
                }
                Err(end) => end,
            };
        }
    }

    /// Runs a permitted call.
    async fn execute(
        self: &Arc<Self>,
        tool: &Arc<dyn Tool>,
        permit: Permit,
        call: &ToolCall,
        context: &CallContext,
    ) -> ToolExecution {
        self.queue.emit_with(|| EventKind::ToolStarted {
            call_id: call.id.clone(),
            name: call.name.clone(),
        });
        // Set when the call ends, however it does: what the tool started stops with it.
        let cancel = self.control.cancel.child_token();
        let _ends_with_the_call = cancel.clone().drop_guard();
        let tool_cx = ToolCx::new(ToolCxParts {
            run_id: self.run_id,
            agent: Arc::clone(&self.agent),
            depth: self.depth,
            depth_max: self.depth_max(),
            call_id: call.id.clone(),
            tool: call.name.clone(),
            effect_key: context.key.clone(),
            retries_left: context.retries_left(tool),
            cancel: cancel.clone(),
            deps: self.deps.clone(),
            state: self.state.clone(),
            outside: Arc::new(Outside::new(self, call, context)),
        });
        let span = telemetry::execute_tool(self, tool.spec(), call);
        let result = self.guard().await.run(permit, tool_cx).instrument(span.clone()).await;
        telemetry::close_tool(&span, &result);
        match result {
            Ok(output) if output.is_error => ToolExecution::Failed(output),
            Ok(output) => ToolExecution::Output(output),
            Err(ToolError::Fatal(error)) => ToolExecution::Fatal(error),
            Err(ToolError::NeedsApproval { hint, payload }) => {
                ToolExecution::Question(ToolQuestion { kind: RequestKind::Call, hint, payload })
            }
            Err(ToolError::NeedsAnswer { question: hint, payload }) => {
                ToolExecution::Question(ToolQuestion { kind: RequestKind::Question, hint, payload })
            }
            Err(ToolError::WaitsForRuns { wait }) => ToolExecution::WaitsForRuns(wait),
            Err(ToolError::Retry(text)) => ToolExecution::InvalidArguments(text),
            Err(error) => ToolExecution::Failed(error.into_output()),
        }
    }

    /// Suspends the run until the runs that the call waits for have ended.
    fn wait_for_runs(&self, call: ToolCall, wait: Value, answers: &[Answer]) -> CallOutcome {
        let repeats = has_waited(answers, &wait) || answers.len() >= QUESTIONS_PER_CALL_MAX;
        if repeats || !matches!(self.on_approval, OnApproval::Suspend) {
            return self
                .refused(call, "the call waits for runs, and nothing can end the wait".to_owned());
        }
        let request = ApprovalRequest {
            id: self.env.id(),
            kind: RequestKind::Runs,
            call: call.clone(),
            hint: Some(WAIT_HINT.to_owned()),
            payload: Some(wait),
            policy_revision: None,
            approvers: None,
        };
        self.queue.emit(EventKind::ApprovalNeeded { request: Box::new(request.clone()) });
        CallOutcome::new(call, CallEnd::NeedsApproval(request))
    }

    /// Puts a question of a running tool to a person.
    async fn answer(
        &self,
        call: &ToolCall,
        question: ToolQuestion,
        answers: &[Answer],
    ) -> Result<Answer, Authorization> {
        let ToolQuestion { kind, hint, payload } = question;
        let answered = answer_to(answers, Some(&hint), payload.as_ref()).is_some();
        if answered || answers.len() >= QUESTIONS_PER_CALL_MAX {
            // It repeats an answered question, or asks without end.
            return Err(rejected(String::new()));
        }
        let prompt =
            ApprovalPrompt { kind, hint: Some(hint), payload, ..ApprovalPrompt::default() };
        let (request, decision) =
            self.request_approval(call, prompt).await.map_err(Authorization::Suspend)?;
        match decision {
            ApprovalDecision::Deny { reason } => Err(rejected(reason)),
            decision => Ok(Answer { request, decision }),
        }
    }

    /// Ends a call that may not run. No hook sees it.
    pub(super) fn refused(&self, call: ToolCall, text: String) -> CallOutcome {
        let result = ToolResult::error(&call, text);
        self.queue.emit(EventKind::ToolFinished {
            result: Box::new(result.clone()),
            duration: Duration::ZERO,
        });
        CallOutcome::new(call, CallEnd::Result(result))
    }

    /// Ends a call whose arguments are wrong, which counts against the tool's retries.
    async fn invalid(
        &self,
        call: ToolCall,
        text: String,
        duration: Duration,
        retries_left: u32,
    ) -> CallOutcome {
        let output = ToolOutput::error(budget_text(text, retries_left));
        CallOutcome { fault: true, ..self.failed(call, output, duration).await }
    }

    /// Ends a failed call. A hook that rescues it replaces its output.
    async fn failed(&self, call: ToolCall, output: ToolOutput, duration: Duration) -> CallOutcome {
        let failure = ToolFailure { call: &call, error: &output.to_text(), duration };
        let rescued = self.hooks.on_tool_error(&failure).await;
        self.finished(call, rescued.unwrap_or(output), duration).await
    }

    pub(super) async fn finished(
        &self,
        call: ToolCall,
        mut output: ToolOutput,
        duration: Duration,
    ) -> CallOutcome {
        self.hooks.post_tool_use(&call, &mut output, duration).await;
        let result = output.into_result(&call);
        self.queue
            .emit_with(|| EventKind::ToolFinished { result: Box::new(result.clone()), duration });
        CallOutcome::new(call, CallEnd::Result(result))
    }
}

impl CallContext {
    /// How often the model may still send wrong arguments to this tool.
    fn retries_left(&self, tool: &Arc<dyn Tool>) -> u32 {
        tool.spec().retries.saturating_sub(self.faults)
    }
}

/// Adds to an error how many retries are left.
fn budget_text(text: String, retries_left: u32) -> String {
    match retries_left {
        0 => format!("{text}. Do not call this tool again."),
        1 => format!("{text}. Correct the arguments and call again; this is the last try."),
        _ => format!("{text}. Correct the arguments and call again."),
    }
}
