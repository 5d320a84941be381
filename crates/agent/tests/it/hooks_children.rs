//! What hooks and people see of the agents below and of those that take over.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use provost_agent::hook::{
    Hook, HookDecision, HookError, HookEvent, HookPoint, ObserverHook, SubagentInfo,
};
use provost_agent::{Agent, ApprovalMode, Handoff, Subagent};
use provost_core::{ApprovalDecision, ToolCall};
use provost_model::{ModelErrorClass, ScriptedModel, call, fail, text};
use provost_tool::{RequiresApproval, RunContext};
use serde_json::json;

use crate::support::echo;

/// Keeps what hooks are told about children.
#[derive(Clone, Default)]
struct Watch {
    starts: Arc<Mutex<Vec<SubagentInfo>>>,
    stops: Arc<Mutex<Vec<SubagentInfo>>>,
    /// The tools that were about to run, each with the agent that wanted it.
    tools: Arc<Mutex<Vec<(String, String)>>>,
}

#[async_trait]
impl Hook for Watch {
    async fn before_tool_call(
        &self,
        cx: &RunContext,
        call: &mut ToolCall,
    ) -> Result<HookDecision, HookError> {
        self.tools.lock().unwrap().push((cx.agent.to_string(), call.name.clone()));
        Ok(HookDecision::Allow)
    }

    async fn on_subagent_start(&self, _cx: &RunContext, subagent: &SubagentInfo) {
        self.starts.lock().unwrap().push(subagent.clone());
    }

    async fn on_subagent_stop(&self, _cx: &RunContext, subagent: &SubagentInfo) {
        self.stops.lock().unwrap().push(subagent.clone());
    }
}

/// Lets a child work in the background and waits for it.
fn background() -> ScriptedModel {
    ScriptedModel::new()
        .turn(call("child", json!({"task": "think", "background": true})))
        .turn(call("get_task_result", json!({"task_id": "task-1", "wait": true})))
        .turn(text("done"))
}

/// Runs a lead above a child that has no hooks of its own.
async fn run(above: &ScriptedModel, below: &ScriptedModel, hook: impl Hook) {
    let count = Arc::new(AtomicUsize::new(0));
    let child = Agent::builder("child", below.clone()).tool(echo(&count)).build().unwrap();
    let lead = Agent::builder("lead", above.clone())
        .subagent(Subagent::new(&child, "Does one thing"))
        .hook(hook)
        .build()
        .unwrap();
    assert_eq!(lead.run("go").await.unwrap().output, "done");
}

#[tokio::test]
async fn s098_a_background_child_is_told_once_at_its_start_and_once_at_its_end() {
    let watch = Watch::default();
    run(&background(), &ScriptedModel::new().turn(text("forty-two")), watch.clone()).await;
    let (starts, stops) = (watch.starts.lock().unwrap(), watch.stops.lock().unwrap());
    assert_eq!((starts.len(), stops.len()), (1, 1));
    for info in [&starts[0], &stops[0]] {
        assert_eq!((info.task_id.as_str(), info.task.as_str()), ("task-1", "think"));
        assert!(info.agent.ends_with("child"), "{info:?}");
    }
    assert_eq!(starts[0].result, None);
    assert_eq!(stops[0].result, Some(Ok("forty-two".to_owned())));
}

#[tokio::test]
async fn s099_a_background_child_that_fails_says_so_at_its_end() {
    let watch = Watch::default();
    let below = ScriptedModel::new().turn(fail(ModelErrorClass::InvalidRequest, "no such model"));
    run(&background(), &below, watch.clone()).await;
    let stops = watch.stops.lock().unwrap();
    assert_eq!(stops.len(), 1);
    let error = stops[0].result.clone().unwrap().unwrap_err();
    assert!(error.contains("no such model"), "{error}");
}

#[tokio::test]
async fn s100_hooks_of_the_parent_reach_a_child_without_hooks() {
    let below = || ScriptedModel::new().turn(call("echo", json!({"text": "a"}))).turn(text("b"));
    let above =
        ScriptedModel::new().turn(call("child", json!({"task": "think"}))).turn(text("done"));
    for above in [above, background()] {
        let watch = Watch::default();
        run(&above, &below(), watch.clone()).await;
        let tools = watch.tools.lock().unwrap();
        let wanted = ("lead/child".to_owned(), "echo".to_owned());
        assert_eq!(tools.iter().filter(|seen| **seen == wanted).count(), 1, "{tools:?}");
    }
}

#[tokio::test]
async fn s101_model_calls_of_a_background_child_carry_its_task() {
    let seen: Arc<Mutex<Vec<HookEvent>>> = Arc::default();
    let note = Arc::clone(&seen);
    let observe =
        ObserverHook::new(move |event: &HookEvent| note.lock().unwrap().push(event.clone()));
    let below = ScriptedModel::new().turn(call("echo", json!({}))).turn(text("forty-two"));
    run(&background(), &below, observe).await;
    let seen = seen.lock().unwrap();
    for point in [HookPoint::BeforeModelCall, HookPoint::AfterModelCall] {
        let of = |agent: &str| -> Vec<_> {
            let at = |event: &&HookEvent| event.point == point && event.agent == agent;
            seen.iter().filter(at).map(|event| event.task_id.as_deref()).collect()
        };
        assert_eq!(of("lead/child"), [Some("task-1"); 2], "{point:?}");
        assert_eq!(of("lead"), [None; 3], "{point:?}");
    }
}

/// Approves everything and keeps what it was asked about.
fn approving(asked: &Arc<Mutex<Vec<String>>>) -> ApprovalMode {
    let asked = Arc::clone(asked);
    ApprovalMode::callback(move |request| {
        asked.lock().unwrap().push(request.call.name);
        std::future::ready(Ok(ApprovalDecision::Approve))
    })
}

#[tokio::test]
async fn s112_after_a_hand_off_the_target_asks_whom_it_always_asks() {
    let (count, source, target) =
        (Arc::new(AtomicUsize::new(0)), Arc::default(), Arc::<Mutex<Vec<String>>>::default());
    let guarded = || echo(&count).with_spec(|spec| spec.approval(RequiresApproval::Always));
    let model = ScriptedModel::new().turn(call("echo", json!({}))).turn(text("paid"));
    let billing = Agent::builder("billing", model).tool(guarded()).approvals(approving(&target));
    let billing = billing.build().unwrap();
    let model = ScriptedModel::new()
        .turn(call("echo", json!({})))
        .turn(call("transfer_to_billing", json!({"reason": "money"})));
    let front = Agent::builder("front", model)
        .tool(guarded())
        .approvals(approving(&source))
        .handoff(Handoff::to(&billing, "Money questions"))
        .build()
        .unwrap();
    let result = front.run("pay").await.unwrap();
    assert_eq!((result.output.as_str(), count.load(Ordering::SeqCst)), ("paid", 2));
    assert_eq!(*source.lock().unwrap(), ["echo"], "its own call, and no more");
    assert_eq!(*target.lock().unwrap(), ["echo"]);
}
