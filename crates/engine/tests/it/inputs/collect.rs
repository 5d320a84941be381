//! Messages that become one turn after a quiet while.

use std::time::Duration;

use provost_core::command::{InputProvenance, RoutingContext};
use provost_core::lifecycle::RunStatus;
use provost_core::scheduling::InputMode;
use provost_engine::InputRequest;

use crate::conversations::{Conversation, text};

const HALF: Duration = Duration::from_millis(300);

#[tokio::test(flavor = "multi_thread")]
async fn each_message_starts_the_quiet_while_again_and_all_are_one_turn() {
    let conversation = Conversation::simulated().await;
    let _worker = conversation.worker().await;
    let first = conversation.accept("chat", "hold on").await;
    conversation.mind.hold.entered().await;
    let began = conversation.env.now();
    let one = conversation.say(first.task, "one", InputMode::Collect).await;
    assert_eq!(one.outcome.as_str(), "collected");
    conversation.env.advance(HALF);
    let two = conversation.say(first.task, "two", InputMode::Collect).await;
    conversation.env.advance(HALF);
    let three = conversation.say(first.task, "three", InputMode::Collect).await;
    assert_eq!((one.run, two.run), (two.run, three.run));
    assert_ne!(one.run, first.run);
    let due = began.after(HALF + HALF + Duration::from_millis(500));
    assert_eq!(conversation.run(one.run).await.not_before, due, "500 ms after the last one");
    conversation.mind.hold.open();
    conversation.wait(first.run).await;
    assert_eq!(
        conversation.run(one.run).await.status,
        RunStatus::Accepted,
        "its time has not come"
    );
    conversation.env.advance(Duration::from_millis(500));
    let run = conversation.wait(one.run).await;
    assert_eq!(text(&run), "re: one\n\ntwo\n\nthree");
    assert_eq!(conversation.task(first.task).await.run_count, 2);
    assert_eq!(conversation.states(first.task).await, ["consumed"; 4]);
    assert_eq!(conversation.mind.told(), ["hold on", "hold: ok", "one\n\ntwo\n\nthree"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_another_way_is_not_merged() {
    let conversation = Conversation::simulated().await;
    let _worker = conversation.worker().await;
    let first = conversation.accept("chat", "hold on").await;
    conversation.mind.hold.entered().await;
    let over = |channel: &str, thread: Option<&str>, text: &str, id: &str| InputRequest {
        provenance: InputProvenance {
            channel: Some(channel.to_owned()),
            message_id: Some(id.to_owned()),
            ..InputProvenance::default()
        },
        routing: RoutingContext {
            channel: Some(channel.to_owned()),
            thread_id: thread.map(str::to_owned),
            ..RoutingContext::default()
        },
        ..InputRequest::text(text).mode(InputMode::Collect)
    };
    let mut runs = Vec::new();
    for request in [
        over("mail", None, "a", "1"),
        over("mail", None, "b", "2"),
        over("mail", Some("t"), "c", "3"),
        over("chat", None, "d", "4"),
        InputRequest::text("e").mode(InputMode::Followup),
        over("chat", None, "f", "5"),
    ] {
        let receipt = conversation
            .engine
            .inputs()
            .send(&conversation.namespace, first.task, request)
            .await
            .unwrap();
        runs.push(receipt.run);
    }
    assert_eq!(runs[0], runs[1], "the same way: one turn");
    let mut apart = runs[1..].to_vec();
    apart.dedup();
    assert_eq!(apart.len(), 5, "nothing else is merged, and nothing overtakes: {runs:?}");
    conversation.mind.hold.open();
    conversation.wait(first.run).await;
    conversation.env.advance(Duration::from_secs(1));
    conversation.wait(runs[5]).await;
    assert_eq!(conversation.mind.told()[2..], ["a\n\nb", "c", "d", "e", "f"]);
}
