//! Messages that take the place of what is being done.

use provost_core::lifecycle::{RunPhase, RunStatus};
use provost_core::recovery::OutcomeCode;
use provost_core::scheduling::InputMode;
use provost_core::{Env, Message};
use provost_store::StoredText;
use provost_store::query;
use provost_store::table::work::session::{self, SessionRef};
use provost_store::table::work::session_entry::SessionMessageRow;
use provost_store::table::work::{attempt, journal, message};

use crate::conversations::{Conversation, text};

#[tokio::test(flavor = "multi_thread")]
async fn g27_an_interrupt_lets_the_old_attempt_settle_before_the_new_one_starts() {
    let conversation = Conversation::new().await;
    let _worker = conversation.worker().await;
    let first = conversation.accept("chat", "hold on").await;
    conversation.mind.hold.entered().await;
    let old = conversation.say(first.task, "old news", InputMode::Steer).await;
    let later = conversation.say(first.task, "later", InputMode::Followup).await;
    let receipt = conversation.say(first.task, "stop, do this", InputMode::Interrupt).await;
    assert_eq!((receipt.outcome.as_str(), receipt.run), ("interrupted", first.run));
    let run = conversation.wait(first.run).await;
    assert_eq!((run.status.as_str(), text(&run).as_str()), ("ok", "re: stop, do this"));
    let seen = conversation.mind.last();
    assert_eq!(seen[..2], ["hold on", "call hold"]);
    assert!(seen[2].contains("interrupted before it gave a result"), "{seen:?}");
    assert_eq!(seen[3..], ["stop, do this"], "what was unread gave way");
    let attempts = conversation.read(move |tx| attempt::of_run(tx, first.run).unwrap()).await;
    assert_eq!(attempts.len(), 2);
    assert_eq!(attempts[0].outcome_code.map(OutcomeCode::as_str), Some("cancelled_by_interrupt"));
    assert!(attempts[0].ended.unwrap() <= attempts[1].started);
    let events = conversation.events(first.run).await;
    let place = |kind: &str| events.iter().position(|event| event.kind == kind).unwrap();
    assert!(place("interrupt_requested") < place("interrupted"));
    let second = events.iter().rposition(|event| event.kind == "attempt_started").unwrap();
    assert!(place("interrupted") < second);
    let late = events[second..].iter().filter(|event| event.epoch < attempts[1].epoch).count();
    assert_eq!(late, 0, "nothing of the old attempt comes later");
    assert_eq!(
        conversation.states(first.task).await,
        ["consumed", "superseded", "superseded", "consumed"]
    );
    let body = conversation.event(first.run, "interrupt_requested").await.unwrap();
    assert_eq!(body["superseded"][0], old.input.to_string());
    let gone = conversation.wait(later.run).await;
    assert_eq!(gone.outcome_code.map(OutcomeCode::as_str), Some("cancelled_by_interrupt"));
    assert_eq!((gone.started, gone.status.as_str()), (None, "cancelled"));
    assert_eq!(conversation.task(first.task).await.state.as_str(), "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn g27_an_interrupt_stops_a_model_call_and_the_answer_is_not_kept_twice() {
    let conversation = Conversation::new().await;
    let _worker = conversation.worker().await;
    let first = conversation.accept("chat", "think long").await;
    conversation.mind.think.entered().await;
    conversation.say(first.task, "short please", InputMode::Interrupt).await;
    let run = conversation.wait(first.run).await;
    assert_eq!(text(&run), "re: short please");
    assert_eq!(conversation.mind.last(), ["think long", "short please"]);
    assert_eq!(
        conversation.session("chat").await,
        ["think long", "short please", "a: re: short please"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_reaches_a_run_whose_worker_is_gone() {
    let conversation = Conversation::new().await;
    let worker = conversation.worker().await;
    let first = conversation.accept("chat", "hold on").await;
    conversation.mind.hold.entered().await;
    drop(worker);
    let receipt = conversation.say(first.task, "never mind", InputMode::Interrupt).await;
    assert_eq!((receipt.outcome.as_str(), receipt.run), ("interrupted", first.run));
    let second = conversation.another();
    let _worker = second.start().await.unwrap();
    let run = conversation.wait(first.run).await;
    assert_eq!((run.status.as_str(), text(&run).as_str()), ("ok", "re: never mind"));
    assert_eq!(conversation.mind.ran(), ["hold"], "it is not done again");
    assert_eq!(conversation.mind.last().last().unwrap(), "never mind");
    assert_eq!(run.interrupt_requested, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_takes_the_place_of_what_has_not_begun() {
    let conversation = Conversation::new().await;
    let first = conversation.accept("chat", "first thought").await;
    let receipt = conversation.say(first.task, "second thought", InputMode::Interrupt).await;
    assert_eq!((receipt.outcome.as_str(), receipt.run), ("interrupted", first.run));
    let _worker = conversation.worker().await;
    let run = conversation.wait(first.run).await;
    assert_eq!(text(&run), "re: second thought");
    assert_eq!(conversation.mind.seen(), [["second thought"]]);
    assert_eq!(conversation.states(first.task).await, ["superseded", "consumed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_ends_the_wait_for_a_decision_nobody_needs_any_more() {
    let conversation = Conversation::new().await;
    let _worker = conversation.worker().await;
    let first = conversation.accept("chat", "guard it").await;
    conversation.until(first.run, |row| row.phase == RunPhase::Parked).await;
    let seen =
        query::input::interaction(conversation.engine.store(), &conversation.namespace, first.run)
            .await
            .unwrap();
    assert_eq!(seen.state.as_str(), "working", "a decision is no message");
    let steered = conversation.say(first.task, "by the way", InputMode::Steer).await;
    assert_eq!(steered.outcome.as_str(), "steered", "it is read when the run goes on");
    let receipt = conversation.say(first.task, "leave it", InputMode::Interrupt).await;
    assert_eq!((receipt.outcome.as_str(), receipt.run), ("interrupted", first.run));
    let run = conversation.wait(first.run).await;
    assert_eq!((run.status.as_str(), text(&run).as_str()), ("ok", "re: leave it"));
    let question = query::approval::get(
        conversation.engine.store(),
        &conversation.namespace,
        seen.approvals[0],
    )
    .await
    .unwrap();
    assert_eq!(question.state.as_str(), "cancelled");
    assert!(conversation.mind.ran().is_empty());
    assert_eq!(conversation.states(first.task).await, ["consumed", "superseded", "consumed"]);
    assert_eq!(conversation.task(first.task).await.state.as_str(), "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_takes_the_turn_out_of_the_conversation() {
    let conversation = Conversation::new().await;
    let _worker = conversation.worker().await;
    let first = conversation.accept("chat", "hello").await;
    conversation.wait(first.run).await;
    let second = conversation.accept("chat", "pair of them").await;
    assert_eq!((second.task, second.outcome.as_str()), (first.task, "restarted"));
    conversation.mind.hold.entered().await;
    conversation.say(first.task, "unread", InputMode::Steer).await;
    let receipt = conversation.say(first.task, "forget that", InputMode::Rollback).await;
    assert_eq!(receipt.outcome.as_str(), "interrupted");
    assert_ne!(receipt.run, second.run, "a new run");
    let run = conversation.wait(receipt.run).await;
    assert_eq!(text(&run), "re: forget that");
    assert_eq!(conversation.mind.last(), ["hello", "a: re: hello", "forget that"]);
    assert_eq!(
        conversation.session("chat").await,
        ["hello", "a: re: hello", "forget that", "a: re: forget that"]
    );
    let old = conversation.wait(second.run).await;
    assert_eq!(old.status, RunStatus::Cancelled);
    assert_eq!(old.outcome_code.map(OutcomeCode::as_str), Some("cancelled_by_interrupt"));
    assert!(old.ended <= run.started, "first the end, then the new beginning");
    let event = conversation.event(second.run, "rolled_back").await.unwrap();
    assert!(event["left"].as_u64().unwrap() >= 1, "{event}");
    assert_eq!(
        conversation.states(first.task).await,
        ["consumed", "consumed", "superseded", "consumed"]
    );
    let task = conversation.task(first.task).await;
    assert_eq!((task.state.as_str(), task.current_run_id), ("done", Some(receipt.run)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_of_what_is_done_already_still_takes_it_out() {
    let conversation = Conversation::new().await;
    let worker = conversation.worker().await;
    let first = conversation.accept("chat", "hold on").await;
    conversation.mind.hold.entered().await;
    drop(worker);
    let receipt = conversation.say(first.task, "forget that", InputMode::Rollback).await;
    let second = conversation.another();
    let _worker = second.start().await.unwrap();
    assert_eq!(text(&conversation.wait(receipt.run).await), "re: forget that");
    assert_eq!(conversation.mind.last(), ["forget that"], "also where the worker is gone");
    assert_eq!(conversation.run(first.run).await.status, RunStatus::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_brings_back_what_the_turn_had_summed_up() {
    let conversation = Conversation::new().await;
    let worker = conversation.worker().await;
    let first = conversation.accept("chat", "hello").await;
    conversation.wait(first.run).await;
    let second = conversation.accept("chat", "hold on").await;
    conversation.mind.hold.entered().await;
    drop(worker);
    // As a turn does whose conversation no longer fits: what was said goes, and a summary comes.
    let (run, summary) = (second.run, Env::system().id());
    let squeezed = conversation.engine.store().write(move |tx| {
        let mut row = session::lock(tx, "default", "chat")?.unwrap();
        row.revision += 1;
        let conversation = SessionRef { namespace: "default", id: "chat" };
        journal::remove_last_messages(tx, conversation, row.revision, row.next_entry)?;
        let message = serde_json::to_string(&Message::summary("they met")).unwrap();
        message::put(tx, "default", summary, &StoredText::new(message)?)?;
        let entry = SessionMessageRow {
            namespace: "default".to_owned(),
            session_id: "chat".to_owned(),
            entry: row.next_entry,
            message_id: summary,
            run_id: run,
            added: row.revision,
            gone: None,
        };
        entry.insert(tx)?;
        row.next_entry += 1;
        row.save(tx)
    });
    squeezed.await.unwrap();
    let receipt = conversation.say(first.task, "forget that", InputMode::Rollback).await;
    let second_engine = conversation.another();
    let _worker = second_engine.start().await.unwrap();
    conversation.wait(receipt.run).await;
    assert_eq!(conversation.mind.last(), ["hello", "a: re: hello", "forget that"]);
    let event = conversation.event(second.run, "rolled_back").await.unwrap();
    assert_eq!(event["restored"], 2, "{event}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_of_what_is_being_cancelled_is_for_the_next_run() {
    let conversation = Conversation::new().await;
    let worker = conversation.worker().await;
    let first = conversation.accept("chat", "hold on").await;
    conversation.mind.hold.entered().await;
    drop(worker);
    conversation.engine.runs().cancel(&conversation.namespace, first.run).await.unwrap();
    let steered = conversation.say(first.task, "wait", InputMode::Steer).await;
    assert_eq!(steered.outcome.as_str(), "queued", "it takes nothing more");
    let receipt = conversation.say(first.task, "other thing", InputMode::Interrupt).await;
    assert_eq!(receipt.outcome.as_str(), "interrupted");
    assert_ne!(receipt.run, first.run);
    let second = conversation.another();
    let _worker = second.start().await.unwrap();
    assert_eq!(text(&conversation.wait(receipt.run).await), "re: other thing");
    assert_eq!(conversation.run(first.run).await.status, RunStatus::Cancelled);
    assert_eq!(
        conversation.run(steered.run).await.status,
        RunStatus::Cancelled,
        "a newer one took its place"
    );
}
