//! How runs end and go on: the time they were away, the numbers of their events, what is told about what was under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use provost_agent::{Agent, AgentBuilder, ApprovalMode, RunOutcome, RunStream, SuspendedRun};
use provost_core::{Env, Event, EventKind, LimitKind, Limits, StopReason};
use provost_model::{ScriptedModel, ScriptedTurn, call, calls, text};
use provost_tool::RequiresApproval;
use serde_json::json;

use super::warnings;
use crate::support::{echo, endless, names};

/// An agent whose one call waits for a person, in another process if need be.
fn waiting(count: &Arc<AtomicUsize>) -> AgentBuilder {
    let model = ScriptedModel::new().turn(call("echo", json!({ "text": "a" }))).turn(text("done"));
    Agent::builder("tester", model)
        .tool(echo(count).with_spec(|spec| spec.approval(RequiresApproval::Always)))
        .approvals(ApprovalMode::Suspend)
}

async fn suspended(agent: &Agent) -> SuspendedRun {
    let RunOutcome::Suspended(suspended) = agent.run("hi").outcome().await.unwrap() else {
        panic!()
    };
    let bytes = suspended.to_bytes().unwrap();
    SuspendedRun::from_bytes(&bytes).unwrap().approve_all()
}

#[tokio::test(start_paused = true)]
async fn the_time_a_run_was_away_does_not_count() {
    let (count, env) = (Arc::new(AtomicUsize::new(0)), Env::simulated(1));
    let limits = Limits::default().wall(Duration::from_secs(60));
    let agent = waiting(&count).limits(limits).env(env.clone()).build().unwrap();
    let suspended = suspended(&agent).await;
    env.advance(Duration::from_secs(3600));
    let outcome = agent.resume(suspended).outcome().await.unwrap();
    let RunOutcome::Completed(result) = outcome else { panic!("{outcome:?}") };
    assert_eq!((result.output.as_str(), &result.limit), ("done", &None));
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn the_time_a_run_had_used_before_counts() {
    let (alive, env) = (Arc::new(AtomicUsize::new(0)), Env::simulated(1));
    let limits = Limits::default().wall(Duration::from_secs(60));
    let model = ScriptedModel::new().turn(calls([("slow", json!({})), ("endless", json!({}))]));
    let clock = env.clone();
    let slow =
        provost_tool::tool_fn("slow", "Takes its time", move |_cx, _: crate::support::Say| {
            clock.advance(Duration::from_secs(50));
            async { Ok::<_, provost_tool::ToolError>("slow") }
        });
    let agent = Agent::builder("tester", model)
        .tool(slow.unwrap())
        .tool(endless(&alive).with_spec(|spec| spec.approval(RequiresApproval::Always)))
        .approvals(ApprovalMode::Suspend)
        .limits(limits)
        .env(env.clone())
        .build()
        .unwrap();
    let suspended = suspended(&agent).await;
    env.advance(Duration::from_secs(3600));
    let start = tokio::time::Instant::now();
    let outcome = agent.resume(suspended).outcome().await.unwrap();
    let RunOutcome::Completed(result) = outcome else { panic!("{outcome:?}") };
    assert_eq!(result.limit.as_ref().unwrap().limit, LimitKind::Wall);
    let left = start.elapsed();
    assert!(left >= Duration::from_secs(10) && left < Duration::from_secs(11), "{left:?}");
}

/// All events of one life of a run, and how that ended.
async fn life(mut stream: RunStream) -> (Vec<Event>, RunOutcome) {
    let mut all = Vec::new();
    while let Some(event) = stream.next().await {
        all.push(event);
    }
    (all, stream.outcome().await.unwrap())
}

fn numbers(events: &[Event]) -> Vec<u64> {
    events.iter().map(|event| event.seq).collect()
}

#[tokio::test]
async fn a_resumed_run_goes_on_counting_its_events() {
    for said_too_late in [false, true] {
        let count = Arc::new(AtomicUsize::new(0));
        let agent = waiting(&count).build().unwrap();
        let stream = agent.run("hi").stream();
        if said_too_late {
            stream.handle().follow_up("and then?").unwrap();
        }
        let (first, outcome) = life(stream).await;
        let RunOutcome::Suspended(suspended) = outcome else { panic!("{outcome:?}") };
        assert!(matches!(first.last().unwrap().kind, EventKind::Suspended { .. }));
        assert_eq!(warnings(&first).len(), usize::from(said_too_late));
        let (second, outcome) = life(agent.resume(suspended.approve_all()).stream()).await;
        assert!(matches!(outcome, RunOutcome::Completed(_)));
        assert!(first.iter().chain(&second).all(|event| event.run_id == first[0].run_id));
        let all: Vec<u64> = numbers(&first).into_iter().chain(numbers(&second)).collect();
        assert_eq!(all, (0..all.len() as u64).collect::<Vec<_>>(), "no gap and no number twice");
    }
}

/// Reads a run and cancels it when an event comes.
async fn cancelled_at(stream: RunStream, wanted: impl Fn(&EventKind) -> bool) -> Vec<Event> {
    let (handle, mut stream) = (stream.handle(), stream);
    let mut all = Vec::new();
    while let Some(event) = stream.next().await {
        if wanted(&event.kind) {
            handle.cancel();
        }
        all.push(event);
    }
    assert!(matches!(all.last().unwrap().kind, EventKind::Cancelled));
    all
}

#[tokio::test]
async fn cancelling_tools_tells_the_end_of_each_open_call() {
    let alive = Arc::default();
    let three = [("endless", json!({})), ("echo", json!({})), ("endless", json!({}))];
    let agent = Agent::builder("tester", ScriptedModel::new().turn(calls(three)))
        .tool(endless(&alive))
        .tool(echo(&Arc::default()))
        .build()
        .unwrap();
    let all = cancelled_at(
        agent.run("hi").stream(),
        |kind| matches!(kind, EventKind::ToolFinished { result, .. } if result.name == "echo"),
    )
    .await;
    let finished: Vec<_> = all
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::ToolFinished { result, .. } => Some((result.name.as_str(), result.is_error)),
            _ => None,
        })
        .collect();
    assert_eq!(finished, [("echo", false), ("endless", true), ("endless", true)]);
    assert!(all.windows(2).all(|pair| pair[1].seq == pair[0].seq + 1));
}

