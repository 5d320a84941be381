//! Hooks around the run itself, and the one place to watch them all.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use provost_agent::hook::{
    Entry, Gate, Hook, HookCx, HookError, HookEvent, HookPoint, Observe, RunEnd,
};
use provost_agent::session::{MemorySessions, SessionStore};
use provost_agent::{Agent, AgentBuilder, Error, Outcome};
use provost_core::{Env, EventKind, Part, RunSummary};
use provost_model::{ModelErrorClass, ScriptedModel, call, fail, text};
use provost_tool::{ToolError, tool_fn};
use serde_json::json;

use crate::support::{Say, broken, echo, ended, events, names};

type Log = Arc<Mutex<Vec<String>>>;

/// Does what it is told at each point, and writes down how runs begin and end.
#[derive(Default)]
struct Life {
    log: Log,
    message: Option<Result<Gate, HookError>>,
    replaced: Option<&'static str>,
    entry: Option<Result<Entry, HookError>>,
    after_agent: Option<Result<&'static str, HookError>>,
}

impl Life {
    fn note(&self, line: String) {
        self.log.lock().unwrap().push(line);
    }
}

#[async_trait]
impl Hook for Life {
    async fn before_run(&self, _cx: &HookCx, input: &str) {
        self.note(format!("before_run {input}"));
    }

    async fn on_user_message(
        &self,
        _cx: &HookCx,
        parts: &mut Vec<Part>,
    ) -> Result<Gate, HookError> {
        if let Some(text) = self.replaced {
            *parts = vec![Part::text(text)];
        }
        self.message.clone().unwrap_or(Ok(Gate::Allow))
    }

    async fn before_agent(&self, _cx: &HookCx, _input: &str) -> Result<Entry, HookError> {
        self.entry.clone().unwrap_or(Ok(Entry::Go))
    }

    async fn after_agent(&self, _cx: &HookCx, summary: &mut RunSummary) -> Result<(), HookError> {
        self.note(format!("after_agent {}", summary.text));
        match self.after_agent.clone() {
            Some(Ok(text)) => summary.text = text.to_owned(),
            Some(Err(error)) => return Err(error),
            None => {}
        }
        Ok(())
    }

    async fn after_run(&self, _cx: &HookCx, end: &RunEnd<'_>) {
        let text = end.summary.map_or("-", |summary| summary.text.as_str());
        let code = end.error.map_or("-", |error| error.code.as_str());
        self.note(format!("after_run {} {text} {code} {}s", end.input, end.duration.as_secs()));
    }
}

/// A run on this model with this hook: how it ended, and what the hook wrote down.
async fn lived(
    model: &ScriptedModel,
    streaming: bool,
    life: Life,
) -> (Result<RunSummary, provost_core::ErrorInfo>, Vec<String>) {
    let log = Arc::clone(&life.log);
    let agent = Agent::builder("tester", model.clone()).hook(life).build().unwrap();
    let end = ended(agent.run("hi"), streaming).await;
    let log = log.lock().unwrap().clone();
    (end, log)
}

fn answer() -> ScriptedModel {
    ScriptedModel::new().turn(text("hello"))
}

fn broke<T>() -> Option<Result<T, HookError>> {
    Some(Err(HookError::new("hook broke")))
}

#[tokio::test]
async fn s081_a_hook_can_answer_in_the_models_place() {
    for streaming in [false, true] {
        let (model, entry) = (answer(), Some(Ok(Entry::Answer("cached".to_owned()))));
        let (end, log) = lived(&model, streaming, Life { entry, ..Life::default() }).await;
        let summary = end.unwrap();
        assert_eq!((summary.text.as_str(), summary.turns, model.call_count()), ("cached", 0, 0));
        assert_eq!(log, ["before_run hi", "after_agent cached", "after_run hi cached - 0s"]);
    }
}

#[tokio::test]
async fn s082_a_denied_run_is_an_outcome_not_an_error() {
    let (model, entry) = (answer(), Some(Ok(Entry::Deny("closed today".to_owned()))));
    let life = Life { entry, ..Life::default() };
    let agent = Agent::builder("tester", model.clone()).hook(life).build().unwrap();
    // The source gives an empty response; ours is an outcome of its own, and an error only where an answer is demanded.
    let denied = Outcome::Denied { reason: "closed today".to_owned() };
    assert_eq!(agent.run("hi").outcome().await.unwrap(), denied);
    assert!(
        matches!(agent.run("hi").await, Err(Error::Denied { reason }) if reason == "closed today")
    );
    assert_eq!(model.call_count(), 0);
}

