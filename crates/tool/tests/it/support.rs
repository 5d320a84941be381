//! Fake callbacks and contexts for calls without a run.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use provost_core::recovery::EffectKey;
use provost_core::{ApprovalDecision, RunId, ToolCall};
use provost_tool::{
    Deps, Guard, GuardDecision, RunCallbacks, RunContext, State, Tool, ToolContext,
    ToolContextParts, ToolError, ToolOutput,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Approver with a fixed answer. It records questions and progress.
pub(crate) struct FakeApprover {
    answer: Result<ApprovalDecision, ToolError>,
    takes: Duration,
    pub(crate) questions: Mutex<Vec<(String, Option<Value>)>>,
    pub(crate) progress: Mutex<Vec<String>>,
}

impl FakeApprover {
    pub(crate) fn answering(answer: Result<ApprovalDecision, ToolError>) -> Arc<Self> {
        Arc::new(Self::after(Duration::ZERO, answer))
    }

    pub(crate) fn approving_after(takes: Duration) -> Arc<Self> {
        Arc::new(Self::after(takes, Ok(ApprovalDecision::Approve)))
    }

    fn after(takes: Duration, answer: Result<ApprovalDecision, ToolError>) -> Self {
        Self { answer, takes, questions: Mutex::default(), progress: Mutex::default() }
    }

    pub(crate) fn approving() -> Arc<Self> {
        Self::answering(Ok(ApprovalDecision::Approve))
    }
}

impl RunCallbacks for FakeApprover {
    fn confirm<'a>(
        &'a self,
        _cx: &'a ToolContext,
        hint: String,
        payload: Option<Value>,
    ) -> BoxFuture<'a, Result<ApprovalDecision, ToolError>> {
        self.questions.lock().unwrap().push((hint, payload));
        async {
            if !self.takes.is_zero() {
                tokio::time::sleep(self.takes).await;
            }
            self.answer.clone()
        }
        .boxed()
    }

    fn progress(&self, _cx: &ToolContext, message: String) {
        self.progress.lock().unwrap().push(message);
    }
}

pub(crate) fn run_id() -> RunId {
    "run_00000000000000000000000001".parse().unwrap()
}

pub(crate) fn cx_with(approver: Arc<FakeApprover>, deps: Deps) -> ToolContext {
    ToolContext::new(parts(approver, deps))
}

/// The context of a call under a guard.
pub(crate) fn cx_under(guard: &Guard, approver: Arc<FakeApprover>) -> ToolContext {
    let redact = guard.redactor().cloned();
    ToolContext::new(ToolContextParts { redact, ..parts(approver, Deps::default()) })
}

pub(crate) fn cx_with_state(state: State) -> ToolContext {
    ToolContext::new(ToolContextParts {
        state,
        ..parts(FakeApprover::approving(), Deps::default())
    })
}

fn parts(approver: Arc<FakeApprover>, deps: Deps) -> ToolContextParts {
    ToolContextParts {
        run_id: run_id(),
        agent: "lead/clerk".into(),
        call_id: "call_1".to_owned(),
        tool: "tool".to_owned(),
        effect_key: EffectKey::new(run_id(), 1, 0),
        depth: 0,
        depth_max: None,
        retries_left: 2,
        cancel: CancellationToken::new(),
        deps,
        state: State::default(),
        callbacks: approver,
        redact: None,
    }
}

pub(crate) fn cx() -> ToolContext {
    cx_with(FakeApprover::approving(), Deps::default())
}

pub(crate) fn toolset_cx() -> RunContext {
    RunContext {
        run_id: run_id(),
        agent: "lead/clerk".into(),
        turn: 1,
        task_id: None,
        session: None,
        deps: Deps::default(),
        state: State::default(),
    }
}

pub(crate) fn call(tool: &Arc<dyn Tool>, arguments: &Value) -> ToolCall {
    ToolCall::new("call_1", tool.spec().name(), arguments)
}

/// Checks and runs a call that needs no approval.
pub(crate) async fn run(
    tool: &Arc<dyn Tool>,
    cx: ToolContext,
    arguments: Value,
) -> Result<ToolOutput, ToolError> {
    match Guard::default().check(tool, &call(tool, &arguments), false) {
        GuardDecision::Allow(permit) => Guard::default().run(permit, cx).await,
        other => panic!("not allowed: {}", verdict(other)),
    }
}

/// Formats a decision.
pub(crate) fn verdict(verdict: GuardDecision) -> String {
    match verdict {
        GuardDecision::Allow(permit) => format!("allow {}", permit.arguments()),
        GuardDecision::Ask(_) => "ask".to_owned(),
        GuardDecision::Deny(fault) => format!("deny: {}", fault.message),
        GuardDecision::Invalid(reason) => format!("invalid: {reason}"),
    }
}
