//! Limits of every kind, what is told of them, and what ends a run at one.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt;
use provost_agent::{Agent, Error, LimitDecision, OnLimit};
use provost_core::{
    Currency, Env, Event, EventKind, LimitKind, Limits, Money, Pricing, StopReason, Usage,
};
use provost_model::{ScriptedModel, ScriptedTurn, call, calls, text};
use provost_tool::{ToolError, tool_fn};
use serde_json::json;

use super::{asking, limited, script, summary};
use crate::support::{Say, assert_well_formed, events, names};

/// The limits a stream told of.
fn told(events: &[Event]) -> Vec<LimitKind> {
    let kind = |event: &Event| match &event.kind {
        EventKind::LimitReached(reached) => Some(reached.limit),
        _ => None,
    };
    events.iter().filter_map(kind).collect()
}

#[tokio::test]
async fn a_question_in_a_stream_comes_after_the_event_that_tells_of_the_limit() {
    let model = script([text("done")]);
    let (agent, _, _) = asking(&model, LimitDecision::Extend { message: None });
    let events = events(agent.build().unwrap().run("go").stream()).await;
    assert_eq!(told(&events), [LimitKind::Turns]);
    let names = names(&events);
    let place = names.iter().position(|name| name == "limit_reached").unwrap();
    assert_eq!(names[place - 1..=place + 1], ["turn_finished", "limit_reached", "tool_started"]);
    assert_eq!(summary(&events).stop, StopReason::EndTurn);
}

#[tokio::test]
async fn a_stream_tells_of_a_limit_once_and_again_after_an_extension() {
    let again = || call("echo", json!({"text": "three"}));
    let table = [
        (LimitDecision::Stop, 1),
        (LimitDecision::FinalAnswer { message: None }, 1),
        (LimitDecision::Extend { message: None }, 2),
    ];
    for (decision, times) in table {
        let model = script([again(), text("done")]);
        let (agent, _, _) = asking(&model, decision);
        let events = events(agent.build().unwrap().run("go").stream()).await;
        assert_eq!(told(&events), vec![LimitKind::Turns; times]);
    }
}

#[tokio::test]
async fn what_is_said_while_the_program_is_asked_waits_for_the_results() {
    let decisions = [
        LimitDecision::Extend { message: None },
        LimitDecision::ExtendWithoutCalls { result: None, message: None },
        LimitDecision::FinalAnswer { message: None },
    ];
    for decision in decisions {
        let model = script([text("done")]);
        let (agent, _, _) = asking(&model, decision);
        let mut stream = agent.build().unwrap().run("go").stream();
        let handle = stream.handle();
        while let Some(event) = stream.next().await {
            if matches!(event.kind, EventKind::TurnFinished { turn: 2, .. }) {
                handle.steer("By the way").unwrap();
            }
        }
        let request = model.request(2);
        assert_well_formed(&request.messages);
        assert!(request.messages.iter().any(|message| message.text() == "By the way"));
    }
}

#[tokio::test]
async fn a_last_word_is_a_policy_of_its_own() {
    for streamed in [false, true] {
        let model = script([text("bye")]);
        let (agent, count) = limited(&model);
        let run = agent.on_limit(OnLimit::FinalAnswer).build().unwrap().run("go");
        let summary = if streamed {
            let events = events(run.stream()).await;
            assert_eq!(told(&events), [LimitKind::Turns]);
            summary(&events).clone()
        } else {
            run.await.unwrap().summary()
        };
        assert_eq!((summary.text.as_str(), summary.stop), ("bye", StopReason::Limit));
        assert_eq!((summary.turns, count.load(Ordering::SeqCst)), (3, 1));
        assert!(model.request(2).tools.is_empty());
    }
}

#[tokio::test]
async fn calls_in_a_last_word_are_dropped() {
    let model = script([ScriptedTurn::default().text("One more?").call("echo", json!({}))]);
    let (agent, count) = limited(&model);
    let result = agent.on_limit(OnLimit::FinalAnswer).build().unwrap().run("go").await.unwrap();
    assert_eq!((result.output.as_str(), result.stop), ("One more?", StopReason::Limit));
    assert!(result.pending_calls.is_empty());
    assert_eq!(count.load(Ordering::SeqCst), 1);
    assert_well_formed(&result.messages);
}

#[tokio::test]
async fn stopping_is_a_decision_too() {
    let model = script([]);
    let (agent, count, _) = asking(&model, LimitDecision::Stop);
    let result = agent.build().unwrap().run("go").await.unwrap();
    assert_eq!((result.output.as_str(), result.stop), ("Once more.", StopReason::Limit));
    assert_eq!((result.pending_calls.len(), count.load(Ordering::SeqCst)), (1, 1));
}

