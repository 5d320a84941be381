//! Execution of one tool call: hooks, authorization, execution and result.

use std::sync::Arc;
use std::time::Duration;

use provost_core::recovery::EffectKey;
use provost_core::{
    ApprovalDecision, ApprovalRequest, ApprovalRequestKind, ErrorInfo, EventKind, ToolCall,
    ToolResult,
};
use provost_tool::{Permit, Tool, ToolContext, ToolContextParts, ToolError, ToolOutput};
use serde_json::Value;
use tokio::time::Instant;
use tracing::Instrument;

use super::ask::{ApprovalPrompt, ToolCallbacks};
use super::authorize::{Authorization, deny_with_reason};
use super::setup::DriverContext;
use crate::approval::ApprovalMode;
use crate::driver::offered_tools::OfferedTools;
use crate::driver::telemetry;
use crate::hook::{HookDecision, ToolFailure};
use crate::journal::JournalError;
use crate::run::{ApprovalAnswer, ToolCallRequest, decision_for, has_waited};
use crate::subagent::WAITING_FOR_CHILDREN;

/// Maximum number of requests to people during one call.
pub(super) const QUESTIONS_PER_CALL_MAX: usize = 16;

/// How a call ended, with the call that hooks may have changed.
pub(crate) struct ToolCallOutcome {
    /// The call after hooks changed it.
    pub(crate) effective: ToolCall,
    /// True if the arguments were invalid, which counts against the tool's retries.
    pub(crate) fault: bool,
    pub(crate) end: CallEnd,
}

/// How a call ended: with a result, with a wait for an approval or for runs, or with an error that ends the run.
pub(crate) enum CallEnd {
    Result(ToolResult),
    NeedsApproval(ApprovalRequest),
    Fatal(ErrorInfo),
    /// The journal rejected the call, so it did not run.
    Stopped(JournalError),
}

impl ToolCallOutcome {
    pub(super) fn new(effective: ToolCall, end: CallEnd) -> Self {
        Self { effective, fault: false, end }
    }
}

/// Key, decisions and counters of one call.
pub(super) struct CallContext {
    /// Idempotency key: the same whenever this exact call is repeated.
    pub(super) key: EffectKey,
    /// Number of earlier calls to this tool with invalid arguments.
    faults: u32,
    /// The decisions of people about this exact call.
    pub(super) answers: Vec<ApprovalAnswer>,
    /// The turn that requested the call.
    pub(super) turn: u32,
}

/// How one execution of a tool ended.
enum ToolExecution {
    Output(ToolOutput),
    /// A hook may replace the error.
    Failed(ToolOutput),
    /// The arguments are invalid. A hook may replace the error.
    InvalidArguments(String),
    Fatal(ErrorInfo),
    Question(ToolQuestion),
    /// The call waits for other runs.
    WaitsForRuns(Value),
}

/// A request of a running tool to a person.
struct ToolQuestion {
    kind: ApprovalRequestKind,
    hint: String,
    payload: Option<Value>,
}

impl DriverContext {
    /// Executes one call: hooks before the call, authorization, execution and hooks after it. An error of the tool is a
    /// result; it does not end the run.
    pub(crate) async fn call(
        self: &Arc<Self>,
        offered_tools: &OfferedTools,
        request: ToolCallRequest,
    ) -> ToolCallOutcome {
        let key = request.effect_key(self.run_id);
        let ToolCallRequest { mut call, turn, prepared, argument_faults: faults, answers, .. } =
            request;
        let context = CallContext { key, faults, answers, turn };
        if !prepared && !self.hooks.is_empty() {
            let id = call.id.clone();
            let gate = self.hooks.before_tool_call(&mut call).await;
            // The id links the result to the call, so a hook may change the arguments but not the id.
            call.id = id;
            if let HookDecision::Deny(reason) = gate {
                return self.refuse(call, format!("the call was denied: {reason}"));
            }
        }
        let Some(tool) = offered_tools.find(&call.name) else {
            let text = format!(
                "there is no tool `{}`; the tools are: {}",
                call.name,
                offered_tools.names()
            );
            return self.fail(call, ToolOutput::error(text), Duration::ZERO).await;
        };
        if let Err(reason) = self.check_handoff(&call.name, &call.arguments).await {
            return self.refuse(call, format!("the handoff was denied: {reason}"));
        }
        Box::pin(self.authorize_and_run(tool, call, context)).await
    }