#[tokio::test]
async fn cancelling_an_answer_tells_what_had_come() {
    let turn = ScriptedTurn::default().deltas(["Once ", "upon "]).hang();
    let agent = Agent::builder("tester", ScriptedModel::new().turn(turn)).build().unwrap();
    let all = cancelled_at(
        agent.run("hi").stream(),
        |kind| matches!(kind, EventKind::TextDelta { text } if text == "upon "),
    )
    .await;
    let turns: Vec<_> = all
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::TurnFinished { turn, message, stop, .. } => Some((*turn, message, *stop)),
            _ => None,
        })
        .collect();
    let [(1, message, StopReason::Cancelled)] = turns[..] else { panic!("{turns:?}") };
    assert_eq!((message.text().as_str(), message.interrupted), ("Once upon ", true));
    let names = names(&all);
    assert_eq!(names[names.len() - 2..], ["turn_finished", "cancelled"]);
}

#[tokio::test(start_paused = true)]
async fn time_that_ends_an_answer_tells_what_had_come() {
    let turn = ScriptedTurn::default().deltas(["Once ", "upon "]).hang();
    let agent = Agent::builder("tester", ScriptedModel::new().turn(turn));
    let agent = agent.limits(Limits::default().wall(Duration::from_secs(5))).build().unwrap();
    let (all, outcome) = life(agent.run("hi").stream()).await;
    let RunOutcome::Completed(result) = outcome else { panic!("{outcome:?}") };
    assert_eq!((result.output.as_str(), result.stop), ("Once upon ", StopReason::Limit));
    let told = all.iter().any(|event| {
        matches!(&event.kind, EventKind::TurnFinished { message, stop: StopReason::Limit, .. }
            if message.interrupted)
    });
    assert!(told, "{all:?}");
}

#[tokio::test]
async fn a_message_that_came_too_late_is_announced() {
    // Said before the calls begin it waits for their results; said while they run it waits for the next safe point.
    let moments: [fn(&EventKind) -> bool; 2] = [
        |kind| matches!(kind, EventKind::TurnFinished { .. }),
        |kind| matches!(kind, EventKind::ToolStarted { .. }),
    ];
    for (place, moment) in moments.into_iter().enumerate() {
        let alive = Arc::default();
        let model = ScriptedModel::new().turn(call("endless", json!({})));
        let agent = Agent::builder("tester", model.clone()).tool(endless(&alive)).build().unwrap();
        let stream = agent.run("hi").stream();
        let handle = stream.handle();
        let all = cancelled_at(stream, |kind| {
            if moment(kind) {
                handle.steer("stop it").unwrap();
            }
            matches!(kind, EventKind::ToolStarted { .. })
        })
        .await;
        let warnings = warnings(&all);
        assert_eq!(warnings.len(), 1, "moment {place}: {warnings:?}");
        assert!(warnings[0].contains("1 message"), "{warnings:?}");
        assert_eq!(model.call_count(), 1);
    }
}
