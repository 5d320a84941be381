//! Which task a command goes on with.

use provost_core::command::TaskRequest;
use provost_core::resource::AgentSpec;
use provost_core::scheduling::InputMode;

use crate::conversations::{Conversation, text};
use crate::harness::command;

#[tokio::test(flavor = "multi_thread")]
async fn a_command_to_a_session_goes_on_with_its_task_unless_it_must_not() {
    let conversation = Conversation::new().await;
    let _worker = conversation.worker().await;
    let first = conversation.accept("chat", "hello").await;
    conversation.wait(first.run).await;
    let second = conversation.accept("chat", "again").await;
    assert_eq!((second.task, second.outcome.as_str()), (first.task, "restarted"));
    conversation.wait(second.run).await;
    let new = TaskRequest { new_task: true, ..command("chat", "apart") };
    let new = conversation.engine.submit(&conversation.namespace, new).await.unwrap();
    assert_ne!(new.task, first.task);
    conversation.wait(new.run).await;
    let hook = TaskRequest { hook_id: Some("h".to_owned()), ..command("chat", "ping") };
    let hook = conversation.engine.submit(&conversation.namespace, hook).await.unwrap();
    assert!(hook.task != first.task && hook.task != new.task);
    conversation.wait(hook.run).await;
    assert_eq!(
        conversation.mind.last(),
        ["hello", "a: re: hello", "again", "a: re: again", "apart", "a: re: apart", "ping"],
        "the conversation is the same"
    );
    conversation.engine.tasks().archive(&conversation.namespace, hook.task).await.unwrap();
    let fresh = conversation.accept("chat", "fresh").await;
    assert_ne!(fresh.task, hook.task, "what was put away stays there");
}

#[tokio::test(flavor = "multi_thread")]
async fn a16_12_a_command_never_lands_on_another_agents_task() {
    let conversation = Conversation::new().await;
    let config = AgentSpec::default();
    conversation
        .engine
        .create_agent(&conversation.namespace, "second", None, config)
        .await
        .unwrap();
    let to = |agent: &str, text: &str| TaskRequest {
        agent: Some(agent.to_owned()),
        ..command("chat", text)
    };
    let first =
        conversation.engine.submit(&conversation.namespace, to("default", "a")).await.unwrap();
    let second =
        conversation.engine.submit(&conversation.namespace, to("second", "b")).await.unwrap();
    let third =
        conversation.engine.submit(&conversation.namespace, to("default", "c")).await.unwrap();
    assert_ne!(first.task, second.task);
    assert_eq!(third.task, first.task);
    for (accepted, agent) in [(&first, "default"), (&second, "second"), (&third, "default")] {
        assert_eq!(conversation.run(accepted.run).await.agent, agent);
    }
    let _worker = conversation.worker().await;
    conversation.wait(third.run).await;
    assert_eq!(conversation.mind.told(), ["a", "b", "c"], "one after the other in one session");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_found_by_the_key_that_was_given_to_it() {
    let conversation = Conversation::new().await;
    let _worker = conversation.worker().await;
    let by_key = |key: &str, text: &str| TaskRequest {
        session_key: Some(key.to_owned()),
        ..TaskRequest::text(text)
    };
    let first =
        conversation.engine.submit(&conversation.namespace, by_key("mail:1", "a")).await.unwrap();
    assert!(first.session.starts_with("ses_") && first.session.len() == 30, "{}", first.session);
    let again =
        conversation.engine.submit(&conversation.namespace, by_key("mail:1", "b")).await.unwrap();
    assert_eq!((&again.session, again.task), (&first.session, first.task));
    let other =
        conversation.engine.submit(&conversation.namespace, by_key("mail:2", "c")).await.unwrap();
    assert_ne!(other.session, first.session);
    assert_eq!(text(&conversation.wait(again.run).await), "re: b");
    let both = TaskRequest { session_key: Some("mail:3".to_owned()), ..command("named", "d") };
    let both = conversation.engine.submit(&conversation.namespace, both).await.unwrap();
    let found =
        conversation.engine.submit(&conversation.namespace, by_key("mail:3", "e")).await.unwrap();
    assert_eq!((found.session.as_str(), found.task), ("named", both.task));
    let torn = TaskRequest { session_key: Some("mail:3".to_owned()), ..command("chat", "f") };
    let refused = conversation.engine.submit(&conversation.namespace, torn).await.unwrap_err();
    assert_eq!(refused.code(), "invalid");
    let nameless =
        conversation.engine.submit(&conversation.namespace, TaskRequest::text("x")).await.unwrap();
    let another =
        conversation.engine.submit(&conversation.namespace, TaskRequest::text("x")).await.unwrap();
    assert_ne!(nameless.session, another.session);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_without_an_agent_speaks_to_the_sessions_own() {
    let conversation = Conversation::new().await;
    let config = AgentSpec::default();
    conversation
        .engine
        .create_agent(&conversation.namespace, "second", None, config)
        .await
        .unwrap();
    let first = TaskRequest { agent: Some("second".to_owned()), ..command("chat", "a") };
    let first = conversation.engine.submit(&conversation.namespace, first).await.unwrap();
    let apart = TaskRequest { new_task: true, ..command("chat", "b") };
    let apart = conversation.engine.submit(&conversation.namespace, apart).await.unwrap();
    assert_ne!(first.task, apart.task);
    assert_eq!(conversation.run(apart.run).await.agent, "second");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_can_steer_interrupt_and_roll_back() {
    let conversation = Conversation::new().await;
    let _worker = conversation.worker().await;
    let first = conversation.accept("chat", "hold on").await;
    conversation.mind.hold.entered().await;
    let steered = conversation.accept_mode("chat", "hint", InputMode::Steer).await.unwrap();
    assert_eq!((steered.run, steered.outcome.as_str()), (first.run, "steered"));
    let stopped =
        conversation.accept_mode("chat", "hold that", InputMode::Interrupt).await.unwrap();
    assert_eq!((stopped.run, stopped.outcome.as_str()), (first.run, "interrupted"));
    conversation.mind.hold.entered().await;
    let undone = conversation.accept_mode("chat", "anew", InputMode::Rollback).await.unwrap();
    assert_eq!(undone.outcome.as_str(), "interrupted");
    assert_eq!(text(&conversation.wait(undone.run).await), "re: anew");
    assert_eq!(conversation.session("chat").await, ["anew", "a: re: anew"]);
}
