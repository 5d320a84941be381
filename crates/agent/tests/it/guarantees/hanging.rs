//! Whatever a run waits for: it can be stopped there, and its time ends there.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use provost_agent::context::{ContextConfig, Summarize};
use provost_agent::hook::{Hook, HookDecision, HookError, ModelCallEnd};
use provost_agent::{Agent, AgentBuilder, Error, OnLimit, RunBuilder, RunOutcome, RunStream};
use provost_core::{ContentPart, LimitKind, Limits, Money, RunSummary, StopReason, Usage};
use provost_model::{
    ChatModel, ChatRequest, ModelError, ModelErrorClass, ModelInfo, ModelResponse, ModelStream,
    ScriptedModel, call, fail, text,
};
use provost_session::{InMemorySessionStore, Session};
use provost_tool::{RunContext, Toolset, ToolsetFuture};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use super::{long_history, priced, warnings};
use crate::support::{Alive, assert_well_formed, echo, roles, stored};

/// Long enough for everything that does not hang, on a clock that jumps.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Waits for ever at one place.
#[derive(Clone)]
struct Stuck {
    place: &'static str,
    alive: Arc<AtomicUsize>,
}

impl Stuck {
    async fn at(&self, place: &str) {
        if self.place == place {
            let _alive = Alive::new(&self.alive);
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl Hook for Stuck {
    async fn before_run(&self, _cx: &RunContext, _input: &str) {
        self.at("before_run").await;
    }

    async fn on_user_message(
        &self,
        _cx: &RunContext,
        parts: &mut Vec<ContentPart>,
    ) -> Result<HookDecision, HookError> {
        if parts.iter().any(|part| part.as_text() == Some("later")) {
            self.at("follow_up").await;
        }
        Ok(HookDecision::Allow)
    }

    async fn after_model_call(
        &self,
        _cx: &RunContext,
        _end: &mut ModelCallEnd<'_>,
    ) -> Result<(), HookError> {
        self.at("post_model_call").await;
        Ok(())
    }

    async fn on_model_error(
        &self,
        _cx: &RunContext,
        _request: &ChatRequest,
        _error: &ModelError,
    ) -> Result<Option<ModelResponse>, HookError> {
        self.at("on_model_error").await;
        Ok(None)
    }

    async fn after_agent(
        &self,
        _cx: &RunContext,
        _summary: &mut RunSummary,
    ) -> Result<(), HookError> {
        self.at("after_agent").await;
        Ok(())
    }
}

impl Toolset for Stuck {
    fn name(&self) -> &str {
        "stuck"
    }

    fn tools<'a>(&'a self, _cx: &'a RunContext) -> ToolsetFuture<'a> {
        Box::pin(async move {
            self.at("toolset").await;
            Ok(Vec::new())
        })
    }
}

/// A model that never says anything.
struct Silent {
    info: ModelInfo,
    alive: Arc<AtomicUsize>,
}

impl ChatModel for Silent {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, _request: ChatRequest) -> ModelStream {
        let alive = Alive::new(&self.alive);
        Box::pin(futures::stream::once(async move {
            let _alive = alive;
            std::future::pending().await
        }))
    }
}

const PLACES: [&str; 9] = [
    "before_run",
    "toolset",
    "post_model_call",
    "on_model_error",
    "follow_up",
    "after_agent",
    "summary",
    "summary after an error",
    "limit question",
];

/// An agent that hangs at a place.
fn hanging(place: &'static str, alive: &Arc<AtomicUsize>) -> AgentBuilder {
    let model = match place {
        "on_model_error" => ScriptedModel::new().turn(fail(ModelErrorClass::Overloaded, "busy")),
        "summary after an error" => {
            ScriptedModel::new().turn(fail(ModelErrorClass::ContextLength, "too long"))
        }
        "limit question" => ScriptedModel::new().turn(call("echo", json!({}))),
        _ => ScriptedModel::new().turn(text("answer")),
    };
    let stuck = Stuck { place, alive: Arc::clone(alive) };
    let agent = Agent::builder("tester", model)
        .tool(echo(&Arc::default()))
        .hook(stuck.clone())
        .toolset(stuck.clone());
    let info = ModelInfo::unknown("silent", "silent-1");
    let summarize = || Summarize::new(Arc::new(Silent { info, alive: Arc::clone(alive) }));
    match place {
        "summary" => agent.context(ContextConfig::new(summarize()).max_tokens(2_000)),
        "summary after an error" => agent.context(summarize()),
        "limit question" => agent.on_limit(OnLimit::callback(move |_| {
            let stuck = stuck.clone();
            async move {
                stuck.at("limit question").await;
                Err(HookError::new("nobody was there"))
            }
        })),
        _ => agent,
    }
}

/// A run that will hang there.
fn start(place: &str, run: RunBuilder) -> RunStream {
    let stream = run.stream();
    if place == "follow_up" {
        stream.handle().follow_up("later").unwrap();
    }
    stream
}

/// Reads a run until it does not go on.
async fn read_until_stuck(place: &str, stream: &mut RunStream, alive: &AtomicUsize) {
    let reading = async { while stream.next().await.is_some() {} };
    timeout(Duration::from_secs(1), reading).await.unwrap_err();
    assert_eq!(alive.load(Ordering::SeqCst), 1, "{place}: it hangs there");
}

/// A run without rounds, so that a call asks at once; the others do not call.
fn no_rounds() -> Limits {
    Limits::default().turns(0)
}

/// Lets everything that can run do so; without any time passing nothing is left.
async fn assert_nothing_left(place: &str, alive: &AtomicUsize) {
    for _ in 0..100 {
        if Handle::current().metrics().num_alive_tasks() == 0 {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 0, "{place}: no task survives");
    assert_eq!(alive.load(Ordering::SeqCst), 0, "{place}: what it waited for is dropped");
}

#[tokio::test(start_paused = true)]
async fn a_run_can_be_cancelled_wherever_it_hangs() {
    for place in PLACES {
        let alive = Arc::new(AtomicUsize::new(0));
        let agent = hanging(place, &alive).build().unwrap();
        let run = agent.run("hi").history(long_history()).limits(no_rounds());
        let mut stream = start(place, run);
        read_until_stuck(place, &mut stream, &alive).await;
        let since = Instant::now();
        stream.handle().cancel();
        let outcome = timeout(PATIENCE, stream.outcome()).await;
        let outcome = outcome.unwrap_or_else(|_| panic!("{place}: it goes on")).unwrap();
        assert!(matches!(outcome, RunOutcome::Cancelled(_)), "{place}: {outcome:?}");
        assert_eq!(since.elapsed(), Duration::ZERO, "{place}");
        assert_nothing_left(place, &alive).await;
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_the_stream_ends_a_run_wherever_it_hangs() {
    for place in PLACES {
        let alive = Arc::new(AtomicUsize::new(0));
        let agent = hanging(place, &alive).build().unwrap();
        let run = agent.run("hi").history(long_history()).limits(no_rounds());
        let mut stream = start(place, run);
        read_until_stuck(place, &mut stream, &alive).await;
        let since = Instant::now();
        drop(stream);
        assert_nothing_left(place, &alive).await;
        assert_eq!(since.elapsed(), Duration::ZERO, "{place}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_ends_a_run_wherever_it_hangs() {
    for place in PLACES {
        if place == "follow_up" {
            // The run had ended in time; what is said to it after that does not undo its end.
            continue;
        }
        let alive = Arc::new(AtomicUsize::new(0));
        let agent = hanging(place, &alive).build().unwrap();
        let limits = no_rounds().wall(Duration::from_secs(5));
        let run = agent.run("hi").history(long_history()).limits(limits);
        let since = Instant::now();
        let outcome = timeout(PATIENCE, start(place, run).outcome()).await;
        let limit = match outcome.unwrap_or_else(|_| panic!("{place}: it goes on")) {
            Ok(RunOutcome::Completed(result)) => {
                assert_eq!(result.stop, StopReason::Limit, "{place}");
                result.limit.unwrap()
            }
            // Before the first step there is nothing to show, and an answer that no hook has seen is none.
            Err(Error::Limit(reached)) => reached,
            other => panic!("{place}: {other:?}"),
        };
        assert_eq!(limit.limit, LimitKind::Wall, "{place}");
        let took = since.elapsed();
        assert!(
            took > Duration::from_secs(4) && took < Duration::from_secs(6),
            "{place}: {took:?}"
        );
        assert_nothing_left(place, &alive).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_is_valid_wherever_its_run_hung() {
    for place in PLACES {
        let (alive, store) = (Arc::new(AtomicUsize::new(0)), InMemorySessionStore::new());
        let agent = hanging(place, &alive).session_store(store.clone()).build().unwrap();
        let session = Session::new(Arc::new(store.clone()), "s");
        session.add(long_history().iter().map(|message| (**message).clone())).await.unwrap();
        let run = agent.run("hi").session("s").limits(no_rounds());
        let mut stream = start(place, run);
        read_until_stuck(place, &mut stream, &alive).await;
        stream.handle().cancel();
        stream.outcome().await.unwrap();
        let messages = stored(&store, "s").await;
        assert_well_formed(&messages);
        assert_eq!(roles(&messages[..40]), roles(&long_history()), "{place}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_a_hook_holds_back_is_paid_and_not_kept() {
    for told in [true, false] {
        let (alive, store) = (Arc::new(AtomicUsize::new(0)), InMemorySessionStore::new());
        let turn = text("secret").usage(Usage::new(1_000, 1_000));
        let turn = if told { turn } else { turn.without_usage() };
        let agent = Agent::builder("tester", priced(ScriptedModel::new().turn(turn)))
            .hook(Stuck { place: "post_model_call", alive: Arc::clone(&alive) })
            .session_store(store.clone())
            .build()
            .unwrap();
        let mut stream = agent.run("hi").session("s").stream();
        read_until_stuck("post_model_call", &mut stream, &alive).await;
        stream.handle().cancel();
        let RunOutcome::Cancelled(summary) = stream.outcome().await.unwrap() else { panic!() };
        let expected = if told { (Some(Money::usd(2.into())), 0) } else { (None, 1) };
        assert_eq!((summary.cost, summary.unpriced_calls), expected);
        assert_eq!(summary.usage.total(), if told { 2_000 } else { 0 });
        assert_eq!((summary.text.as_str(), stored(&store, "s").await.len()), ("", 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_a_hook_holds_back_is_announced_as_unanswered() {
    let alive = Arc::new(AtomicUsize::new(0));
    let agent = hanging("follow_up", &alive).build().unwrap();
    let mut stream = start("follow_up", agent.run("hi"));
    read_until_stuck("follow_up", &mut stream, &alive).await;
    stream.handle().cancel();
    let mut all = Vec::new();
    while let Some(event) = stream.next().await {
        all.push(event);
    }
    assert_eq!(warnings(&all).len(), 1, "{all:?}");
}
