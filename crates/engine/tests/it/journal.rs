//! What is stored of a conversation, and how a run goes on from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use provost_core::Role;
use provost_engine::EngineError;
use provost_model as scripted;
use provost_store::params;
use provost_store::table::work::run_step::{self, RunStepRow};
use provost_store::table::work::session;
use serde_json::json;
use tokio::sync::Notify;

use crate::harness::{Harness, text};

/// How often a text occurs in anything that is stored as text.
async fn occurrences(harness: &Harness, marker: &str) -> u64 {
    let pattern = format!("%{marker}%");
    let columns = [
        ("message", "body"),
        ("run_step", "body"),
        ("run_event", "body"),
        ("task", "command"),
        ("run", "result"),
        ("input", "provenance"),
        ("idem", "result"),
        ("outbox", "body"),
    ];
    let mut sum = 0;
    for (table, column) in columns {
        let sql = format!("SELECT count(*) FROM {table} WHERE {column} LIKE ?1");
        let pattern = pattern.clone();
        let count: u64 = harness
            .engine
            .store()
            .read(move |tx| Ok::<_, EngineError>(tx.fetch_one::<u64>(&sql, params![pattern])?))
            .await
            .unwrap();
        sum += count;
    }
    sum
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_stores_each_message_once() {
    let harness = Harness::new(|request, _| {
        let said = request.messages.iter().rposition(|m| m.role == Role::User).unwrap();
        let turn = request.messages.iter().filter(|m| m.role == Role::User).count();
        match request.messages[said..].iter().any(|m| m.role == Role::Tool) {
            false => scripted::call("pure", json!({"mark": format!("argument-{turn}-")})),
            true => scripted::text(format!("answer-{turn}-")),
        }
    })
    .await;
    let _worker = harness.worker().await;
    let turns = 40;
    for turn in 1..=turns {
        let accepted = harness.say("chat", &format!("question-{turn}-")).await;
        let run = harness.wait(accepted.run).await;
        assert_eq!(text(&run), format!("answer-{turn}-"));
    }
    for turn in 1..=turns {
        assert_eq!(occurrences(&harness, &format!("question-{turn}-")).await, 1);
        // In the message and in the result of the run, which is kept longer than its steps.
        let answers = occurrences(&harness, &format!("answer-{turn}-")).await;
        assert!((1..=3).contains(&answers), "{answers}");
        // The model's call, and the tool's own words about it.
        assert!(occurrences(&harness, &format!("argument-{turn}-")).await <= 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g19_a_run_goes_on_where_another_worker_left_it() {
    let gate = Arc::new((Notify::new(), Notify::new(), AtomicBool::new(false)));
    let inside = Arc::clone(&gate);
    let harness = Harness::new(move |request, _| {
        let results = request.messages.iter().flat_map(|m| m.tool_results()).count();
        match results {
            0 => scripted::call("opaque", json!({"n": 1})),
            1 => scripted::call("keyed", json!({"n": 2})),
            _ if !inside.2.swap(true, Ordering::SeqCst) => {
                inside.0.notify_one();
                scripted::text("never").delay(Duration::from_secs(3600))
            }
            _ => scripted::text("done"),
        }
    })
    .await;
    let worker = harness.worker().await;
    let accepted = harness.say("chat", "do it").await;
    gate.0.notified().await;
    drop(worker);
    let _second = harness.worker().await;
    let run = harness.wait(accepted.run).await;
    assert_eq!((run.status.as_str(), text(&run).as_str()), ("ok", "done"));
    assert_eq!((harness.effects.of("opaque"), harness.effects.of("keyed")), (1, 1));
    assert_eq!(
        harness.effects.model_calls(),
        4,
        "only the answer that had not come is asked again"
    );
    let kinds = harness.kinds(accepted.run).await;
    assert_eq!(kinds.iter().filter(|kind| *kind == "draft_discarded").count(), 1, "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| *kind == "attempt_started").count(), 2);
    assert_eq!(kinds.last().map(String::as_str), Some("finished"));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_turn_is_told_once_to_the_session_with_its_last_step_or_behind_it() {
    let harness = Harness::new(|request, turn| match turn {
        0..3 if request.messages.len() < 20 => scripted::call("pure", json!({ "turn": turn })),
        _ => scripted::text("done"),
    })
    .await;
    let _worker = harness.worker().await;
    let accepted = harness.say("chat", "go").await;
    let run = harness.wait(accepted.run).await;
    assert_eq!(text(&run), "done");
    let session = run.session_id.clone();
    let read = harness.engine.store().read(move |tx| {
        let steps = run_step::after(tx, run.id, 0, 1000)?;
        let session = session::get(tx, &run.namespace, &session)?;
        Ok::<_, EngineError>((steps, session.unwrap().revision))
    });
    let (steps, revision) = read.await.unwrap();
    let behind = |row: &&RunStepRow| row.body.as_deref() == Some(r#"{"feed":"saved"}"#);
    let with_it = steps.iter().filter(|row| row.saved).count();
    assert_eq!((with_it + steps.iter().filter(behind).count()) as u64, revision);
    assert!(revision >= 3, "several turns");
    let mut entry_numbers: Vec<u64> = steps.iter().filter_map(|row| row.entry_no).collect();
    entry_numbers
        .extend(steps.iter().filter(|row| row.saved).filter_map(RunStepRow::last_entry_no));
    entry_numbers.sort_unstable();
    assert_eq!(
        entry_numbers,
        (1..=entry_numbers.len() as u64).collect::<Vec<_>>(),
        "no entry is missing or twice"
    );
    let replayed = harness.engine.runs().replay(&harness.namespace, run.id).await.unwrap();
    assert!(replayed.is_consistent(), "{:?}", replayed.differences);
    assert_eq!(replayed.entries, entry_numbers.len() as u64);
}
