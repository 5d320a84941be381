//! Live events: those who watch get each one once, those who come late get what they missed.

use std::time::Duration;

use provost_bus::{BusMessage, Topic};
use provost_core::id::name::Namespace;
use provost_core::{Event, EventKind};

use crate::conversations::Conversation;

fn names(events: &[Event]) -> Vec<String> {
    let name = |event: &Event| {
        serde_json::to_value(event).unwrap()["type"].as_str().unwrap_or_default().to_owned()
    };
    events.iter().map(name).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_joins_in_the_middle_of_a_turn_gets_every_event_once() {
    let conversation = Conversation::new().await;
    let _worker = conversation.worker().await;
    // The first turn calls a tool; while the tool is held, the turn is over and its call is not.
    let accepted = conversation.accept("chat", "hold it").await;
    conversation.mind.hold.entered().await;
    let mut live = conversation.engine.store().bus().subscribe(Topic::LiveEvents);
    let draft =
        conversation.engine.runs().unfinished_turn(&conversation.namespace, accepted.run).unwrap();
    assert!(draft.is_complete && draft.epoch > 0, "{draft:?}");
    let missed = names(&draft.events);
    assert!(missed.contains(&"tool_started".to_owned()), "{missed:?}");
    assert!(!missed.contains(&"turn_finished".to_owned()), "the log tells it: {missed:?}");
    let other: Namespace = "other".parse().unwrap();
    assert_eq!(conversation.engine.runs().unfinished_turn(&other, accepted.run), None);
    conversation.mind.hold.open();
    conversation.wait(accepted.run).await;
    let mut seen = Vec::new();
    while let Some(Ok(BusMessage::Live(event))) = live.try_recv() {
        seen.push(event);
    }
    let (address, first) = (&seen[0].address, seen[0].number);
    assert_eq!(first, draft.next, "the draft ends where the live events begin");
    assert!(seen.iter().zip(first..).all(|(one, number)| one.number == number));
    assert_eq!(
        (address.run, address.task, address.session.as_str()),
        (accepted.run, accepted.task, "chat")
    );
    assert_eq!(
        (address.namespace.as_str(), address.epoch),
        (conversation.namespace.as_str(), draft.epoch)
    );
    let events: Vec<Event> = seen.iter().map(|one| one.event.clone()).collect();
    let text: String = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::TextDelta { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(text, "done: hold it");
    assert_eq!(names(&events).last().map(String::as_str), Some("finished"));
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_no_draft_of_a_run_that_nobody_works_on() {
    let conversation = Conversation::new().await;
    let accepted = conversation.accept("chat", "hello").await;
    assert_eq!(
        conversation.engine.runs().unfinished_turn(&conversation.namespace, accepted.run),
        None
    );
    let worker = conversation.worker().await;
    conversation.wait(accepted.run).await;
    worker.stop(Duration::from_secs(5)).await;
    assert_eq!(
        conversation.engine.runs().unfinished_turn(&conversation.namespace, accepted.run),
        None
    );
}