#[tokio::test]
async fn s083_a_denied_run_still_passes_after_agent_and_after_run() {
    for streaming in [false, true] {
        let (model, entry) = (answer(), Some(Ok(Entry::Deny("closed".to_owned()))));
        let (end, log) = lived(&model, streaming, Life { entry, ..Life::default() }).await;
        assert_eq!(end.unwrap_err().code, "denied");
        assert_eq!(log, ["before_run hi", "after_agent ", "after_run hi - - 0s"]);
        assert_eq!(model.call_count(), 0);
    }
}

#[tokio::test]
async fn s084_a_failing_before_agent_fails_the_run() {
    for streaming in [false, true] {
        let model = answer();
        let (end, log) = lived(&model, streaming, Life { entry: broke(), ..Life::default() }).await;
        assert!(end.unwrap_err().message.contains("hook broke"));
        assert_eq!(model.call_count(), 0);
        assert_eq!(log, ["before_run hi", "after_run hi - hook 0s"], "exactly one after_run");
    }
}

#[tokio::test]
async fn s085_the_final_text_can_be_changed() {
    for streaming in [false, true] {
        let life = Life { after_agent: Some(Ok("changed")), ..Life::default() };
        let (end, log) = lived(&answer(), streaming, life).await;
        assert_eq!(end.unwrap().text, "changed");
        assert_eq!(log.last().unwrap(), "after_run hi changed - 0s");
    }
    let life = Life { after_agent: Some(Ok("changed")), ..Life::default() };
    let agent = Agent::builder("tester", answer()).hook(life).build().unwrap();
    assert_eq!(agent.run("hi").await.unwrap().output, "changed", "the output, too");
}

#[tokio::test]
async fn s086_a_failing_after_agent_fails_the_run() {
    for streaming in [false, true] {
        let life = Life { after_agent: broke(), ..Life::default() };
        let (end, log) = lived(&answer(), streaming, life).await;
        assert!(end.unwrap_err().message.contains("hook broke"));
        assert_eq!(log, ["before_run hi", "after_agent hello", "after_run hi - hook 0s"]);
    }
}

#[tokio::test]
async fn s087_a_run_begins_and_ends_with_its_hooks() {
    for streaming in [false, true] {
        let (end, log) = lived(&answer(), streaming, Life::default()).await;
        let text = end.unwrap().text;
        let after = format!("after_run hi {text} - 0s");
        assert_eq!(log, ["before_run hi".to_owned(), "after_agent hello".to_owned(), after]);
    }
}

#[tokio::test]
async fn s088_after_run_receives_the_error() {
    for streaming in [false, true] {
        let model = ScriptedModel::new().turn(fail(ModelErrorClass::Auth, "no key"));
        let (end, log) = lived(&model, streaming, Life::default()).await;
        assert_eq!(end.unwrap_err().code, "auth");
        assert_eq!(log, ["before_run hi", "after_run hi - auth 0s"]);
    }
}

/// A store that cannot be read.
#[derive(Default)]
struct Unreadable(MemorySessions);

impl SessionStore for Unreadable {
    fn load<'a>(
        &'a self,
        id: &'a str,
    ) -> provost_agent::session::SessionFuture<'a, Option<provost_agent::session::Transcript>> {
        let error = provost_agent::session::SessionError::Corrupt {
            id: id.to_owned(),
            problem: "scratched".to_owned(),
        };
        Box::pin(std::future::ready(Err(error)))
    }

    fn commit<'a>(
        &'a self,
        id: &'a str,
        change: provost_agent::session::Change,
    ) -> provost_agent::session::SessionFuture<'a, u64> {
        self.0.commit(id, change)
    }

    fn delete<'a>(&'a self, id: &'a str) -> provost_agent::session::SessionFuture<'a, bool> {
        self.0.delete(id)
    }

    fn list(
        &self,
    ) -> provost_agent::session::SessionFuture<'_, Vec<provost_agent::session::SessionInfo>> {
        self.0.list()
    }
}

