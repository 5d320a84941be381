//! One tool call: hooks, guard, approval, run, hooks.

use std::sync::Arc;
use std::time::Duration;

use provost_core::work::EffectKey;
use provost_core::{
    ApprovalDecision, ApprovalRequest, ErrorInfo, EventKind, RequestKind, ToolCall, ToolResult,
};
use provost_tool::{Permit, Tool, ToolCx, ToolCxParts, ToolError, ToolOutput};
use serde_json::Value;
use tokio::time::Instant;
use tracing::Instrument;

use super::ask::{Asking, Outside};
use super::clear::Cleared;
use super::setup::Cx;
use super::span;
use super::toolbox::Toolbox;
use crate::approval::OnApproval;
use crate::child::WAIT_HINT;
use crate::hook::{Gate, ToolFailure};
use crate::journal::JournalError;
use crate::run::{Answer, CallTicket, answer_to, has_waited};

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
    /// The journal does not take it; nothing was done.
    Stopped(JournalError),
}

/// What there was before a call is run.
#[derive(Clone)]
pub(super) struct Before {
    /// What is the same whenever this very call is made again.
    pub(super) key: EffectKey,
    /// How often the model has sent wrong arguments to this tool.
    faults: u32,
    /// What people have answered about this exact call.
    pub(super) answers: Vec<Answer>,
    /// The model call that asked for it.
    pub(super) turn: u32,
}

/// What a running tool asks a person.
struct Question {
    hint: String,
    payload: Option<serde_json::Value>,
    /// The revision of the policy that let it run.
    revision: Option<String>,
}