    /// Authorizes a call and runs it. Repeats both after each decision that the tool requested.
    async fn authorize_and_run(
        self: &Arc<Self>,
        tool: &Arc<dyn Tool>,
        call: ToolCall,
        mut context: CallContext,
    ) -> ToolCallOutcome {
        let mut authorization = self.authorize(tool, &call, &context.answers).await;
        loop {
            let permit = match authorization {
                Authorization::Granted(permit) => permit,
                Authorization::Denied(text) => return self.refuse(call, text),
                Authorization::InvalidArguments(text) => {
                    return self
                        .reject_arguments(call, text, Duration::ZERO, context.retries_left(tool))
                        .await;
                }
                Authorization::Suspend(request) => {
                    return ToolCallOutcome::new(call, CallEnd::NeedsApproval(request));
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
                    return self.finish(call, output, duration).await;
                }
                ToolExecution::Failed(output) => return self.fail(call, output, duration).await,
                ToolExecution::InvalidArguments(text) => {
                    return self
                        .reject_arguments(call, text, duration, context.retries_left(tool))
                        .await;
                }
                ToolExecution::Fatal(error) => {
                    return ToolCallOutcome::new(call, CallEnd::Fatal(error));
                }
                ToolExecution::WaitsForRuns(wait) => {
                    return self.wait_for_runs(call, wait, &context.answers);
                }
                ToolExecution::Question(question) => question,
            };
            authorization = match self.request_decision(&call, question, &context.answers).await {
                Ok(answer) => {
                    context.answers.push(answer);
                    self.reauthorize(tool, &call, revision.as_deref()).await
                }
                Err(end) => end,
            };
        }
    }

    /// Runs an authorized call within a span. Dropping the future cancels the call.
    async fn execute(
        self: &Arc<Self>,
        tool: &Arc<dyn Tool>,
        permit: Permit,
        call: &ToolCall,
        context: &CallContext,
    ) -> ToolExecution {
        self.events.emit_with(|| EventKind::ToolStarted {
            call_id: call.id.clone(),
            name: call.name.clone(),
        });
        // Cancelled when the call ends in any way, so that everything the tool started stops with it.
        let cancel = self.control.cancel.child_token();
        let _ends_with_the_call = cancel.clone().drop_guard();
        let guard = self.guard().await;
        let tool_cx = ToolContext::new(ToolContextParts {
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
            callbacks: Arc::new(ToolCallbacks::new(self, call, context)),
            redact: guard.redactor().cloned(),
        });
        let span = telemetry::execute_tool(self, tool.spec(), call);
        let result = guard.run(permit, tool_cx).instrument(span.clone()).await;
        telemetry::close_tool(&span, &result);
        match result {
            Ok(output) if output.is_error => ToolExecution::Failed(output),
            Ok(output) => ToolExecution::Output(output),
            Err(ToolError::Fatal(error)) => ToolExecution::Fatal(error),
            Err(ToolError::NeedsApproval { hint, payload }) => {
                ToolExecution::Question(ToolQuestion {
                    kind: ApprovalRequestKind::Call,
                    hint,
                    payload,
                })
            }
            Err(ToolError::NeedsAnswer { question: hint, payload }) => {
                ToolExecution::Question(ToolQuestion {
                    kind: ApprovalRequestKind::Question,
                    hint,
                    payload,
                })
            }
            Err(ToolError::WaitsForRuns { wait }) => ToolExecution::WaitsForRuns(wait),
            Err(ToolError::Retry(text)) => ToolExecution::InvalidArguments(text),
            Err(error) => ToolExecution::Failed(error.into_output()),
        }
    }

