//! Hooks around the run itself.

mod watching;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use provost_agent::hook::{Hook, HookDecision, HookError, RunEnd, StartDecision};
use provost_agent::{Agent, AgentBuilder, Error, RunOutcome};
use provost_core::{ContentPart, Env, EventKind, RunSummary};
use provost_model::{ModelErrorClass, ScriptedModel, call, fail, text};
use provost_session::{
    InMemorySessionStore, SessionChange, SessionError, SessionFuture, SessionInfo, SessionStore,
    Transcript,
};
use provost_tool::{RunContext, ToolError, tool_fn};
use serde_json::json;

use crate::support::{Say, ended, events, names};

type Log = Arc<Mutex<Vec<String>>>;

/// Does what it is told at each point, and writes down how runs begin and end.
#[derive(Default)]
struct Life {
    log: Log,
    message: Option<Result<HookDecision, HookError>>,
    replaced: Option<&'static str>,
    entry: Option<Result<StartDecision, HookError>>,
    after_agent: Option<Result<&'static str, HookError>>,
}

impl Life {
    fn note(&self, line: String) {
        self.log.lock().unwrap().push(line);
    }
}

#[async_trait]
impl Hook for Life {
    async fn before_run(&self, _cx: &RunContext, input: &str) {
        self.note(format!("before_run {input}"));
    }

    async fn on_user_message(
        &self,
        _cx: &RunContext,
        parts: &mut Vec<ContentPart>,
    ) -> Result<HookDecision, HookError> {
        if let Some(text) = self.replaced {
            *parts = vec![ContentPart::text(text)];
        }
        self.message.clone().unwrap_or(Ok(HookDecision::Allow))
    }

    async fn before_agent(
        &self,
        _cx: &RunContext,
        _input: &str,
    ) -> Result<StartDecision, HookError> {
        self.entry.clone().unwrap_or(Ok(StartDecision::Continue))
    }

    async fn after_agent(
        &self,
        _cx: &RunContext,
        summary: &mut RunSummary,
    ) -> Result<(), HookError> {
        self.note(format!("after_agent {}", summary.text));
        match self.after_agent.clone() {
            Some(Ok(text)) => summary.text = text.to_owned(),
            Some(Err(error)) => return Err(error),
            None => {}
        }
        Ok(())
    }

    async fn after_run(&self, _cx: &RunContext, end: &RunEnd<'_>) {
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
        let (model, entry) = (answer(), Some(Ok(StartDecision::Respond("cached".to_owned()))));
        let (end, log) = lived(&model, streaming, Life { entry, ..Life::default() }).await;
        let summary = end.unwrap();
        assert_eq!((summary.text.as_str(), summary.turns, model.call_count()), ("cached", 0, 0));
        assert_eq!(log, ["before_run hi", "after_agent cached", "after_run hi cached - 0s"]);
    }
}

#[tokio::test]
async fn s082_a_denied_run_is_an_outcome_not_an_error() {
    let (model, entry) = (answer(), Some(Ok(StartDecision::Deny("closed today".to_owned()))));
    let life = Life { entry, ..Life::default() };
    let agent = Agent::builder("tester", model.clone()).hook(life).build().unwrap();
    // The source gives an empty response; ours is an outcome of its own, and an error only where an answer is demanded.
    let denied = RunOutcome::Denied { reason: "closed today".to_owned() };
    assert_eq!(agent.run("hi").outcome().await.unwrap(), denied);
    assert!(
        matches!(agent.run("hi").await, Err(Error::Denied { reason }) if reason == "closed today")
    );
    assert_eq!(model.call_count(), 0);
}

#[tokio::test]
async fn s083_a_denied_run_still_passes_after_agent_and_after_run() {
    for streaming in [false, true] {
        let (model, entry) = (answer(), Some(Ok(StartDecision::Deny("closed".to_owned()))));
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
struct Unreadable(InMemorySessionStore);

impl SessionStore for Unreadable {
    fn load<'a>(&'a self, id: &'a str) -> SessionFuture<'a, Option<Transcript>> {
        let error = SessionError::Corrupt { id: id.to_owned(), problem: "scratched".to_owned() };
        Box::pin(std::future::ready(Err(error)))
    }

    fn commit<'a>(
        &'a self,
        id: &'a str,
        base: u64,
        change: SessionChange,
    ) -> SessionFuture<'a, u64> {
        self.0.commit(id, base, change)
    }

    fn delete<'a>(&'a self, id: &'a str) -> SessionFuture<'a, bool> {
        self.0.delete(id)
    }

    fn list(&self) -> SessionFuture<'_, Vec<SessionInfo>> {
        self.0.list()
    }
}

#[tokio::test]
async fn every_run_that_began_has_exactly_one_end() {
    // The source forgets after_run when a run fails before its first model call.
    type Setup = fn(AgentBuilder) -> AgentBuilder;
    let table: [(&str, Setup); 3] = [
        ("prompt", |agent| agent.instructions("You are {{ name }}.")),
        ("session", |agent| agent.session_store(Unreadable::default())),
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
            let run = if code == "session" { run.session("s") } else { run };
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
        let (model, message) = (answer(), Some(Ok(HookDecision::Deny("rude".to_owned()))));
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

#[tokio::test]
async fn the_stream_of_a_denied_run_ends_with_its_reason() {
    let entry = Some(Ok(StartDecision::Deny("closed".to_owned())));
    let agent = Agent::builder("tester", answer()).hook(Life { entry, ..Life::default() });
    let events = events(agent.build().unwrap().run("hi").stream()).await;
    assert_eq!(names(&events), ["run_started", "denied"]);
    assert!(matches!(&events[1].kind, EventKind::Denied { reason } if reason == "closed"));
}
