//! More messages than may wait.

use provost_core::recovery::OutcomeCode;
use provost_core::scheduling::{InputMode, InputQueueOverride, OverflowPolicy};
use provost_engine::{EngineError, InputReceipt, InputRequest};
use serde_json::json;

use crate::conversations::{Conversation, text};

async fn say(
    conversation: &Conversation,
    task: provost_core::TaskId,
    text: &str,
    mode: InputMode,
    drop: OverflowPolicy,
) -> Result<InputReceipt, EngineError> {
    let queue = InputQueueOverride {
        mode: Some(mode),
        cap: Some(2),
        drop: Some(drop),
        ..InputQueueOverride::default()
    };
    let request = InputRequest { queue, ..InputRequest::text(text) };
    conversation.engine.inputs().send(&conversation.namespace, task, request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn g29_the_oldest_give_way_and_are_listed() {
    let conversation = Conversation::new().await;
    let _worker = conversation.worker().await;
    let first = conversation.accept("chat", "hold on").await;
    conversation.mind.hold.entered().await;
    let mut told = Vec::new();
    for text in ["one", "two", "three", "four"] {
        let mode = InputMode::Followup;
        told.push(
            say(&conversation, first.task, text, mode, OverflowPolicy::DropOldest).await.unwrap(),
        );
    }
    let states = conversation.states(first.task).await;
    assert_eq!(states, ["consumed", "superseded", "superseded", "pending", "pending"]);
    let event = conversation.event(first.run, "inputs_dropped").await.unwrap();
    let expected = json!({"inputs": [told[0].input], "policy": "old", "cap": 2});
    assert_eq!(event, expected);
    let dropped = conversation.events(first.run).await;
    let dropped = dropped.iter().filter(|event| event.kind == "inputs_dropped").count();
    assert_eq!(dropped, 2, "each of them is in an event");
    let gone = conversation.wait(told[0].run).await;
    assert_eq!(gone.outcome_code.map(OutcomeCode::as_str), Some("cancelled_by_interrupt"));
    conversation.mind.hold.open();
    conversation.wait(told[3].run).await;
    assert_eq!(conversation.mind.told(), ["hold on", "hold: ok", "three", "four"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn g29_the_new_one_is_refused() {
    let conversation = Conversation::new().await;
    let _worker = conversation.worker().await;
    let first = conversation.accept("chat", "hold on").await;
    conversation.mind.hold.entered().await;
    let (mode, drop) = (InputMode::Steer, OverflowPolicy::RejectNew);
    say(&conversation, first.task, "one", mode, drop).await.unwrap();
    say(&conversation, first.task, "two", mode, drop).await.unwrap();
    let refused = say(&conversation, first.task, "three", mode, drop).await.unwrap_err();
    assert_eq!(refused.code(), "full");
    assert_eq!(conversation.inputs(first.task).await.len(), 3, "nothing is stored of it");
    conversation.mind.hold.open();
    conversation.wait(first.run).await;
    assert_eq!(conversation.mind.last()[3..], ["one", "two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn g29_a_summary_of_what_was_dropped_is_part_of_the_next_turn() {
    let conversation = Conversation::new().await;
    let _worker = conversation.worker().await;
    let first = conversation.accept("chat", "hold on").await;
    conversation.mind.hold.entered().await;
    let (mode, drop) = (InputMode::Followup, OverflowPolicy::Summarize);
    let mut last = None;
    for text in ["one\nand more", "two", "three", "four", "five"] {
        last = Some(say(&conversation, first.task, text, mode, drop).await.unwrap());
    }
    conversation.mind.hold.open();
    conversation.wait(last.unwrap().run).await;
    let told = conversation.mind.told();
    let summary =
        "Too many messages were pending. These were dropped:\n- one and more\n- two\n- three";
    assert_eq!(told[2..], [format!("{summary}\n\nfour"), "five".to_owned()]);
    let event = conversation.event(first.run, "inputs_dropped").await.unwrap();
    assert_eq!(event["policy"], "summarize");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_steers_where_the_messages_would_have() {
    let conversation = Conversation::new().await;
    let _worker = conversation.worker().await;
    let first = conversation.accept("chat", "hold on").await;
    conversation.mind.hold.entered().await;
    let (mode, drop) = (InputMode::Steer, OverflowPolicy::Summarize);
    for text in ["one", "two", "three"] {
        say(&conversation, first.task, text, mode, drop).await.unwrap();
    }
    conversation.mind.hold.open();
    let run = conversation.wait(first.run).await;
    assert_eq!(text(&run), "re: three");
    let seen = conversation.mind.last();
    assert!(seen[3].ends_with(":\n- one"), "{seen:?}");
    assert_eq!(seen[4..], ["two", "three"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_others_wait_for_is_never_dropped() {
    let conversation = Conversation::new().await;
    let first = conversation.accept("chat", "hello").await;
    for number in 0..5 {
        let text = format!("m{number}");
        say(&conversation, first.task, &text, InputMode::Followup, OverflowPolicy::DropOldest)
            .await
            .unwrap();
    }
    let _worker = conversation.worker().await;
    assert_eq!(text(&conversation.wait(first.run).await), "re: hello");
    let last = conversation.inputs(first.task).await.pop().unwrap();
    conversation.wait(last.run_id.unwrap()).await;
    assert_eq!(conversation.mind.told(), ["hello", "m3", "m4"]);
}