    /// Ends a call with a wait for other runs, which suspends the run. If the run cannot be suspended or the call has
    /// already waited for these runs, ends it with an error result.
    fn wait_for_runs(
        &self,
        call: ToolCall,
        wait: Value,
        answers: &[ApprovalAnswer],
    ) -> ToolCallOutcome {
        let repeats = has_waited(answers, &wait) || answers.len() >= QUESTIONS_PER_CALL_MAX;
        if repeats || !matches!(self.on_approval, ApprovalMode::Suspend) {
            return self
                .refuse(call, "the call waits for runs, and nothing can end the wait".to_owned());
        }
        let request = ApprovalRequest {
            id: self.env.id(),
            kind: ApprovalRequestKind::Runs,
            call: call.clone(),
            hint: Some(WAITING_FOR_CHILDREN.to_owned()),
            payload: Some(wait),
            policy_revision: None,
            approvers: None,
        };
        self.events.emit(EventKind::ApprovalNeeded { request: Box::new(request.clone()) });
        ToolCallOutcome::new(call, CallEnd::NeedsApproval(request))
    }

    /// Requests a decision for a running tool. Returns the approval with its request, or the reason why the call ends.
    async fn request_decision(
        &self,
        call: &ToolCall,
        question: ToolQuestion,
        answers: &[ApprovalAnswer],
    ) -> Result<ApprovalAnswer, Authorization> {
        let ToolQuestion { kind, hint, payload } = question;
        let answered = decision_for(answers, Some(&hint), payload.as_ref()).is_some();
        if answered || answers.len() >= QUESTIONS_PER_CALL_MAX {
            // The tool repeats a decided request or exceeds the maximum.
            return Err(deny_with_reason(String::new()));
        }
        let prompt =
            ApprovalPrompt { kind, hint: Some(hint), payload, ..ApprovalPrompt::default() };
        let (request, decision) =
            self.request_approval(call, prompt).await.map_err(Authorization::Suspend)?;
        match decision {
            ApprovalDecision::Deny { reason } => Err(deny_with_reason(reason)),
            decision => Ok(ApprovalAnswer { request, decision }),
        }
    }

    /// Ends a call that is not allowed to run, with an error result. No hook is called.
    pub(super) fn refuse(&self, call: ToolCall, text: String) -> ToolCallOutcome {
        let result = ToolResult::error(&call, text);
        self.events.emit(EventKind::ToolFinished {
            result: Box::new(result.clone()),
            duration: Duration::ZERO,
        });
        ToolCallOutcome::new(call, CallEnd::Result(result))
    }

    /// Ends a call with invalid arguments, which counts against the tool's retries.
    async fn reject_arguments(
        &self,
        call: ToolCall,
        text: String,
        duration: Duration,
        retries_left: u32,
    ) -> ToolCallOutcome {
        let output = ToolOutput::error(with_retry_advice(text, retries_left));
        ToolCallOutcome { fault: true, ..self.fail(call, output, duration).await }
    }

    /// Ends a failed call with an error result, or with the output of a hook that recovers from the failure.
    async fn fail(
        &self,
        call: ToolCall,
        output: ToolOutput,
        duration: Duration,
    ) -> ToolCallOutcome {
        let failure = ToolFailure { call: &call, error: &output.to_text(), duration };
        let replacement = self.hooks.on_tool_error(&failure).await;
        self.finish(call, replacement.unwrap_or(output), duration).await
    }

    /// Ends an executed call: lets hooks change the output, and emits the result.
    pub(super) async fn finish(
        &self,
        call: ToolCall,
        mut output: ToolOutput,
        duration: Duration,
    ) -> ToolCallOutcome {
        self.hooks.after_tool_call(&call, &mut output, duration).await;
        let result = output.into_result(&call);
        self.events
            .emit_with(|| EventKind::ToolFinished { result: Box::new(result.clone()), duration });
        ToolCallOutcome::new(call, CallEnd::Result(result))
    }
}

impl CallContext {
    /// Returns how many further calls with invalid arguments the tool accepts.
    fn retries_left(&self, tool: &Arc<dyn Tool>) -> u32 {
        tool.spec().retries.saturating_sub(self.faults)
    }
}

/// Appends to an error whether the model can call the tool again.
fn with_retry_advice(text: String, retries_left: u32) -> String {
    match retries_left {
        0 => format!("{text}. Do not call this tool again."),
        1 => format!("{text}. Correct the arguments and call again; this is the last try."),
        _ => format!("{text}. Correct the arguments and call again."),
    }
}
