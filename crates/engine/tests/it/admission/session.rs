//! Which task a command goes on with.

use provost_core::command::TaskRequest;
use provost_core::scheduling::InputMode;
use provost_engine::AgentConfig;

use crate::stage::command;
use crate::talk::{Talk, text};

#[tokio::test(flavor = "multi_thread")]
async fn a_command_to_a_session_goes_on_with_its_task_unless_it_must_not() {
    let talk = Talk::new().await;
    let _worker = talk.worker().await;
    let first = talk.accept("chat", "hello").await;
    talk.wait(first.run).await;
    let second = talk.accept("chat", "again").await;
    assert_eq!((second.task, second.outcome.as_str()), (first.task, "restarted"));
    talk.wait(second.run).await;
    let new = TaskRequest { new_task: true, ..command("chat", "apart") };
    let new = talk.engine.submit(&talk.namespace, new).await.unwrap();
    assert_ne!(new.task, first.task);
    talk.wait(new.run).await;
    let hook = TaskRequest { hook_id: Some("h".to_owned()), ..command("chat", "ping") };
    let hook = talk.engine.submit(&talk.namespace, hook).await.unwrap();
    assert!(hook.task != first.task && hook.task != new.task);
    talk.wait(hook.run).await;
    assert_eq!(
        talk.mind.last(),
        ["hello", "a: re: hello", "again", "a: re: again", "apart", "a: re: apart", "ping"],
        "the conversation is the same"
    );
    talk.engine.tasks().archive(&talk.namespace, hook.task).await.unwrap();
    let fresh = talk.accept("chat", "fresh").await;
    assert_ne!(fresh.task, hook.task, "what was put away stays there");
}

#[tokio::test(flavor = "multi_thread")]
async fn a16_12_a_command_never_lands_on_another_agents_task() {
    let talk = Talk::new().await;
    let config = AgentConfig::default();
    talk.engine.create_agent(&talk.namespace, "second", None, config).await.unwrap();
    let to = |agent: &str, text: &str| TaskRequest {
        agent: Some(agent.to_owned()),
        ..command("chat", text)
    };
    let first = talk.engine.submit(&talk.namespace, to("default", "a")).await.unwrap();
    let second = talk.engine.submit(&talk.namespace, to("second", "b")).await.unwrap();
    let third = talk.engine.submit(&talk.namespace, to("default", "c")).await.unwrap();
    assert_ne!(first.task, second.task);
    assert_eq!(third.task, first.task);
    for (accepted, agent) in [(&first, "default"), (&second, "second"), (&third, "default")] {
        assert_eq!(talk.run(accepted.run).await.agent, agent);
    }
    let _worker = talk.worker().await;
    talk.wait(third.run).await;
    assert_eq!(talk.mind.told(), ["a", "b", "c"], "one after the other in one session");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_found_by_the_key_that_was_given_to_it() {
    let talk = Talk::new().await;
    let _worker = talk.worker().await;
    let by_key = |key: &str, text: &str| TaskRequest {
        session_key: Some(key.to_owned()),
        ..TaskRequest::text(text)
    };
    let first = talk.engine.submit(&talk.namespace, by_key("mail:1", "a")).await.unwrap();
    assert!(first.session.starts_with("ses_") && first.session.len() == 30, "{}", first.session);
    let again = talk.engine.submit(&talk.namespace, by_key("mail:1", "b")).await.unwrap();
    assert_eq!((&again.session, again.task), (&first.session, first.task));
    let other = talk.engine.submit(&talk.namespace, by_key("mail:2", "c")).await.unwrap();
    assert_ne!(other.session, first.session);
    assert_eq!(text(&talk.wait(again.run).await), "re: b");
    let both = TaskRequest { session_key: Some("mail:3".to_owned()), ..command("named", "d") };
    let both = talk.engine.submit(&talk.namespace, both).await.unwrap();
    let found = talk.engine.submit(&talk.namespace, by_key("mail:3", "e")).await.unwrap();
    assert_eq!((found.session.as_str(), found.task), ("named", both.task));
    let torn = TaskRequest { session_key: Some("mail:3".to_owned()), ..command("chat", "f") };
    let refused = talk.engine.submit(&talk.namespace, torn).await.unwrap_err();
    assert_eq!(refused.code(), "invalid");
    let nameless = talk.engine.submit(&talk.namespace, TaskRequest::text("x")).await.unwrap();
    let another = talk.engine.submit(&talk.namespace, TaskRequest::text("x")).await.unwrap();
    assert_ne!(nameless.session, another.session);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_without_an_agent_speaks_to_the_sessions_own() {
    let talk = Talk::new().await;
    let config = AgentConfig::default();
    talk.engine.create_agent(&talk.namespace, "second", None, config).await.unwrap();
    let first = TaskRequest { agent: Some("second".to_owned()), ..command("chat", "a") };
    let first = talk.engine.submit(&talk.namespace, first).await.unwrap();
    let apart = TaskRequest { new_task: true, ..command("chat", "b") };
    let apart = talk.engine.submit(&talk.namespace, apart).await.unwrap();
    assert_ne!(first.task, apart.task);
    assert_eq!(talk.run(apart.run).await.agent, "second");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_can_steer_interrupt_and_roll_back() {
    let talk = Talk::new().await;
    let _worker = talk.worker().await;
    let first = talk.accept("chat", "hold on").await;
    talk.mind.hold.entered().await;
    let steered = talk.accept_mode("chat", "hint", InputMode::Steer).await.unwrap();
    assert_eq!((steered.run, steered.outcome.as_str()), (first.run, "steered"));
    let stopped = talk.accept_mode("chat", "hold that", InputMode::Interrupt).await.unwrap();
    assert_eq!((stopped.run, stopped.outcome.as_str()), (first.run, "interrupted"));
    talk.mind.hold.entered().await;
    let undone = talk.accept_mode("chat", "anew", InputMode::Rollback).await.unwrap();
    assert_eq!(undone.outcome.as_str(), "interrupted");
    assert_eq!(text(&talk.wait(undone.run).await), "re: anew");
    assert_eq!(talk.session("chat").await, ["anew", "a: re: anew"]);
}
