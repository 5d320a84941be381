//! What is said to a task: stored first, delivered once and in order, by every queue mode.

mod collect;
mod crash;
mod interrupt;
mod overflow;
mod project;
mod steer;

use provost_core::scheduling::{InputMode, InputQueueOverride, InputQueueSettings};
use provost_engine::InputRequest;
use provost_store::query;

use crate::conversations::{Conversation, text};

#[tokio::test(flavor = "multi_thread")]
async fn followups_are_one_run_each_in_order() {
    let conversation = Conversation::new().await;
    let _worker = conversation.worker().await;
    let first = conversation.accept("chat", "hold on").await;
    conversation.mind.hold.entered().await;
    let one = conversation.say(first.task, "one", InputMode::Followup).await;
    let two = conversation.say(first.task, "two", InputMode::Followup).await;
    assert_eq!((one.outcome.as_str(), two.outcome.as_str()), ("queued", "queued"));
    assert_eq!((one.task, two.task), (first.task, first.task));
    assert!(first.run != one.run && one.run != two.run, "each has a run to wait for");
    assert_eq!(conversation.states(first.task).await, ["consumed", "pending", "pending"]);
    conversation.mind.hold.open();
    assert_eq!(text(&conversation.wait(two.run).await), "re: two");
    assert_eq!(text(&conversation.wait(one.run).await), "re: one");
    assert_eq!(text(&conversation.wait(first.run).await), "done: hold on");
    assert_eq!(
        conversation.mind.last(),
        ["hold on", "call hold", "hold: ok", "a: done: hold on", "one", "a: re: one", "two"]
    );
    assert_eq!(conversation.states(first.task).await, ["consumed"; 3]);
    let task = conversation.task(first.task).await;
    assert_eq!((task.state.as_str(), task.run_count), ("done", 3));
    assert_eq!(task.current_run_id, Some(two.run));
    let rows = [
        conversation.run(first.run).await,
        conversation.run(one.run).await,
        conversation.run(two.run).await,
    ];
    assert!(rows[0].ended <= rows[1].started && rows[1].ended <= rows[2].started);
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_makes_a_task_behind_the_running_one() {
    let conversation = Conversation::new().await;
    let _worker = conversation.worker().await;
    let first = conversation.accept("chat", "hold on").await;
    conversation.mind.hold.entered().await;
    let queued = conversation.say(first.task, "next please", InputMode::Queue).await;
    assert_eq!(queued.outcome.as_str(), "queued");
    assert_ne!(queued.task, first.task);
    let task = conversation.task(queued.task).await;
    assert_eq!((task.session_id.as_str(), task.state.as_str()), ("chat", "queued"));
    let place = query::input::queue_position(
        conversation.engine.store(),
        &conversation.namespace,
        queued.run,
    )
    .await
    .unwrap()
    .unwrap();
    assert_eq!((place.ahead_in_session, place.ahead_in_class), (1, 0));
    conversation.mind.hold.open();
    assert_eq!(text(&conversation.wait(queued.run).await), "re: next please");
    assert_eq!(conversation.task(first.task).await.state.as_str(), "done");
    assert_eq!(conversation.task(queued.task).await.state.as_str(), "done");
    assert_eq!(conversation.mind.last()[0], "hold on", "it is the same conversation");
    let nothing = query::input::queue_position(
        conversation.engine.store(),
        &conversation.namespace,
        queued.run,
    )
    .await
    .unwrap();
    assert_eq!(nothing, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn reject_is_refused_while_something_is_done_and_stores_nothing() {
    let conversation = Conversation::new().await;
    let _worker = conversation.worker().await;
    let first = conversation.accept("chat", "hold on").await;
    conversation.mind.hold.entered().await;
    let request = InputRequest::text("me too").mode(InputMode::Reject).key("k");
    let rows = (
        conversation.count("input").await,
        conversation.count("message").await,
        conversation.count("idem").await,
    );
    let refused = conversation
        .engine
        .inputs()
        .send(&conversation.namespace, first.task, request.clone())
        .await;
    assert_eq!(refused.unwrap_err().code(), "busy");
    let refused = conversation.accept_mode("chat", "me too", InputMode::Reject).await;
    assert_eq!(refused.unwrap_err().code(), "busy");
    let now = (
        conversation.count("input").await,
        conversation.count("message").await,
        conversation.count("idem").await,
    );
    assert_eq!(rows, now, "nothing half-written, nothing remembered");
    conversation.mind.hold.open();
    conversation.wait(first.run).await;
    let receipt = conversation
        .engine
        .inputs()
        .send(&conversation.namespace, first.task, request)
        .await
        .unwrap();
    assert_eq!((receipt.outcome.as_str(), receipt.deduped), ("restarted", false));
    assert_eq!(text(&conversation.wait(receipt.run).await), "re: me too");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_to_an_ended_or_archived_task_restarts_it() {
    let conversation = Conversation::new().await;
    let _worker = conversation.worker().await;
    let first = conversation.accept("chat", "hello").await;
    conversation.wait(first.run).await;
    for (number, mode) in InputMode::ALL.iter().enumerate() {
        conversation.engine.tasks().archive(&conversation.namespace, first.task).await.unwrap();
        let said = format!("again {number}");
        let receipt = match number % 2 {
            0 => conversation.say(first.task, &said, *mode).await,
            _ => {
                let request = InputRequest::text(said.as_str()).mode(*mode);
                conversation
                    .engine
                    .inputs()
                    .send(&conversation.namespace, first.run, request)
                    .await
                    .unwrap()
            }
        };
        assert_eq!(receipt.outcome.as_str(), "restarted", "{mode}");
        assert_eq!(receipt.task, first.task);
        assert_eq!(text(&conversation.wait(receipt.run).await), format!("re: {said}"));
        let task = conversation.task(first.task).await;
        assert_eq!((task.state.as_str(), task.archived), ("done", None));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g25_a16_09_a_repeated_input_is_one_row_and_told_so() {
    let conversation = Conversation::new().await;
    let _worker = conversation.worker().await;
    let first = conversation.accept("chat", "hold on").await;
    conversation.mind.hold.entered().await;
    let request = || InputRequest::text("more").mode(InputMode::Followup).key("k1");
    let once = conversation
        .engine
        .inputs()
        .send(&conversation.namespace, first.task, request())
        .await
        .unwrap();
    let other = conversation.another();
    let again = other.inputs().send(&conversation.namespace, first.run, request()).await.unwrap();
    assert_eq!((again.outcome.as_str(), again.deduped), ("duplicate", true));
    assert_eq!((again.input, again.task, again.run), (once.input, once.task, once.run));
    let changed = InputRequest::text("less").mode(InputMode::Followup).key("k1");
    let refused = conversation
        .engine
        .inputs()
        .send(&conversation.namespace, first.task, changed)
        .await
        .unwrap_err();
    assert_eq!(refused.code(), "idempotency_mismatch");
    let queued = InputRequest::text("apart").mode(InputMode::Queue).key("k2");
    let once = conversation
        .engine
        .inputs()
        .send(&conversation.namespace, first.task, queued.clone())
        .await
        .unwrap();
    let again = conversation
        .engine
        .inputs()
        .send(&conversation.namespace, first.task, queued)
        .await
        .unwrap();
    assert_eq!((again.task, again.deduped), (once.task, true), "also where it made a task");
    assert_eq!(conversation.inputs(first.task).await.len(), 2);
    conversation.mind.hold.open();
    conversation.wait(once.run).await;
    assert_eq!(conversation.mind.told(), ["hold on", "hold: ok", "more", "apart"]);
    let late = conversation
        .engine
        .inputs()
        .send(&conversation.namespace, first.task, request())
        .await
        .unwrap();
    assert!(late.deduped, "as long as the task is there");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mode_comes_from_the_call_the_session_the_agent_and_the_caller_in_this_order() {
    let conversation = Conversation::new().await;
    let _worker = conversation.worker().await;
    let first = conversation.accept("chat", "hold on").await;
    conversation.mind.hold.entered().await;
    let outcome = async |request: InputRequest| {
        let receipt = conversation
            .engine
            .inputs()
            .send(&conversation.namespace, first.task, request)
            .await
            .unwrap();
        receipt.outcome.to_string()
    };
    let plain = || InputRequest::text("x");
    let chat = || InputRequest { defaults: InputQueueSettings::chat(), ..plain() };
    assert_eq!(outcome(plain()).await, "queued", "programs");
    assert_eq!(outcome(chat()).await, "steered", "chats");
    let queue = serde_json::json!({"queue": {"mode": "collect"}}).as_object().unwrap().clone();
    conversation.engine.update_agent(&conversation.namespace, "default", queue).await.unwrap();
    assert_eq!(outcome(chat()).await, "collected", "the agent");
    let queue =
        InputQueueOverride { mode: Some(InputMode::Steer), ..InputQueueOverride::default() };
    conversation.engine.sessions().set_queue(&conversation.namespace, "chat", queue).await.unwrap();
    assert_eq!(outcome(plain()).await, "steered", "the session");
    assert_eq!(outcome(plain().mode(InputMode::Followup)).await, "queued", "the call");
    let unknown =
        conversation.engine.sessions().set_queue(&conversation.namespace, "nobody", queue).await;
    assert_eq!(unknown.unwrap_err().code(), "not_found");
}
