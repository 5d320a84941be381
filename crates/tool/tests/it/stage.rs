//! What a driver of runs does around a call, in small.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use provost_core::recovery::EffectKey;
use provost_core::{ApprovalDecision, RunId, ToolCall};
use provost_tool::{
    Confirm, Deps, Guard, RunContext, State, Tool, ToolCx, ToolCxParts, ToolError, ToolOutput,
    Verdict,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// People who always give the same answer, and remember what they were asked.
pub(crate) struct People {
    answer: Result<ApprovalDecision, ToolError>,
    takes: Duration,
    pub(crate) asked: Mutex<Vec<(String, Option<Value>)>>,
    pub(crate) told: Mutex<Vec<String>>,
}

impl People {
    pub(crate) fn who(answer: Result<ApprovalDecision, ToolError>) -> Arc<Self> {
        Arc::new(Self::after(Duration::ZERO, answer))
    }

    pub(crate) fn who_approve_after(takes: Duration) -> Arc<Self> {
        Arc::new(Self::after(takes, Ok(ApprovalDecision::Approve)))
    }

    fn after(takes: Duration, answer: Result<ApprovalDecision, ToolError>) -> Self {
        Self { answer, takes, asked: Mutex::default(), told: Mutex::default() }
    }

    pub(crate) fn who_approve() -> Arc<Self> {
        Self::who(Ok(ApprovalDecision::Approve))
    }
}

impl Confirm for People {
    fn confirm<'a>(
        &'a self,
        _cx: &'a ToolCx,
        hint: String,
        payload: Option<Value>,
    ) -> BoxFuture<'a, Result<ApprovalDecision, ToolError>> {
        self.asked.lock().unwrap().push((hint, payload));
        async {
            if !self.takes.is_zero() {
                tokio::time::sleep(self.takes).await;
            }
            self.answer.clone()
        }
        .boxed()
    }

    fn progress(&self, _cx: &ToolCx, message: String) {
        self.told.lock().unwrap().push(message);
    }
}

pub(crate) fn run_id() -> RunId {
    "run_00000000000000000000000001".parse().unwrap()
}

pub(crate) fn cx_with(people: Arc<People>, deps: Deps) -> ToolCx {
    ToolCx::new(parts(people, deps))
}

pub(crate) fn cx_with_state(state: State) -> ToolCx {
    ToolCx::new(ToolCxParts { state, ..parts(People::who_approve(), Deps::default()) })
}

fn parts(people: Arc<People>, deps: Deps) -> ToolCxParts {
    ToolCxParts {
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
        outside: people,
    }
}

pub(crate) fn cx() -> ToolCx {
    cx_with(People::who_approve(), Deps::default())
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

/// Checks and runs a call that nobody needs to approve.
pub(crate) async fn run(
    tool: &Arc<dyn Tool>,
    cx: ToolCx,
    arguments: Value,
) -> Result<ToolOutput, ToolError> {
    match Guard::default().check(tool, &call(tool, &arguments), false) {
        Verdict::Allow(permit) => Guard::default().run(permit, cx).await,
        other => panic!("not allowed: {}", verdict(other)),
    }
}

/// A verdict as text.
pub(crate) fn verdict(verdict: Verdict) -> String {
    match verdict {
        Verdict::Allow(permit) => format!("allow {}", permit.arguments()),
        Verdict::Ask(_) => "ask".to_owned(),
        Verdict::Deny(fault) => format!("deny: {}", fault.message),
        Verdict::Invalid(why) => format!("invalid: {why}"),
    }
}
