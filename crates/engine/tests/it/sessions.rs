//! Sessions by name, what was said in them, runs as their log tells them, and workers that serve some sessions only.

use provost_core::{EventKind, RunId};
use provost_engine::{EngineOptions, Focus};
use provost_model as scripted;
use provost_store::query;
use serde_json::json;

use crate::stage::{Stage, options, text};

fn echo(request: &provost_model::ChatRequest, _call: usize) -> provost_model::Turn {
    let last = request.messages.last().map(|message| message.text()).unwrap_or_default();
    scripted::text(format!("echo {last}"))
}

fn with_tool(request: &provost_model::ChatRequest, _call: usize) -> provost_model::Turn {
    match request.messages.last().map(|message| message.tool_results().count()) {
        Some(0) => scripted::call("pure", json!({"n": 1})),
        _ => scripted::text("done"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_leads_to_one_session_until_it_is_given_to_a_new_one() {
    let stage = Stage::new(echo).await;
    let first = stage.engine.sessions().find_or_create(&stage.namespace, "my talk").await.unwrap();
    assert_eq!(
        stage.engine.sessions().find_or_create(&stage.namespace, "my talk").await.unwrap(),
        first
    );
    let other = stage.engine.sessions().find_or_create(&stage.namespace, "other").await.unwrap();
    assert_ne!(other, first);
    let fresh = stage.engine.sessions().start_fresh(&stage.namespace, "my talk").await.unwrap();
    assert_ne!(fresh, first);
    assert_eq!(
        stage.engine.sessions().find_or_create(&stage.namespace, "my talk").await.unwrap(),
        fresh
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_has_everything_before_the_run_that_is_not_finished() {
    let stage = Stage::new(echo).await;
    let worker = stage.worker().await;
    let first = stage.say("chat", "one").await;
    stage.wait(first.run).await;
    worker.stop(std::time::Duration::ZERO).await;
    let found = stage.engine.sessions().conversation(&stage.namespace, "chat").await.unwrap();
    let said: Vec<String> = found.messages.iter().map(|message| message.text()).collect();
    assert_eq!(said, ["one", "echo one"]);
    assert_eq!((found.unfinished, found.last), (None, Some(first.run)));

    let second = stage.say("chat", "two").await;
    let found = stage.engine.sessions().conversation(&stage.namespace, "chat").await.unwrap();
    assert_eq!(found.unfinished, Some(second.run));
    assert_eq!(found.messages.len(), 2);
    let next = stage.engine.sessions().next_run(&stage.namespace, "chat", first.run).await.unwrap();
    assert_eq!(next, Some(second.run));
    let next =
        stage.engine.sessions().next_run(&stage.namespace, "chat", second.run).await.unwrap();
    assert_eq!(next, None);
    let newest = stage.engine.sessions().newest_runs(&stage.namespace, 5).await.unwrap();
    let newest: Vec<RunId> = newest.iter().map(|run| run.id).collect();
    assert_eq!(newest, [second.run, first.run]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_a_run_tells_what_was_said_and_done() {
    let stage = Stage::new(with_tool).await;
    let _worker = stage.worker().await;
    let accepted = stage.say("chat", "do it").await;
    stage.wait(accepted.run).await;
    let view = stage.engine.runs().view(&stage.namespace, accepted.run, 0).await.unwrap();
    let told: Vec<String> = view.events.iter().map(|told| word(&told.kind)).collect();
    let expected = [
        "said do it",
        "turn 1",
        "turn over",
        "call pure",
        "result did {\"n\":1}",
        "turn 2",
        "text done",
        "turn over",
    ];
    assert_eq!(told, expected);
    let Some(EventKind::Finished { summary }) = view.ending() else { panic!("it has ended") };
    assert_eq!((summary.text.as_str(), summary.turns), ("done", 2));
    // Whoever has read everything reads nothing again.
    let rest = stage.engine.runs().view(&stage.namespace, accepted.run, view.last).await.unwrap();
    assert!(rest.events.is_empty());
    let foreign = "other".parse().unwrap();
    let hidden = stage.engine.runs().view(&foreign, accepted.run, 0).await.unwrap_err();
    assert_eq!(hidden.code(), "not_found");
}

fn word(kind: &EventKind) -> String {
    match kind {
        EventKind::UserMessage { message } => format!("said {}", message.text()),
        EventKind::TurnStarted { turn } => format!("turn {turn}"),
        EventKind::TextDelta { text } => format!("text {text}"),
        EventKind::ToolCallReady { call } => format!("call {}", call.name),
        EventKind::ToolFinished { result, .. } => format!("result {}", result.to_text()),
        EventKind::TurnFinished { .. } => "turn over".to_owned(),
        other => format!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_run_that_failed_or_was_cancelled_is_told_as_such() {
    let stage = Stage::new(echo).await;
    let accepted = stage.say("chat", "one").await;
    let view = stage.engine.runs().view(&stage.namespace, accepted.run, 0).await.unwrap();
    assert_eq!((view.ended(), view.ending()), (None, None));
    stage.engine.runs().cancel(&stage.namespace, accepted.run).await.unwrap();
    let view = stage.engine.runs().view(&stage.namespace, accepted.run, 0).await.unwrap();
    assert_eq!(view.ending(), Some(EventKind::Cancelled));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_with_a_focus_leaves_other_sessions_alone() {
    let focus = Focus::default();
    let options = EngineOptions { focus: Some(focus.clone()), ..options() };
    let stage = Stage::with(options, echo).await;
    focus.add(&stage.namespace, "mine");
    let theirs = stage.say("theirs", "one").await;
    let _worker = stage.worker().await;
    let mine = stage.say("mine", "two").await;
    assert_eq!(text(&stage.wait(mine.run).await), "echo two");
    let untouched =
        query::run::get(stage.engine.store(), &stage.namespace, theirs.run).await.unwrap();
    assert_eq!((untouched.phase.as_str(), untouched.claim_count), ("queued", 0));
    focus.add(&stage.namespace, "theirs");
    assert_eq!(text(&stage.wait(theirs.run).await), "echo one");
}
