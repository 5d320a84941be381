//! What can be seen and taken back of messages that wait.

use provost_core::command::TaskRequest;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RunStatus;
use provost_core::recovery::OutcomeCode;
use provost_core::scheduling::InputMode;
use provost_core::{ContentPart, Env, RunId, TaskId};
use provost_engine::InputRequest;
use provost_store::query;

use crate::conversations::Conversation;

#[tokio::test(flavor = "multi_thread")]
async fn a_message_can_be_taken_back_until_it_is_read() {
    let conversation = Conversation::new().await;
    let _worker = conversation.worker().await;
    let first = conversation.accept("chat", "hold on").await;
    conversation.mind.hold.entered().await;
    let steered = conversation.say(first.task, "one", InputMode::Steer).await;
    let queued = conversation.say(first.task, "two", InputMode::Followup).await;
    let kept = conversation.say(first.task, "three", InputMode::Followup).await;
    let waiting =
        query::input::pending(conversation.engine.store(), &conversation.namespace, first.task)
            .await
            .unwrap();
    let said: Vec<String> = waiting.iter().map(|input| input.message.text()).collect();
    assert_eq!(said, ["one", "two", "three"]);
    assert_eq!(waiting[1].run, Some(queued.run));
    let of_run =
        query::input::pending(conversation.engine.store(), &conversation.namespace, first.run)
            .await
            .unwrap();
    assert_eq!(of_run.len(), 1);
    for receipt in [&steered, &queued] {
        for _ in 0..2 {
            let state = conversation
                .engine
                .inputs()
                .withdraw(&conversation.namespace, receipt.input)
                .await
                .unwrap();
            assert_eq!(state.as_str(), "cancelled");
        }
    }
    let gone = conversation.wait(queued.run).await;
    assert_eq!(gone.outcome_code.map(OutcomeCode::as_str), Some("cancelled_by_user"));
    let read = conversation
        .engine
        .inputs()
        .withdraw(&conversation.namespace, first.input)
        .await
        .unwrap_err();
    assert_eq!(read.code(), "already_terminal");
    conversation.mind.hold.open();
    conversation.wait(kept.run).await;
    assert_eq!(conversation.mind.told(), ["hold on", "hold: ok", "three"]);
    let task = conversation.task(first.task).await;
    assert_eq!((task.state.as_str(), task.current_run_id), ("done", Some(kept.run)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_only_message_is_taken_back_is_cancelled() {
    let conversation = Conversation::new().await;
    let first = conversation.accept("chat", "hello").await;
    conversation.engine.inputs().withdraw(&conversation.namespace, first.input).await.unwrap();
    assert_eq!(conversation.run(first.run).await.status, RunStatus::Cancelled);
    assert_eq!(conversation.task(first.task).await.state.as_str(), "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_a_task_takes_everything_that_waits_with_it() {
    let conversation = Conversation::new().await;
    let _worker = conversation.worker().await;
    let first = conversation.accept("chat", "hold on").await;
    conversation.mind.hold.entered().await;
    let later = conversation.say(first.task, "later", InputMode::Followup).await;
    conversation.say(first.task, "now", InputMode::Steer).await;
    conversation.engine.tasks().cancel(&conversation.namespace, first.task).await.unwrap();
    assert_eq!(conversation.wait(first.run).await.status, RunStatus::Cancelled);
    assert_eq!(conversation.wait(later.run).await.status, RunStatus::Cancelled);
    let task = conversation.task(first.task).await;
    assert_eq!((task.state.as_str(), task.run_count), ("cancelled", 2));
    assert_eq!(conversation.states(first.task).await, ["consumed", "cancelled", "cancelled"]);
    assert_eq!(conversation.mind.seen().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn interaction_follows_the_run() {
    let conversation = Conversation::new().await;
    let first = conversation.accept("chat", "hold on").await;
    let state = async || {
        let seen = query::input::interaction(
            conversation.engine.store(),
            &conversation.namespace,
            first.run,
        )
        .await
        .unwrap();
        (seen.state.to_string(), seen.execution.is_some(), seen.pending.len())
    };
    assert_eq!(state().await, ("working".to_owned(), false, 1));
    let _worker = conversation.worker().await;
    conversation.mind.hold.entered().await;
    assert_eq!(state().await, ("working".to_owned(), true, 0));
    conversation.say(first.task, "more", InputMode::Steer).await;
    assert_eq!(state().await, ("working".to_owned(), true, 1));
    conversation.mind.hold.open();
    conversation.wait(first.run).await;
    assert_eq!(state().await, ("closed".to_owned(), false, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_unknown_foreign_or_too_large_is_refused_with_a_code() {
    let conversation = Conversation::new().await;
    let first = conversation.accept("chat", "hello").await;
    let (own, foreign): (_, Namespace) = (conversation.namespace.clone(), "other".parse().unwrap());
    let env = Env::system();
    let (no_task, no_run): (TaskId, RunId) = (env.id(), env.id());
    let engine = &conversation.engine;
    let hi = || InputRequest::text("hi");
    let rows = conversation.count("input").await;
    let errors = [
        engine.inputs().send(&own, no_task, hi()).await.unwrap_err(),
        engine.inputs().send(&own, no_run, hi()).await.unwrap_err(),
        engine.inputs().send(&foreign, first.task, hi()).await.unwrap_err(),
        engine.inputs().send(&foreign, first.run, hi()).await.unwrap_err(),
        query::input::pending(engine.store(), &foreign, first.task).await.unwrap_err().into(),
        query::input::pending(engine.store(), &foreign, first.run).await.unwrap_err().into(),
        engine.inputs().withdraw(&foreign, first.input).await.unwrap_err(),
        engine.inputs().withdraw(&own, env.id()).await.unwrap_err(),
        query::input::interaction(engine.store(), &foreign, first.run).await.unwrap_err().into(),
        query::input::queue_position(engine.store(), &foreign, first.run).await.unwrap_err().into(),
        query::task::get(engine.store(), &foreign, first.task).await.unwrap_err().into(),
        engine.tasks().archive(&foreign, first.task).await.unwrap_err(),
        engine.tasks().retry(&foreign, first.task).await.unwrap_err(),
        engine.sessions().set_queue(&foreign, "chat", Default::default()).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.code(), "not_found", "{error}");
    }
    let large = InputRequest::text("x".repeat(1024 * 1024 + 1));
    let error = engine.inputs().send(&own, first.task, large).await.unwrap_err();
    assert_eq!(error.code(), "payload_too_large");
    assert!(error.to_string().starts_with("input.message[0]"), "{error}");
    let many =
        InputRequest { message: vec![ContentPart::text("x"); 65], ..InputRequest::default() };
    let empty = InputRequest::text("  ");
    let mut wild = hi();
    wild.queue.cap = Some(0);
    for request in [many, empty, wild] {
        let error = engine.inputs().send(&own, first.task, request).await.unwrap_err();
        assert_eq!(error.code(), "invalid", "{error}");
    }
    let large = TaskRequest::text("x".repeat(1024 * 1024 + 1));
    let error = engine.submit(&own, large).await.unwrap_err();
    assert_eq!(error.code(), "payload_too_large");
    assert_eq!(conversation.count("input").await, rows);
}
