//! Workers that go away while messages are under way. Another engine on the same file takes over, as another process would.

use std::time::Duration;

use provost_core::command::TaskRequest;
use provost_core::lifecycle::RunStatus;
use provost_core::recovery::OutcomeCode;
use provost_core::scheduling::{InputMode, InputQueueOverride};
use provost_engine::InputRequest;

use crate::conversations::{Conversation, text};
use crate::harness::command;

#[tokio::test(flavor = "multi_thread")]
async fn g23_a16_06_what_was_committed_is_delivered_once_and_in_order_by_whoever_comes() {
    let conversation = Conversation::new().await;
    let worker = conversation.worker().await;
    let first = conversation.accept("chat", "hold on").await;
    conversation.mind.hold.entered().await;
    for said in ["one", "two"] {
        conversation.say(first.task, said, InputMode::Steer).await;
    }
    let later = conversation.say(first.task, "later", InputMode::Followup).await;
    // The worker dies before any of them is read.
    drop(worker);
    let second = conversation.another();
    let _worker = second.start().await.unwrap();
    conversation.mind.hold.entered().await;
    conversation.mind.hold.open();
    conversation.mind.hold.open();
    assert_eq!(text(&conversation.wait(later.run).await), "re: later");
    let told = conversation.mind.seen();
    let answered = told.iter().find(|seen| seen.contains(&"two".to_owned())).unwrap();
    assert_eq!(answered[..], ["hold on", "call hold", "hold: ok", "one", "two"]);
    let session = conversation.session("chat").await;
    for said in ["one", "two", "later"] {
        assert_eq!(session.iter().filter(|line| *line == said).count(), 1, "{session:?}");
    }
    assert_eq!(conversation.states(first.task).await, ["consumed"; 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn g24_what_was_read_and_not_answered_is_there_for_the_next_attempt_once() {
    let conversation = Conversation::new().await;
    let worker = conversation.worker().await;
    let first = conversation.accept("chat", "hold on").await;
    conversation.mind.hold.entered().await;
    conversation.say(first.task, "think again", InputMode::Steer).await;
    conversation.mind.hold.open();
    // The message is in the conversation, and the model call that contains it is under way.
    conversation.mind.think.entered().await;
    assert_eq!(conversation.states(first.task).await, ["consumed", "claimed"]);
    drop(worker);
    let second = conversation.another();
    let _worker = second.start().await.unwrap();
    conversation.mind.think.entered().await;
    conversation.mind.think.open();
    conversation.mind.think.open();
    assert_eq!(text(&conversation.wait(first.run).await), "re: think again");
    let seen = conversation.mind.seen();
    assert_eq!(seen[1], seen[2], "the same conversation, with the message once");
    assert_eq!(seen[2][..], ["hold on", "call hold", "hold: ok", "think again"]);
    assert_eq!(conversation.states(first.task).await, ["consumed", "consumed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn g30_messages_behind_a_run_whose_time_is_over_are_served_next() {
    let conversation = Conversation::simulated().await;
    let _worker = conversation.worker().await;
    let limited = TaskRequest { timeout_ms: Some(5_000), ..command("chat", "hold on") };
    let first = conversation.engine.submit(&conversation.namespace, limited).await.unwrap();
    conversation.mind.hold.entered().await;
    let steered = conversation.say(first.task, "steered", InputMode::Steer).await;
    let queued = conversation.say(first.task, "queued", InputMode::Followup).await;
    conversation.env.advance(Duration::from_secs(6));
    let run = conversation.wait(first.run).await;
    assert_eq!(
        (run.status.as_str(), run.outcome_code.map(OutcomeCode::as_str)),
        ("timeout", Some("deadline"))
    );
    let run = conversation.wait(queued.run).await;
    assert_eq!((run.status.as_str(), text(&run).as_str()), ("ok", "re: queued"));
    assert_eq!(conversation.mind.told(), ["hold on", "steered", "queued"], "in order");
    assert_eq!(steered.run, first.run);
    assert_eq!(conversation.states(first.task).await, ["consumed"; 3]);
    assert_eq!(conversation.task(first.task).await.state.as_str(), "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_failed_run_had_read_is_said_again_and_only_once() {
    let conversation = Conversation::new().await;
    let _worker = conversation.worker().await;
    let first = conversation.accept("chat", "hold on").await;
    conversation.mind.hold.entered().await;
    conversation.say(first.task, "fail now", InputMode::Steer).await;
    conversation.mind.hold.open();
    let run = conversation.wait(first.run).await;
    assert_eq!(
        (run.status.as_str(), run.outcome_code.map(OutcomeCode::as_str)),
        ("error", Some("provider_bad_request"))
    );
    let row = conversation.inputs(first.task).await.pop().unwrap();
    let again = row.run_id.unwrap();
    assert_ne!(again, first.run, "it was not answered, so it begins a run of its own");
    let run = conversation.wait(again).await;
    assert_eq!(run.status, RunStatus::Error);
    assert_eq!(conversation.mind.last(), ["hold on", "call hold", "hold: ok", "fail now"]);
    assert_eq!(conversation.task(first.task).await.run_count, 2, "and then it is settled");
    assert_eq!(conversation.states(first.task).await, ["consumed", "consumed"]);
}

/// Many speak at once through several engines, and workers come and go: everything is read exactly once.
#[tokio::test(flavor = "multi_thread")]
async fn g23_g28_a_crowd_is_heard_once_each_while_workers_come_and_go() {
    const SPEAKERS: usize = 60;
    let conversation = Conversation::new().await;
    let queue = InputQueueOverride {
        cap: Some(1000),
        debounce_ms: Some(5),
        ..InputQueueOverride::default()
    };
    let first = conversation.accept("chat", "start").await;
    conversation.engine.sessions().set_queue(&conversation.namespace, "chat", queue).await.unwrap();
    let engines = [conversation.another(), conversation.another()];
    let mut worker = engines[0].start().await.unwrap();
    let modes = [InputMode::Steer, InputMode::Followup, InputMode::Collect];
    let mut speakers = tokio::task::JoinSet::new();
    for number in 0..SPEAKERS {
        let (engine, namespace) = (engines[number % 2].clone(), conversation.namespace.clone());
        let request = InputRequest::text(format!("<m{number}>")).mode(modes[number % 3]);
        let request = request.key(format!("k{number}"));
        speakers.spawn(async move {
            // Everybody says it twice, as somebody does who did not hear the answer.
            let once = engine.inputs().send(&namespace, first.task, request.clone()).await.unwrap();
            let again = engine.inputs().send(&namespace, first.task, request).await.unwrap();
            assert_eq!((once.input, again.deduped), (again.input, true));
        });
    }
    let mut heard = 0;
    while let Some(spoken) = speakers.join_next().await {
        spoken.unwrap();
        heard += 1;
        if heard % 12 == 0 {
            let next = engines[heard / 12 % 2].start().await.unwrap();
            drop(std::mem::replace(&mut worker, next));
        }
    }
    conversation.settled(first.task).await;
    let inputs = conversation.inputs(first.task).await;
    assert_eq!(inputs.len(), SPEAKERS + 1);
    let unread: Vec<_> = inputs.iter().filter(|row| row.state.as_str() != "consumed").collect();
    assert!(unread.is_empty(), "{unread:?}");
    let session = conversation.session("chat").await;
    for number in 0..SPEAKERS {
        let mark = format!("<m{number}>");
        let said = |line: &&String| !line.starts_with("a: ") && line.contains(&mark);
        assert_eq!(session.iter().filter(said).count(), 1, "{mark} in {session:?}");
    }
    drop(worker);
}
