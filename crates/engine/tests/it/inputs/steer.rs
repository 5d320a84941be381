//! Messages that enter the running turn.

use provost_core::scheduling::InputMode;
use provost_engine::InputRequest;
use provost_store::query;

use crate::talk::{Talk, text};

#[tokio::test(flavor = "multi_thread")]
async fn g26_a_message_waits_for_the_running_tool_and_skips_those_that_have_not_begun() {
    let talk = Talk::new().await;
    let _worker = talk.worker().await;
    let first = talk.accept("chat", "pair of them").await;
    talk.mind.hold.entered().await;
    let receipt = talk.say(first.task, "rather not", InputMode::Steer).await;
    assert_eq!((receipt.outcome.as_str(), receipt.run), ("steered", first.run));
    assert_eq!(talk.mind.seen().len(), 1, "nothing is stopped for it");
    talk.mind.hold.open();
    let run = talk.wait(first.run).await;
    assert_eq!(text(&run), "re: rather not");
    let seen = talk.mind.last();
    assert_eq!(seen[..4], ["pair of them", "call hold", "call next", "hold: ok"]);
    assert!(seen[4].starts_with("next: This call was skipped"), "{seen:?}");
    assert_eq!(seen[5..], ["rather not"]);
    assert_eq!(talk.mind.ran(), ["hold"]);
    assert_eq!(talk.states(first.task).await, ["consumed", "consumed"]);
    let event = talk.event(first.run, "input_steered").await.unwrap();
    assert_eq!(event["input"], receipt.input.to_string());
    assert_eq!(talk.task(first.task).await.run_count, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_messages_enter_together_and_in_order() {
    let talk = Talk::new().await;
    let _worker = talk.worker().await;
    let first = talk.accept("chat", "hold on").await;
    talk.mind.hold.entered().await;
    for said in ["one", "two", "three"] {
        talk.say(first.task, said, InputMode::Steer).await;
    }
    talk.mind.hold.open();
    talk.wait(first.run).await;
    assert_eq!(talk.mind.last(), ["hold on", "call hold", "hold: ok", "one", "two", "three"]);
    assert_eq!(talk.states(first.task).await, ["consumed"; 4]);
    let session = talk.session("chat").await;
    assert_eq!(session.iter().filter(|line| *line == "two").count(), 1, "{session:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn g28_a_message_for_a_run_that_ends_first_begins_the_next_one() {
    let talk = Talk::new().await;
    let _worker = talk.worker().await;
    let first = talk.accept("chat", "think about it").await;
    talk.mind.think.entered().await;
    // Its last model call is under way: no boundary comes after it.
    let one = talk.say(first.task, "one", InputMode::Steer).await;
    let two = talk.say(first.task, "two", InputMode::Steer).await;
    let later = talk.say(first.task, "later", InputMode::Followup).await;
    assert_eq!((one.outcome.as_str(), one.run), ("steered", first.run));
    talk.mind.think.open();
    let run = talk.wait(later.run).await;
    assert_eq!(text(&run), "re: later");
    assert_eq!(
        talk.mind.last(),
        ["think about it", "a: re: think about it", "one\n\ntwo", "a: re: one\n\ntwo", "later"],
        "what would have been read together is read together, and before what came after it"
    );
    assert_eq!(talk.states(first.task).await, ["consumed"; 4]);
    let inputs = talk.inputs(first.task).await;
    let next = inputs[1].run_id.unwrap();
    assert_eq!(inputs[2].run_id, Some(next));
    assert!(next != first.run && next != later.run);
    let event = talk.event(next, "steer_fallback").await.unwrap();
    assert_eq!(event["from"], first.run.to_string());
    assert_eq!(talk.task(first.task).await.run_count, 3);
    let last = talk.events(first.run).await.pop().unwrap();
    assert_eq!((last.kind.as_str(), two.run), ("finished", first.run));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_has_not_begun_cannot_be_steered_and_says_so() {
    let talk = Talk::new().await;
    let first = talk.accept("chat", "hello").await;
    let receipt = talk.say(first.task, "quick", InputMode::Steer).await;
    assert_eq!(receipt.outcome.as_str(), "queued");
    let event = talk.event(first.run, "steer_fallback").await.unwrap();
    assert_eq!(event["run"], receipt.run.to_string());
    let _worker = talk.worker().await;
    talk.wait(receipt.run).await;
    assert_eq!(talk.mind.told(), ["hello", "quick"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_a_question_is_direct() {
    let talk = Talk::new().await;
    let _worker = talk.worker().await;
    let first = talk.accept("chat", "ask me").await;
    talk.until(first.run, |row| row.phase == "parked").await;
    let seen =
        query::input::interaction(talk.engine.store(), &talk.namespace, first.run).await.unwrap();
    assert_eq!((seen.state.as_str(), seen.approvals.len()), ("waiting_for_input", 1));
    assert_eq!(talk.task(first.task).await.state, "waiting");
    let request = InputRequest::text("the red one").mode(InputMode::Reject);
    let receipt = talk.engine.inputs().send(&talk.namespace, first.run, request).await.unwrap();
    assert_eq!((receipt.outcome.as_str(), receipt.run), ("direct", first.run));
    let run = talk.wait(first.run).await;
    assert_eq!((run.status.as_str(), text(&run).as_str()), ("ok", "done: ask me"));
    assert_eq!(talk.mind.last(), ["ask me", "call ask_user", "ask_user: the red one"]);
    assert_eq!(talk.states(first.task).await, ["consumed", "consumed"]);
    let seen =
        query::input::interaction(talk.engine.store(), &talk.namespace, first.run).await.unwrap();
    assert_eq!(seen.state.as_str(), "closed");
}