/// Ways that few calls take are boxed: the common call is a small future.
impl Cx {
    /// Takes one call to its end.
    pub(crate) async fn call(
        self: &Arc<Self>,
        toolbox: &Toolbox,
        ticket: CallTicket,
    ) -> CallOutcome {
        let key = ticket.effect_key(self.run_id);
        let CallTicket { mut call, turn, prepared, faults, answers, .. } = ticket;
        let before = Before { key, faults, answers, turn };
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
            return Box::pin(self.failed(call, text, Duration::ZERO, /*fault*/ false)).await;
        };
        if let Err(reason) = self.check_hand_off(&call.name, &call.arguments).await {
            return self.refused(call, format!("the hand-off was refused: {reason}"));
        }
        match self.clear(tool, &call, &before.answers).await {
            Cleared::Run(permit) => self.run_permitted(tool, permit, call, &before).await,
            Cleared::Refused(text) => self.refused(call, text),
            Cleared::Wrong(text) => {
                let text = budget_text(text, before.retries_left(tool));
                Box::pin(self.failed(call, text, Duration::ZERO, /*fault*/ true)).await
            }
            Cleared::Suspend(request) => {
                CallOutcome { effective: call, fault: false, end: CallEnd::NeedsApproval(request) }
            }
        }
    }

    async fn run_permitted(
        self: &Arc<Self>,
        tool: &Arc<dyn Tool>,
        permit: Permit,
        call: ToolCall,
        before: &Before,
    ) -> CallOutcome {
        if self.journal.is_some() {
            let begun = Box::pin(self.begin(tool, &permit, &call, before));
            if let Some(ended) = begun.await {
                return ended;
            }
        }
        let retries_left = before.retries_left(tool);
        let revision = permit.revision().map(str::to_owned);
        let call = Arc::new(call);
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
            effect_key: before.key.clone(),
            retries_left,
            cancel: cancel.clone(),
            deps: self.deps.clone(),
            state: self.state.clone(),
            outside: Arc::new(Outside::new(self, &call, before)),
        });
        let started = Instant::now();
        let span = span::execute_tool(self, tool.spec(), &call);
        let ran = self.guard().await.run(permit, tool_cx).instrument(span.clone()).await;
        let duration = started.elapsed();
        span::close_tool(&span, &ran);
        let call = Arc::unwrap_or_clone(call);
        match ran {
            Ok(output) if output.is_error => {
                Box::pin(self.failed_with(call, output, duration, /*fault*/ false)).await
            }
            Ok(output) => self.finished(call, output, duration, /*fault*/ false).await,
            Err(ToolError::Fatal(error)) => {
                CallOutcome { effective: call, fault: false, end: CallEnd::Fatal(error) }
            }
            Err(ToolError::NeedsApproval { hint, payload }) => {
                let question = Question { hint, payload, revision };
                Box::pin(self.ask_again(tool, call, question, before)).await
            }
            Err(ToolError::WaitsForRuns { wait }) => self.wait_for_runs(call, wait, before),
            Err(ToolError::Retry(text)) => {
                let text = budget_text(text, retries_left);
                Box::pin(self.failed(call, text, duration, /*fault*/ true)).await
            }
            Err(error) => {
                let output = error.into_output();
                Box::pin(self.failed_with(call, output, duration, /*fault*/ false)).await
            }
        }
    }

    /// Suspends the run until the runs that the call waits for have ended.
    fn wait_for_runs(&self, call: ToolCall, wait: Value, before: &Before) -> CallOutcome {
        let repeats =
            has_waited(&before.answers, &wait) || before.answers.len() >= QUESTIONS_PER_CALL_MAX;
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
        CallOutcome { effective: call, fault: false, end: CallEnd::NeedsApproval(request) }
    }

    /// A running tool found that it needs a person's decision before it can do anything.
    async fn ask_again(
        self: &Arc<Self>,
        tool: &Arc<dyn Tool>,
        call: ToolCall,
        question: Question,
        before: &Before,
    ) -> CallOutcome {
        let Question { hint, payload, revision } = question;
        let answered = answer_to(&before.answers, Some(&hint), payload.as_ref()).is_some();
        if answered || before.answers.len() >= QUESTIONS_PER_CALL_MAX {
            // It asks for what was already answered, or on and on: going round again would never end.
            return self.refused(call, ToolError::Rejected(String::new()).to_string());
        }
        let asking = Asking { hint: Some(hint), payload, ..Asking::default() };
        let (request, decision) = match self.ask_person(&call, asking).await {
            Err(request) => {
                return CallOutcome {
                    effective: call,
                    fault: false,
                    end: CallEnd::NeedsApproval(request),
                };
            }
            Ok(answered) => answered,
        };
        if let ApprovalDecision::Deny { reason } = decision {
            return self.refused(call, ToolError::Rejected(reason).to_string());
        }
        let mut decided = before.clone();
        decided.answers.push(Answer { request, decision });
        match self.clear_again(tool, &call, revision.as_deref()).await {
            Cleared::Run(permit) => self.run_permitted(tool, permit, call, &decided).await,
            Cleared::Suspend(request) => {
                CallOutcome { effective: call, fault: false, end: CallEnd::NeedsApproval(request) }
            }
            Cleared::Refused(text) | Cleared::Wrong(text) => self.refused(call, text),
        }
    }

    pub(super) fn refused(&self, call: ToolCall, text: String) -> CallOutcome {
        let result = ToolResult::error(&call, text);
        self.queue.emit(EventKind::ToolFinished {
            result: Box::new(result.clone()),
            duration: Duration::ZERO,
        });
        CallOutcome { effective: call, fault: false, end: CallEnd::Result(result) }
    }

    /// A call that failed with a sentence.
    async fn failed(
        &self,
        call: ToolCall,
        text: String,
        duration: Duration,
        fault: bool,
    ) -> CallOutcome {
        self.failed_with(call, ToolOutput::error(text), duration, fault).await
    }

    /// A failed call: hooks may rescue it, then it ends like any other.
    async fn failed_with(
        &self,
        call: ToolCall,
        output: ToolOutput,
        duration: Duration,
        fault: bool,
    ) -> CallOutcome {
        let failure = ToolFailure { call: &call, error: &output.to_text(), duration };
        let rescued = self.hooks.on_tool_error(&failure).await;
        self.finished(call, rescued.unwrap_or(output), duration, fault).await
    }

    pub(super) async fn finished(
        &self,
        call: ToolCall,
        mut output: ToolOutput,
        duration: Duration,
        fault: bool,
    ) -> CallOutcome {
        self.hooks.post_tool_use(&call, &mut output, duration).await;
        let result = output.into_result(&call);
        self.queue
            .emit_with(|| EventKind::ToolFinished { result: Box::new(result.clone()), duration });
        CallOutcome { effective: call, fault, end: CallEnd::Result(result) }
    }
}

impl Before {
    /// How often the model may still send wrong arguments to this tool.
    fn retries_left(&self, tool: &Arc<dyn Tool>) -> u32 {
        tool.spec().retries.saturating_sub(self.faults)
    }
}

/// Tells the model how much patience is left.
fn budget_text(text: String, retries_left: u32) -> String {
    match retries_left {
        0 => format!("{text}. Do not call this tool again."),
        1 => format!("{text}. Correct the arguments and call again; this is the last try."),
        _ => format!("{text}. Correct the arguments and call again."),
    }
}