#[test]
fn asking_needs_somebody_to_ask() {
    // A callback is part of the action, so an agent without one cannot be built.
    let stop = OnLimit::callback(|_| std::future::ready(Ok(LimitDecision::Stop)));
    assert!(matches!(stop, OnLimit::Callback(_)));
    assert!(Agent::builder("tester", ScriptedModel::new()).on_limit(stop).build().is_ok());
}

#[tokio::test]
async fn a_stream_tells_of_every_limit_that_stops_it() {
    let events_of = async |limits: Limits| {
        let usage = Usage::new(90, 20);
        let model = ScriptedModel::from_fn(move |_, _| call("echo", json!({})).usage(usage));
        let (agent, _) = limited(&model);
        events(agent.limits(limits).build().unwrap().run("go").stream()).await
    };
    let table = [
        (Limits::default().turns(2), LimitKind::Turns),
        (Limits::default().tool_calls(3), LimitKind::ToolCalls),
        (Limits::default().total_tokens(300), LimitKind::TotalTokens),
    ];
    for (limits, kind) in table {
        let events = events_of(limits).await;
        assert_eq!(told(&events), [kind]);
        assert_eq!(summary(&events).limit.as_ref().unwrap().limit, kind);
        assert_eq!(summary(&events).stop, StopReason::Limit);
    }
}

#[tokio::test]
async fn a_limit_of_tool_calls_counts_the_whole_turn() {
    let three = || calls([("echo", json!({})), ("echo", json!({})), ("echo", json!({}))]);
    for on_limit in [OnLimit::Stop, OnLimit::FinalAnswer] {
        let model = ScriptedModel::new().turn(three()).turn(text("bye"));
        let (agent, count) = limited(&model);
        let agent = agent.limits(Limits::default().tool_calls(2)).on_limit(on_limit);
        let result = agent.build().unwrap().run("go").await.unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 0, "all of a turn or nothing of it");
        assert_eq!(result.stop, StopReason::Limit);
        let reached = result.limit.as_ref().unwrap();
        assert_eq!((reached.limit, reached.allowed.as_str()), (LimitKind::ToolCalls, "2"));
    }
}

#[tokio::test(start_paused = true)]
async fn time_ends_a_model_call_and_a_tool_that_hang() {
    let wall = Limits::default().wall(Duration::from_secs(5));
    let model = ScriptedModel::new().turn(text("so far").hang());
    // The run's own clock stands still, so that only the runtime's paused clock counts.
    let agent = Agent::builder("tester", model).limits(wall.clone()).env(Env::simulated(1));
    let agent = agent.build().unwrap();
    let started = tokio::time::Instant::now();
    let result = agent.run("go").await.unwrap();
    assert_eq!(started.elapsed().as_secs(), 5);
    assert_eq!((result.output.as_str(), result.stop), ("so far", StopReason::Limit));
    assert_eq!(result.limit.as_ref().unwrap().limit, LimitKind::Wall);
    assert!(result.messages.last().unwrap().interrupted);

    let hang = tool_fn("hang", "Never ends", |_cx, _args: Say| {
        std::future::pending::<Result<String, ToolError>>()
    });
    let model = ScriptedModel::new().turn(call("hang", json!({})));
    let agent = Agent::builder("tester", model).tool(hang.unwrap()).limits(wall);
    let agent = agent.env(Env::simulated(2)).build().unwrap();
    let result = agent.run("go").await.unwrap();
    assert_eq!(result.limit.as_ref().unwrap().limit, LimitKind::Wall);
    assert!(result.tool_results[0].is_error);
    assert_well_formed(&result.messages);
}

#[tokio::test]
async fn money_needs_a_price_in_the_same_currency() {
    let cents = |amount: &str| Money::usd(amount.parse().unwrap());
    let priced = |currency| Pricing {
        input: "10".parse().unwrap(),
        output: "10".parse().unwrap(),
        cache_read: None,
        cache_write: None,
        reasoning: None,
        currency,
    };
    let run = async |pricing: Option<Pricing>| {
        let model =
            ScriptedModel::from_fn(|_, _| call("echo", json!({})).usage(Usage::new(100_000, 0)));
        let model = model.with_info(|info| info.pricing = pricing);
        let (agent, _) = limited(&model);
        let limits = Limits::unlimited().cost(cents("2.5"));
        let result = agent.limits(limits).env(Env::simulated(1)).build().unwrap().run("go").await;
        (result, model.call_count())
    };
    let (result, asked) = run(Some(priced(Currency::USD))).await;
    let result = result.unwrap();
    assert_eq!((asked, result.cost), (3, Some(cents("3"))), "stops once it is exceeded");
    assert_eq!(result.limit.as_ref().unwrap().allowed, "$2.5");
    for pricing in [None, Some(priced(Currency::EUR))] {
        let (result, asked) = run(pricing).await;
        assert!(matches!(result, Err(Error::Start(_))), "{result:?}");
        assert_eq!(asked, 0, "refused, not counted wrongly");
    }
}
