//! More messages than may wait.

use provost_core::scheduling::{InputMode, InputQueueOverride, OverflowPolicy};
use provost_engine::{EngineError, InputReceipt, InputRequest};
use serde_json::json;

use crate::talk::{Talk, text};

async fn say(
    talk: &Talk,
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
    talk.engine.inputs().send(&talk.namespace, task, request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn g29_the_oldest_give_way_and_are_listed() {
    let talk = Talk::new().await;
    let _worker = talk.worker().await;
    let first = talk.accept("chat", "hold on").await;
    talk.mind.hold.entered().await;
    let mut told = Vec::new();
    for text in ["one", "two", "three", "four"] {
        let mode = InputMode::Followup;
        told.push(say(&talk, first.task, text, mode, OverflowPolicy::DropOldest).await.unwrap());
    }
    let states = talk.states(first.task).await;
    assert_eq!(states, ["consumed", "superseded", "superseded", "pending", "pending"]);
    let event = talk.event(first.run, "inputs_dropped").await.unwrap();
    let expected = json!({"inputs": [told[0].input], "policy": "old", "cap": 2});
    assert_eq!(event, expected);
    let dropped = talk.events(first.run).await;
    let dropped = dropped.iter().filter(|event| event.kind == "inputs_dropped").count();
    assert_eq!(dropped, 2, "each of them is in an event");
    let gone = talk.wait(told[0].run).await;
    assert_eq!(gone.outcome_code.as_deref(), Some("cancelled_by_interrupt"));
    talk.mind.hold.open();
    talk.wait(told[3].run).await;
    assert_eq!(talk.mind.told(), ["hold on", "hold: ok", "three", "four"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn g29_the_new_one_is_refused() {
    let talk = Talk::new().await;
    let _worker = talk.worker().await;
    let first = talk.accept("chat", "hold on").await;
    talk.mind.hold.entered().await;
    let (mode, drop) = (InputMode::Steer, OverflowPolicy::RejectNew);
    say(&talk, first.task, "one", mode, drop).await.unwrap();
    say(&talk, first.task, "two", mode, drop).await.unwrap();
    let refused = say(&talk, first.task, "three", mode, drop).await.unwrap_err();
    assert_eq!(refused.code(), "full");
    assert_eq!(talk.inputs(first.task).await.len(), 3, "nothing is stored of it");
    talk.mind.hold.open();
    talk.wait(first.run).await;
    assert_eq!(talk.mind.last()[3..], ["one", "two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn g29_a_summary_of_what_was_dropped_is_part_of_the_next_turn() {
    let talk = Talk::new().await;
    let _worker = talk.worker().await;
    let first = talk.accept("chat", "hold on").await;
    talk.mind.hold.entered().await;
    let (mode, drop) = (InputMode::Followup, OverflowPolicy::Summarize);
    let mut last = None;
    for text in ["one\nand more", "two", "three", "four", "five"] {
        last = Some(say(&talk, first.task, text, mode, drop).await.unwrap());
    }
    talk.mind.hold.open();
    talk.wait(last.unwrap().run).await;
    let told = talk.mind.told();
    let summary =
        "Too many messages were waiting; these were left out:\n- one and more\n- two\n- three";
    assert_eq!(told[2..], [format!("{summary}\n\nfour"), "five".to_owned()]);
    let event = talk.event(first.run, "inputs_dropped").await.unwrap();
    assert_eq!(event["policy"], "summarize");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_steers_where_the_messages_would_have() {
    let talk = Talk::new().await;
    let _worker = talk.worker().await;
    let first = talk.accept("chat", "hold on").await;
    talk.mind.hold.entered().await;
    let (mode, drop) = (InputMode::Steer, OverflowPolicy::Summarize);
    for text in ["one", "two", "three"] {
        say(&talk, first.task, text, mode, drop).await.unwrap();
    }
    talk.mind.hold.open();
    let run = talk.wait(first.run).await;
    assert_eq!(text(&run), "re: three");
    let seen = talk.mind.last();
    assert!(seen[3].ends_with(":\n- one"), "{seen:?}");
    assert_eq!(seen[4..], ["two", "three"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_others_wait_for_is_never_dropped() {
    let talk = Talk::new().await;
    let first = talk.accept("chat", "hello").await;
    for number in 0..5 {
        let text = format!("m{number}");
        say(&talk, first.task, &text, InputMode::Followup, OverflowPolicy::DropOldest)
            .await
            .unwrap();
    }
    let _worker = talk.worker().await;
    assert_eq!(text(&talk.wait(first.run).await), "re: hello");
    let last = talk.inputs(first.task).await.pop().unwrap();
    talk.wait(last.run_id.unwrap()).await;
    assert_eq!(talk.mind.told(), ["hello", "m3", "m4"]);
}
