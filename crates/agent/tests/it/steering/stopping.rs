//! Stopping a live run: nothing survives it, and the session stays valid.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use provost_agent::hook::{Hook, HookError, RunEnd, StartDecision};
use provost_agent::{Agent, Error, RunOutcome};
use provost_core::{Event, EventKind, Message, Role};
use provost_model::{
    ChatModel, ChatRequest, ModelInfo, ModelStream, ScriptedModel, ScriptedTurn, call, calls, text,
};
use provost_session::{InMemorySessionStore, SessionStore};
use provost_tool::{RunContext, Toolset, ToolsetFuture};
use serde_json::json;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::support::{Alive, assert_well_formed, echo, ended, endless};

/// A model whose calls are counted while they are alive.
struct Counted {
    inner: ScriptedModel,
    alive: Arc<AtomicUsize>,
}

impl ChatModel for Counted {
    fn info(&self) -> &ModelInfo {
        self.inner.info()
    }

    fn stream(&self, request: ChatRequest) -> ModelStream {
        let guard = Alive::new(&self.alive);
        let events = self.inner.stream(request);
        Box::pin(events.map(move |event| {
            let _alive = &guard;
            event
        }))
    }
}

/// Lets everything that can run do so; in bounded time nothing is left.
async fn assert_nothing_left(alive: &Arc<AtomicUsize>) {
    for _ in 0..100 {
        if Handle::current().metrics().num_alive_tasks() == 0 {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 0, "no task survives");
    assert_eq!(alive.load(Ordering::SeqCst), 0, "no call survives");
}

async fn stored(sessions: &InMemorySessionStore) -> Vec<Arc<Message>> {
    let messages = sessions.load("s").await.unwrap().unwrap_or_default().messages;
    assert_well_formed(&messages);
    messages
}

/// Reads a stream until an event of this name, and drops it there.
async fn drop_at(agent: &Agent, sessions: &InMemorySessionStore, wanted: fn(&EventKind) -> bool) {
    let mut stream = agent.run("hi").session_in(Arc::new(sessions.clone()), "s").stream();
    while let Some(event) = stream.next().await {
        if wanted(&event.kind) {
            return;
        }
    }
    panic!("the run ended before");
}

#[tokio::test(start_paused = true)]
async fn s230_dropping_the_stream_ends_the_model_call() {
    let (alive, sessions) = (Arc::default(), InMemorySessionStore::new());
    let inner =
        ScriptedModel::new().turn(ScriptedTurn::default().deltas(["Once ", "upon "]).hang());
    let model = Counted { inner: inner.clone(), alive: Arc::clone(&alive) };
    let agent = Agent::builder("tester", model).build().unwrap();
    let start = tokio::time::Instant::now();
    drop_at(
        &agent,
        &sessions,
        |kind| matches!(kind, EventKind::TextDelta { text } if text == "upon "),
    )
    .await;
    assert_nothing_left(&alive).await;
    assert_eq!(start.elapsed(), Duration::ZERO, "without waiting for anything");
    let messages = stored(&sessions).await;
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[1].text(), "Once upon ", "what was said is kept");
    assert!(messages[1].interrupted);
    assert_eq!(inner.call_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_stream_ends_all_tools() {
    let (alive, sessions) = (Arc::new(AtomicUsize::new(0)), InMemorySessionStore::new());
    let three = || calls([("endless", json!({})), ("echo", json!({})), ("endless", json!({}))]);
    let model = ScriptedModel::new().turn(three());
    let agent = Agent::builder("tester", model.clone())
        .tool(endless(&alive))
        .tool(echo(&Arc::default()))
        .build()
        .unwrap();
    let watched = Arc::clone(&alive);
    drop_at(&agent, &sessions, |kind| matches!(kind, EventKind::ToolFinished { .. })).await;
    assert!(watched.load(Ordering::SeqCst) > 0, "they were running");
    assert_nothing_left(&alive).await;
    let messages = stored(&sessions).await;
    let results: Vec<_> = messages[2].tool_results().collect();
    assert_eq!(results.len(), 3);
    assert!(results[0].is_error && results[0].to_text().contains("interrupted"));
    assert_eq!(results[1].to_text(), "echo: ", "a finished call keeps its result");
    assert_eq!(model.call_count(), 1);
}

#[tokio::test]
async fn a_stream_that_was_never_read_does_nothing_when_dropped() {
    struct Began(Arc<AtomicUsize>);
    #[async_trait]
    impl Hook for Began {
        async fn before_run(&self, _cx: &RunContext, _input: &str) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (began, sessions) = (Arc::default(), InMemorySessionStore::new());
    let model = ScriptedModel::new().turn(text("done"));
    let agent =
        Agent::builder("tester", model.clone()).hook(Began(Arc::clone(&began))).build().unwrap();
    drop(agent.run("hi").session_in(Arc::new(sessions.clone()), "s").stream());
    assert_nothing_left(&began).await;
    assert_eq!(model.call_count(), 0);
    assert!(sessions.load("s").await.unwrap().is_none());
}

/// Waits for ever at one point of a run.
struct Stuck {
    point: &'static str,
    alive: Arc<AtomicUsize>,
}

impl Stuck {
    async fn at(&self, point: &str) {
        if self.point == point {
            let _alive = Alive::new(&self.alive);
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl Hook for Stuck {
    async fn before_agent(
        &self,
        _cx: &RunContext,
        _input: &str,
    ) -> Result<StartDecision, HookError> {
        self.at("before_agent").await;
        Ok(StartDecision::Continue)
    }

    async fn before_model_call(
        &self,
        _: &RunContext,
        _: &mut ChatRequest,
    ) -> Result<(), HookError> {
        self.at("pre_model_call").await;
        Ok(())
    }

    async fn before_tool_call(
        &self,
        _cx: &RunContext,
        _call: &mut provost_core::ToolCall,
    ) -> Result<provost_agent::hook::HookDecision, HookError> {
        self.at("pre_tool_use").await;
        Ok(provost_agent::hook::HookDecision::Allow)
    }
}

struct StuckTools(Arc<AtomicUsize>);

impl Toolset for StuckTools {
    fn name(&self) -> &str {
        "stuck"
    }

    fn tools<'a>(&'a self, _cx: &'a RunContext) -> ToolsetFuture<'a> {
        let alive = Alive::new(&self.0);
        Box::pin(async move {
            let _alive = alive;
            std::future::pending().await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_hangs_in_a_hook_or_a_toolset_can_be_stopped() {
    for point in ["before_agent", "pre_model_call", "pre_tool_use", "toolset"] {
        let (alive, sessions) = (Arc::new(AtomicUsize::new(0)), InMemorySessionStore::new());
        let model = ScriptedModel::new().turn(call("echo", json!({}))).turn(text("done"));
        let mut builder = Agent::builder("tester", model)
            .tool(echo(&Arc::default()))
            .hook(Stuck { point, alive: Arc::clone(&alive) });
        if point == "toolset" {
            builder = builder.toolset(StuckTools(Arc::clone(&alive)));
        }
        let agent = builder.build().unwrap();
        let mut stream = agent.run("hi").session_in(Arc::new(sessions.clone()), "s").stream();
        while let Ok(Some(_)) = tokio::time::timeout(Duration::from_secs(1), stream.next()).await {}
        assert_eq!(alive.load(Ordering::SeqCst), 1, "it hangs in {point}");
        drop(stream);
        assert_nothing_left(&alive).await;
        stored(&sessions).await;
    }
}

/// The end of a run that is cancelled at an event.
async fn cancel_at(
    agent: &Agent,
    sessions: &InMemorySessionStore,
    wanted: fn(&EventKind) -> bool,
) -> (Vec<Event>, RunOutcome) {
    let mut stream = agent.run("hi").session_in(Arc::new(sessions.clone()), "s").stream();
    let handle = stream.handle();
    let mut all = Vec::new();
    while let Some(event) = stream.next().await {
        if wanted(&event.kind) {
            handle.cancel();
        }
        all.push(event);
    }
    (all, stream.outcome().await.unwrap())
}

#[tokio::test(start_paused = true)]
async fn cancelling_during_an_answer_keeps_what_was_said() {
    let (alive, sessions) = (Arc::default(), InMemorySessionStore::new());
    let inner = ScriptedModel::new()
        .turn(ScriptedTurn::default().deltas(["Once ", "upon "]).hang())
        .turn(text("a time"));
    let model = Counted { inner: inner.clone(), alive: Arc::clone(&alive) };
    let agent = Agent::builder("tester", model).build().unwrap();
    let (events, outcome) = cancel_at(
        &agent,
        &sessions,
        |kind| matches!(kind, EventKind::TextDelta { text } if text == "upon "),
    )
    .await;
    assert_eq!(events.last().unwrap().kind, EventKind::Cancelled);
    let RunOutcome::Cancelled(partial) = outcome else { panic!("{outcome:?}") };
    assert_eq!(partial.text, "Once upon ");
    assert_nothing_left(&alive).await;
    let messages = stored(&sessions).await;
    assert!(messages[1].interrupted && messages[1].text() == "Once upon ");
    let next = agent.run("go on").session_in(Arc::new(sessions.clone()), "s").await.unwrap();
    assert_eq!(next.output, "a time");
    let seen: Vec<_> = inner.request(1).messages.iter().map(|message| message.text()).collect();
    assert_eq!(seen, ["hi", "Once upon ", "go on"], "the conversation goes on");
}

#[tokio::test(start_paused = true)]
async fn cancelling_while_a_call_is_written_leaves_no_half_call() {
    let sessions = InMemorySessionStore::new();
    let turn = ScriptedTurn::default().text("Let me see.").raw_call("c", "echo", r#"{"te"#).hang();
    let model = ScriptedModel::new().turn(turn);
    let agent = Agent::builder("tester", model).tool(echo(&Arc::default())).build().unwrap();
    cancel_at(&agent, &sessions, |kind| matches!(kind, EventKind::ToolCallDelta { .. })).await;
    let messages = stored(&sessions).await;
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[1].tool_calls().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn cancelling_during_tools_gives_each_call_a_result() {
    let (alive, sessions) = (Arc::new(AtomicUsize::new(0)), InMemorySessionStore::new());
    let model = ScriptedModel::new()
        .turn(calls([("echo", json!({ "text": "a" })), ("endless", json!({}))]))
        .turn(text("done"));
    let agent = Agent::builder("tester", model.clone())
        .tool(endless(&alive))
        .tool(echo(&Arc::default()))
        .build()
        .unwrap();
    let (events, outcome) =
        cancel_at(&agent, &sessions, |kind| matches!(kind, EventKind::ToolFinished { .. })).await;
    assert_eq!(events.last().unwrap().kind, EventKind::Cancelled);
    let RunOutcome::Cancelled(partial) = outcome else { panic!("{outcome:?}") };
    assert_eq!(partial.tool_results.len(), 2, "the partial result is usable");
    assert_nothing_left(&alive).await;
    let messages = stored(&sessions).await;
    let roles: Vec<_> = messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::Tool]);
    let results: Vec<_> = messages[2].tool_results().map(|result| result.to_text()).collect();
    assert_eq!(results[0], "echo: a");
    assert!(results[1].contains("interrupted"), "{results:?}");
}

#[tokio::test(start_paused = true)]
async fn cancelling_while_paused_or_while_a_person_is_asked_ends_the_run() {
    let paused = Agent::builder("tester", ScriptedModel::new().turn(text("done"))).build().unwrap();
    let stream = paused.run("hi").stream();
    let handle = stream.handle();
    handle.pause();
    let ((), outcome) = tokio::join!(async { handle.cancel() }, stream.outcome());
    assert!(matches!(outcome, Ok(RunOutcome::Cancelled(_))), "{outcome:?}");

    let sessions = InMemorySessionStore::new();
    let guarded = echo(&Arc::default())
        .with_spec(|spec| spec.approval(provost_tool::RequiresApproval::Always));
    let asking = Agent::builder("tester", ScriptedModel::new().turn(call("echo", json!({}))))
        .tool(guarded)
        .approvals(provost_agent::ApprovalMode::Interactive)
        .build()
        .unwrap();
    let (_, outcome) =
        cancel_at(&asking, &sessions, |kind| matches!(kind, EventKind::ApprovalNeeded { .. }))
            .await;
    assert!(matches!(outcome, RunOutcome::Cancelled(_)), "{outcome:?}");
    assert_eq!(stored(&sessions).await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_token_of_the_program_stops_a_run_and_stays_the_programs() {
    struct Ended(Arc<AtomicUsize>);
    #[async_trait]
    impl Hook for Ended {
        async fn after_run(&self, _cx: &RunContext, _end: &RunEnd<'_>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (ends, token) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
    let model =
        ScriptedModel::new().turn(text("first")).turn(ScriptedTurn::default().text("sec").hang());
    let agent = Agent::builder("tester", model).hook(Ended(Arc::clone(&ends))).build().unwrap();
    ended(agent.run("hi").cancel_token(token.clone()), /*streaming*/ true).await.unwrap();
    assert!(!token.is_cancelled(), "the end of a run is no reason to stop others");
    let (stop, run) = (token.clone(), agent.run("hi").cancel_token(token.clone()));
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(5)).await;
        stop.cancel();
    });
    match run.await {
        Err(Error::Cancelled { partial }) => assert_eq!(partial.text, "sec"),
        other => panic!("{other:?}"),
    }
    assert_eq!(ends.load(Ordering::SeqCst), 2, "a cancelled run has its end, too");
}
