//! Messages that enter the running turn.

use provost_core::lifecycle::RunPhase;
use provost_core::scheduling::InputMode;
use provost_engine::InputRequest;
use provost_store::query;

use crate::conversations::{Conversation, text};

#[tokio::test(flavor = "multi_thread")]
async fn g26_a_message_waits_for_the_running_tool_and_skips_those_that_have_not_begun() {
    let conversation = Conversation::new().await;
    let _worker = conversation.worker().await;
    let first = conversation.accept("chat", "pair of them").await;
    conversation.mind.hold.entered().await;
    let receipt = conversation.say(first.task, "rather not", InputMode::Steer).await;
    assert_eq!((receipt.outcome.as_str(), receipt.run), ("steered", first.run));
    assert_eq!(conversation.mind.seen().len(), 1, "nothing is stopped for it");
    conversation.mind.hold.open();
    let run = conversation.wait(first.run).await;
    assert_eq!(text(&run), "re: rather not");
    let seen = conversation.mind.last();
    assert_eq!(seen[..4], ["pair of them", "call hold", "call next", "hold: ok"]);
    assert!(seen[4].starts_with("next: This call was skipped"), "{seen:?}");
    assert_eq!(seen[5..], ["rather not"]);
    assert_eq!(conversation.mind.ran(), ["hold"]);
    assert_eq!(conversation.states(first.task).await, ["consumed", "consumed"]);
    let event = conversation.event(first.run, "input_steered").await.unwrap();
    assert_eq!(event["input"], receipt.input.to_string());
    assert_eq!(conversation.task(first.task).await.run_count, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_messages_enter_together_and_in_order() {
    let conversation = Conversation::new().await;
    let _worker = conversation.worker().await;
    let first = conversation.accept("chat", "hold on").await;
    conversation.mind.hold.entered().await;
    for said in ["one", "two", "three"] {
        conversation.say(first.task, said, InputMode::Steer).await;
    }
    conversation.mind.hold.open();
    conversation.wait(first.run).await;
    assert_eq!(
        conversation.mind.last(),
        ["hold on", "call hold", "hold: ok", "one", "two", "three"]
    );
    assert_eq!(conversation.states(first.task).await, ["consumed"; 4]);
    let session = conversation.session("chat").await;
    assert_eq!(session.iter().filter(|line| *line == "two").count(), 1, "{session:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn g28_a_message_for_a_run_that_ends_first_begins_the_next_one() {
    let conversation = Conversation::new().await;
    let _worker = conversation.worker().await;
    let first = conversation.accept("chat", "think about it").await;
    conversation.mind.think.entered().await;
    // Its last model call is under way: no boundary comes after it.
    let one = conversation.say(first.task, "one", InputMode::Steer).await;
    let two = conversation.say(first.task, "two", InputMode::Steer).await;
    let later = conversation.say(first.task, "later", InputMode::Followup).await;
    assert_eq!((one.outcome.as_str(), one.run), ("steered", first.run));
    conversation.mind.think.open();
    let run = conversation.wait(later.run).await;
    assert_eq!(text(&run), "re: later");
    assert_eq!(
        conversation.mind.last(),
        ["think about it", "a: re: think about it", "one\n\ntwo", "a: re: one\n\ntwo", "later"],
        "what would have been read together is read together, and before what came after it"
    );
    assert_eq!(conversation.states(first.task).await, ["consumed"; 4]);
    let inputs = conversation.inputs(first.task).await;
    let next = inputs[1].run_id.unwrap();
    assert_eq!(inputs[2].run_id, Some(next));
    assert!(next != first.run && next != later.run);
    let event = conversation.event(next, "steer_fallback").await.unwrap();
    assert_eq!(event["from"], first.run.to_string());
    assert_eq!(conversation.task(first.task).await.run_count, 3);
    let last = conversation.events(first.run).await.pop().unwrap();
    assert_eq!((last.kind.as_str(), two.run), ("finished", first.run));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_has_not_begun_cannot_be_steered_and_says_so() {
    let conversation = Conversation::new().await;
    let first = conversation.accept("chat", "hello").await;
    let receipt = conversation.say(first.task, "quick", InputMode::Steer).await;
    assert_eq!(receipt.outcome.as_str(), "queued");
    let event = conversation.event(first.run, "steer_fallback").await.unwrap();
    assert_eq!(event["run"], receipt.run.to_string());
    let _worker = conversation.worker().await;
    conversation.wait(receipt.run).await;
    assert_eq!(conversation.mind.told(), ["hello", "quick"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_a_question_is_direct() {
    let conversation = Conversation::new().await;
    let _worker = conversation.worker().await;
    let first = conversation.accept("chat", "ask me").await;
    conversation.until(first.run, |row| row.phase == RunPhase::Parked).await;
    let seen =
        query::input::interaction(conversation.engine.store(), &conversation.namespace, first.run)
            .await
            .unwrap();
    assert_eq!((seen.state.as_str(), seen.approvals.len()), ("waiting_for_input", 1));
    assert_eq!(conversation.task(first.task).await.state.as_str(), "waiting");
    let request = InputRequest::text("the red one").mode(InputMode::Reject);
    let receipt = conversation
        .engine
        .inputs()
        .send(&conversation.namespace, first.run, request)
        .await
        .unwrap();
    assert_eq!((receipt.outcome.as_str(), receipt.run), ("direct", first.run));
    let run = conversation.wait(first.run).await;
    assert_eq!((run.status.as_str(), text(&run).as_str()), ("ok", "done: ask me"));
    assert_eq!(conversation.mind.last(), ["ask me", "call ask_user", "ask_user: the red one"]);
    assert_eq!(conversation.states(first.task).await, ["consumed", "consumed"]);
    let seen =
        query::input::interaction(conversation.engine.store(), &conversation.namespace, first.run)
            .await
            .unwrap();
    assert_eq!(seen.state.as_str(), "closed");
}