#[tokio::test]
async fn every_run_that_began_has_exactly_one_end() {
    // The source forgets after_run when a run fails before its first model call.
    let table: [(&str, fn(AgentBuilder) -> AgentBuilder); 3] = [
        ("prompt", |agent| agent.instructions("You are {{ name }}.")),
        ("session", |agent| agent.sessions(Unreadable::default())),
        ("start", |agent| {
            agent.limits(provost_core::Limits::default().cost(provost_core::Money::ZERO))
        }),
    ];
    for (code, setup) in table {
        for streaming in [false, true] {
            let (model, life) = (answer(), Life::default());
            let log = Arc::clone(&life.log);
            let agent = setup(Agent::builder("tester", model.clone())).hook(life).build().unwrap();
            let run = agent.run("hi");
            let run = if code == "session" { run.session_id("s") } else { run };
            assert_eq!(ended(run, streaming).await.unwrap_err().code, code);
            let expected = ["before_run hi".to_owned(), format!("after_run hi - {code} 0s")];
            assert_eq!(*log.lock().unwrap(), expected);
            assert_eq!(model.call_count(), 0);
        }
    }
}

#[tokio::test]
async fn s089_after_run_of_a_streamed_run_with_tools_has_its_duration() {
    let env = Env::simulated(1);
    let clock = env.clone();
    let wait = tool_fn("wait", "Waits", move |_cx, _args: Say| {
        clock.advance(Duration::from_secs(3));
        async { Ok::<_, ToolError>("waited") }
    });
    let model = ScriptedModel::new().turn(call("wait", json!({}))).turn(text("done"));
    let life = Life::default();
    let log = Arc::clone(&life.log);
    let agent = Agent::builder("tester", model).env(env).tool(wait.unwrap()).hook(life);
    events(agent.build().unwrap().run("hi").stream()).await;
    assert_eq!(log.lock().unwrap().last().unwrap(), "after_run hi done - 3s");
}

#[tokio::test]
async fn s090_the_users_message_can_be_changed() {
    for streaming in [false, true] {
        let model = answer();
        let life = Life { replaced: Some("good day"), ..Life::default() };
        let (end, _) = lived(&model, streaming, life).await;
        assert_eq!(end.unwrap().text, "hello");
        assert_eq!(model.request(0).messages[0].text(), "good day");
    }
}

#[tokio::test]
async fn s091_a_denied_message_fails_the_run() {
    for streaming in [false, true] {
        let (model, message) = (answer(), Some(Ok(Gate::Deny("rude".to_owned()))));
        let (end, log) = lived(&model, streaming, Life { message, ..Life::default() }).await;
        assert!(end.unwrap_err().message.contains("rude"));
        assert_eq!(model.call_count(), 0);
        assert_eq!(log, ["before_run hi", "after_run hi - hook 0s"]);
    }
}

#[tokio::test]
async fn s092_a_failing_message_hook_fails_the_run() {
    for streaming in [false, true] {
        let model = answer();
        let (end, log) =
            lived(&model, streaming, Life { message: broke(), ..Life::default() }).await;
        assert!(end.unwrap_err().message.contains("hook broke"));
        assert_eq!(model.call_count(), 0);
        assert_eq!(log, ["before_run hi", "after_run hi - hook 0s"]);
    }
}

type Seen = Arc<Mutex<Vec<HookEvent>>>;

/// A hook of its own that listens at `on_event`.
struct Listener(Seen);

#[async_trait]
impl Hook for Listener {
    async fn on_event(&self, _cx: &HookCx, event: &HookEvent) {
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
    Box::new(|agent| agent.hook(Observe::new(watch)))
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
            HookPoint::PreModelCall,
            HookPoint::PostModelCall,
            HookPoint::PreToolUse,
            HookPoint::PostToolUse,
            HookPoint::PreModelCall,
            HookPoint::PostModelCall,
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
        let end = seen.iter().find(|event| event.point == HookPoint::PostToolUse).unwrap();
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
        assert!(of(HookPoint::PreModelCall).duration.is_none());
        assert_eq!(of(HookPoint::PostModelCall).duration, Some(Duration::from_secs(1)));
        assert!(of(HookPoint::PostModelCall).usage.is_some());
        let (pre, post) = (of(HookPoint::PreToolUse), of(HookPoint::PostToolUse));
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

#[tokio::test]
async fn the_stream_of_a_denied_run_ends_with_its_reason() {
    let entry = Some(Ok(Entry::Deny("closed".to_owned())));
    let agent = Agent::builder("tester", answer()).hook(Life { entry, ..Life::default() });
    let events = events(agent.build().unwrap().run("hi").stream()).await;
    assert_eq!(names(&events), ["run_started", "denied"]);
    assert!(matches!(&events[1].kind, EventKind::Denied { reason } if reason == "closed"));
}
