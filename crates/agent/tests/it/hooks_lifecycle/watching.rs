//! The one place to watch every hook point.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use provost_agent::hook::{Hook, HookEvent, HookPoint, ObserverHook};
use provost_agent::{Agent, AgentBuilder};
use provost_model::{ModelErrorClass, ScriptedModel, call, fail, text};
use provost_tool::RunContext;
use serde_json::json;

use crate::support::{broken, echo, ended};

type Seen = Arc<Mutex<Vec<HookEvent>>>;

/// A hook of its own that listens at `on_event`.
struct Listener(Seen);

#[async_trait]
impl Hook for Listener {
    async fn on_event(&self, _cx: &RunContext, event: &HookEvent) {
        self.0.lock().unwrap().push(event.clone());
    }
}

/// What a hook is told of a run on this model; the agent has an echo and a broken tool.
async fn told(
    model: ScriptedModel,
    streaming: bool,
    hook: impl FnOnce(Seen) -> AgentHook,
) -> Vec<HookEvent> {
    let seen = Seen::default();
    let agent = Agent::builder("tester", model).tool(echo(&Arc::default())).tool(broken());
    let agent = hook(Arc::clone(&seen))(agent).build().unwrap();
    let end = ended(agent.run("hi"), streaming).await;
    drop(end);
    let seen = seen.lock().unwrap().clone();
    assert!(seen.iter().all(|event| event.agent == "tester"));
    seen
}

type AgentHook = Box<dyn FnOnce(AgentBuilder) -> AgentBuilder>;

fn listener(seen: Seen) -> AgentHook {
    Box::new(|agent| agent.hook(Listener(seen)))
}

fn observer(seen: Seen) -> AgentHook {
    let watch = move |event: &HookEvent| seen.lock().unwrap().push(event.clone());
    Box::new(|agent| agent.hook(ObserverHook::new(watch)))
}

fn points(seen: &[HookEvent]) -> Vec<HookPoint> {
    seen.iter().map(|event| event.point).collect()
}

fn echo_run() -> ScriptedModel {
    let turn = call("echo", json!({ "text": "a" })).delay(Duration::from_secs(1));
    ScriptedModel::new().turn(turn).turn(text("done"))
}

#[tokio::test(start_paused = true)]
async fn s093_every_point_of_a_tool_run_is_told() {
    for streaming in [false, true] {
        let seen = told(echo_run(), streaming, listener).await;
        let expected = [
            HookPoint::BeforeRun,
            HookPoint::UserMessage,
            HookPoint::BeforeAgent,
            HookPoint::BeforeModelCall,
            HookPoint::AfterModelCall,
            HookPoint::BeforeToolCall,
            HookPoint::AfterToolCall,
            HookPoint::BeforeModelCall,
            HookPoint::AfterModelCall,
            HookPoint::AfterAgent,
            HookPoint::AfterRun,
        ];
        assert_eq!(points(&seen), expected);
    }
}

#[tokio::test]
async fn s094_a_failed_tool_is_told() {
    for streaming in [false, true] {
        let model = ScriptedModel::new().turn(call("broken", json!({}))).turn(text("done"));
        let seen = told(model, streaming, listener).await;
        let event = seen.iter().find(|event| event.point == HookPoint::ToolError).unwrap();
        assert_eq!((event.tool.as_deref(), event.is_error), (Some("broken"), true));
        assert_eq!(event.error.as_deref(), Some("it broke"));
        let end = seen.iter().find(|event| event.point == HookPoint::AfterToolCall).unwrap();
        assert!(end.is_error);
    }
}

#[tokio::test]
async fn s095_a_failed_model_call_is_told() {
    for streaming in [false, true] {
        let model = ScriptedModel::new().turn(fail(ModelErrorClass::Auth, "no key"));
        let seen = told(model, streaming, listener).await;
        let event = seen.iter().find(|event| event.point == HookPoint::ModelError).unwrap();
        assert_eq!((event.error.as_deref(), event.is_error), (Some("no key"), true));
        let last = seen.last().unwrap();
        assert_eq!((last.point, last.is_error), (HookPoint::AfterRun, true));
    }
}

#[tokio::test(start_paused = true)]
async fn s096_an_observer_is_told_of_model_and_tool_calls() {
    for streaming in [false, true] {
        let seen = told(echo_run(), streaming, observer).await;
        let of = |point| seen.iter().find(|event| event.point == point).unwrap();
        assert!(of(HookPoint::BeforeModelCall).duration.is_none());
        assert_eq!(of(HookPoint::AfterModelCall).duration, Some(Duration::from_secs(1)));
        assert!(of(HookPoint::AfterModelCall).usage.is_some());
        let (pre, post) = (of(HookPoint::BeforeToolCall), of(HookPoint::AfterToolCall));
        assert_eq!((pre.tool.as_deref(), pre.call_id.as_deref()), (Some("echo"), Some("call_1")));
        assert_eq!(pre.input.as_deref(), Some(r#"{"text":"a"}"#));
        assert_eq!((post.tool.as_deref(), post.output.as_deref()), (Some("echo"), Some("echo: a")));
        assert!(!post.is_error && post.duration.is_some());
    }
}

#[tokio::test]
async fn s097_an_observer_is_told_of_the_run_too() {
    for streaming in [false, true] {
        let model = ScriptedModel::new().turn(call("broken", json!({}))).turn(text("done"));
        let seen = told(model, streaming, observer).await;
        let of = |point| seen.iter().find(|event| event.point == point).unwrap();
        for point in [HookPoint::BeforeRun, HookPoint::UserMessage, HookPoint::BeforeAgent] {
            assert_eq!(of(point).input.as_deref(), Some("hi"));
        }
        assert_eq!(of(HookPoint::ToolError).error.as_deref(), Some("it broke"));
        assert_eq!(of(HookPoint::AfterAgent).output.as_deref(), Some("done"));
        assert!(
            of(HookPoint::AfterRun).error.is_none() && of(HookPoint::AfterRun).duration.is_some()
        );
    }
}
