//! Messages that take the place of what is being done.

use provost_core::scheduling::InputMode;
use provost_core::{Env, Message};
use provost_store::Body;
use provost_store::query;
use provost_store::table::work::session::{self, SessionRef};
use provost_store::table::work::session_entry::SessionEntryRow;
use provost_store::table::work::{attempt, journal, message};

use crate::talk::{Talk, text};

#[tokio::test(flavor = "multi_thread")]
async fn g27_an_interrupt_lets_the_old_attempt_settle_before_the_new_one_starts() {
    let talk = Talk::new().await;
    let _worker = talk.worker().await;
    let first = talk.accept("chat", "hold on").await;
    talk.mind.hold.entered().await;
    let old = talk.say(first.task, "old news", InputMode::Steer).await;
    let later = talk.say(first.task, "later", InputMode::Followup).await;
    let receipt = talk.say(first.task, "stop, do this", InputMode::Interrupt).await;
    assert_eq!((receipt.outcome.as_str(), receipt.run), ("interrupted", first.run));
    let run = talk.wait(first.run).await;
    assert_eq!((run.status.as_str(), text(&run).as_str()), ("ok", "re: stop, do this"));
    let seen = talk.mind.last();
    assert_eq!(seen[..2], ["hold on", "call hold"]);
    assert!(seen[2].contains("interrupted before it gave a result"), "{seen:?}");
    assert_eq!(seen[3..], ["stop, do this"], "what was unread gave way");
    let attempts = talk.read(move |tx| attempt::of_run(tx, first.run).unwrap()).await;
    assert_eq!(attempts.len(), 2);
    assert_eq!(attempts[0].outcome_code.as_deref(), Some("cancelled_by_interrupt"));
    assert!(attempts[0].ended.unwrap() <= attempts[1].started);
    let events = talk.events(first.run).await;
    let place = |kind: &str| events.iter().position(|event| event.kind == kind).unwrap();
    assert!(place("interrupt_requested") < place("interrupted"));
    let second = events.iter().rposition(|event| event.kind == "attempt_started").unwrap();
    assert!(place("interrupted") < second);
    let late = events[second..].iter().filter(|event| event.epoch < attempts[1].epoch).count();
    assert_eq!(late, 0, "nothing of the old attempt comes later");
    assert_eq!(talk.states(first.task).await, ["consumed", "superseded", "superseded", "consumed"]);
    let body = talk.event(first.run, "interrupt_requested").await.unwrap();
    assert_eq!(body["superseded"][0], old.input.to_string());
    let gone = talk.wait(later.run).await;
    assert_eq!(gone.outcome_code.as_deref(), Some("cancelled_by_interrupt"));
    assert_eq!((gone.started, gone.status.as_str()), (None, "cancelled"));
    assert_eq!(talk.task(first.task).await.state, "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn g27_an_interrupt_stops_a_model_call_and_the_answer_is_not_kept_twice() {
    let talk = Talk::new().await;
    let _worker = talk.worker().await;
    let first = talk.accept("chat", "think long").await;
    talk.mind.think.entered().await;
    talk.say(first.task, "short please", InputMode::Interrupt).await;
    let run = talk.wait(first.run).await;
    assert_eq!(text(&run), "re: short please");
    assert_eq!(talk.mind.last(), ["think long", "short please"]);
    assert_eq!(talk.session("chat").await, ["think long", "short please", "a: re: short please"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_reaches_a_run_whose_worker_is_gone() {
    let talk = Talk::new().await;
    let worker = talk.worker().await;
    let first = talk.accept("chat", "hold on").await;
    talk.mind.hold.entered().await;
    drop(worker);
    let receipt = talk.say(first.task, "never mind", InputMode::Interrupt).await;
    assert_eq!((receipt.outcome.as_str(), receipt.run), ("interrupted", first.run));
    let second = talk.another();
    let _worker = second.start().await.unwrap();
    let run = talk.wait(first.run).await;
    assert_eq!((run.status.as_str(), text(&run).as_str()), ("ok", "re: never mind"));
    assert_eq!(talk.mind.ran(), ["hold"], "it is not done again");
    assert_eq!(talk.mind.last().last().unwrap(), "never mind");
    assert_eq!(run.interrupt_requested, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_takes_the_place_of_what_has_not_begun() {
    let talk = Talk::new().await;
    let first = talk.accept("chat", "first thought").await;
    let receipt = talk.say(first.task, "second thought", InputMode::Interrupt).await;
    assert_eq!((receipt.outcome.as_str(), receipt.run), ("interrupted", first.run));
    let _worker = talk.worker().await;
    let run = talk.wait(first.run).await;
    assert_eq!(text(&run), "re: second thought");
    assert_eq!(talk.mind.seen(), [["second thought"]]);
    assert_eq!(talk.states(first.task).await, ["superseded", "consumed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_ends_the_wait_for_a_decision_nobody_needs_any_more() {
    let talk = Talk::new().await;
    let _worker = talk.worker().await;
    let first = talk.accept("chat", "guard it").await;
    talk.until(first.run, |row| row.phase == "parked").await;
    let seen =
        query::input::interaction(talk.engine.store(), &talk.namespace, first.run).await.unwrap();
    assert_eq!(seen.state.as_str(), "working", "a decision is no message");
    let steered = talk.say(first.task, "by the way", InputMode::Steer).await;
    assert_eq!(steered.outcome.as_str(), "steered", "it is read when the run goes on");
    let receipt = talk.say(first.task, "leave it", InputMode::Interrupt).await;
    assert_eq!((receipt.outcome.as_str(), receipt.run), ("interrupted", first.run));
    let run = talk.wait(first.run).await;
    assert_eq!((run.status.as_str(), text(&run).as_str()), ("ok", "re: leave it"));
    let question = query::approval::get(talk.engine.store(), &talk.namespace, seen.approvals[0])
        .await
        .unwrap();
    assert_eq!(question.state, "cancelled");
    assert!(talk.mind.ran().is_empty());
    assert_eq!(talk.states(first.task).await, ["consumed", "superseded", "consumed"]);
    assert_eq!(talk.task(first.task).await.state, "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_takes_the_turn_out_of_the_conversation() {
    let talk = Talk::new().await;
    let _worker = talk.worker().await;
    let first = talk.accept("chat", "hello").await;
    talk.wait(first.run).await;
    let second = talk.accept("chat", "pair of them").await;
    assert_eq!((second.task, second.outcome.as_str()), (first.task, "restarted"));
    talk.mind.hold.entered().await;
    talk.say(first.task, "unread", InputMode::Steer).await;
    let receipt = talk.say(first.task, "forget that", InputMode::Rollback).await;
    assert_eq!(receipt.outcome.as_str(), "interrupted");
    assert_ne!(receipt.run, second.run, "a new run");
    let run = talk.wait(receipt.run).await;
    assert_eq!(text(&run), "re: forget that");
    assert_eq!(talk.mind.last(), ["hello", "a: re: hello", "forget that"]);
    assert_eq!(
        talk.session("chat").await,
        ["hello", "a: re: hello", "forget that", "a: re: forget that"]
    );
    let old = talk.wait(second.run).await;
    assert_eq!(old.status, "cancelled");
    assert_eq!(old.outcome_code.as_deref(), Some("cancelled_by_interrupt"));
    assert!(old.ended <= run.started, "first the end, then the new beginning");
    let event = talk.event(second.run, "rolled_back").await.unwrap();
    assert!(event["left"].as_u64().unwrap() >= 1, "{event}");
    assert_eq!(talk.states(first.task).await, ["consumed", "consumed", "superseded", "consumed"]);
    let task = talk.task(first.task).await;
    assert_eq!((task.state.as_str(), task.current_run_id), ("done", Some(receipt.run)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_of_what_is_done_already_still_takes_it_out() {
    let talk = Talk::new().await;
    let worker = talk.worker().await;
    let first = talk.accept("chat", "hold on").await;
    talk.mind.hold.entered().await;
    drop(worker);
    let receipt = talk.say(first.task, "forget that", InputMode::Rollback).await;
    let second = talk.another();
    let _worker = second.start().await.unwrap();
    assert_eq!(text(&talk.wait(receipt.run).await), "re: forget that");
    assert_eq!(talk.mind.last(), ["forget that"], "also where the worker is gone");
    assert_eq!(talk.run(first.run).await.status, "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_brings_back_what_the_turn_had_summed_up() {
    let talk = Talk::new().await;
    let worker = talk.worker().await;
    let first = talk.accept("chat", "hello").await;
    talk.wait(first.run).await;
    let second = talk.accept("chat", "hold on").await;
    talk.mind.hold.entered().await;
    drop(worker);
    // As a turn does whose conversation no longer fits: what was said goes, and a summary comes.
    let (run, summary) = (second.run, Env::system().id());
    let squeezed = talk.engine.store().write(move |tx| {
        let mut row = session::lock(tx, "default", "chat")?.unwrap();
        row.revision += 1;
        let talk = SessionRef { namespace: "default", id: "chat" };
        journal::pop_entries(tx, talk, row.revision, row.next_entry)?;
        let message = serde_json::to_string(&Message::summary("they met")).unwrap();
        message::put(tx, "default", summary, &Body::new(message)?)?;
        let entry = SessionEntryRow {
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
    let receipt = talk.say(first.task, "forget that", InputMode::Rollback).await;
    let second_engine = talk.another();
    let _worker = second_engine.start().await.unwrap();
    talk.wait(receipt.run).await;
    assert_eq!(talk.mind.last(), ["hello", "a: re: hello", "forget that"]);
    let event = talk.event(second.run, "rolled_back").await.unwrap();
    assert_eq!(event["restored"], 2, "{event}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_of_what_is_being_cancelled_is_for_the_next_run() {
    let talk = Talk::new().await;
    let worker = talk.worker().await;
    let first = talk.accept("chat", "hold on").await;
    talk.mind.hold.entered().await;
    drop(worker);
    talk.engine.runs().cancel(&talk.namespace, first.run).await.unwrap();
    let steered = talk.say(first.task, "wait", InputMode::Steer).await;
    assert_eq!(steered.outcome.as_str(), "queued", "it takes nothing more");
    let receipt = talk.say(first.task, "other thing", InputMode::Interrupt).await;
    assert_eq!(receipt.outcome.as_str(), "interrupted");
    assert_ne!(receipt.run, first.run);
    let second = talk.another();
    let _worker = second.start().await.unwrap();
    assert_eq!(text(&talk.wait(receipt.run).await), "re: other thing");
    assert_eq!(talk.run(first.run).await.status, "cancelled");
    assert_eq!(talk.run(steered.run).await.status, "cancelled", "a newer one took its place");
}
