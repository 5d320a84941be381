//! Agent profiles: made, changed, deleted, and what that means for runs.

use std::sync::mpsc;

use provost_core::command::TaskRequest;
use provost_core::resource::{AgentSpec, DEFAULT_RUNNER};
use provost_core::scheduling::InputMode;
use provost_engine::{AgentUpdate, ResourceDocument};
use provost_store::StoreError;
use serde_json::{Map, Value, json};

use crate::conversations::{Conversation, text};
use crate::harness::command;

fn change(value: Value) -> Map<String, Value> {
    serde_json::from_value(value).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_made_read_changed_and_deleted() {
    let conversation = Conversation::new().await;
    let (engine, namespace) = (&conversation.engine, &conversation.namespace);
    let config = AgentSpec::default_for("lead");
    assert_eq!(config.runner.as_deref(), Some(DEFAULT_RUNNER));
    let made = engine.create_agent(namespace, "lead", Some("The lead"), config).await.unwrap();
    assert_eq!((made.revision, made.title.as_deref()), (1, Some("The lead")));
    let twice = engine.create_agent(namespace, "lead", None, AgentSpec::default()).await;
    assert_eq!(twice.unwrap_err().code(), "exists");
    let patch = change(json!({"model": "anthropic/claude-sonnet-4-5", "skills": {"a": true}}));
    let changed = engine.update_agent(namespace, "lead", patch.clone()).await.unwrap();
    assert_eq!(changed.revision, 2);
    assert_eq!(changed.config.system_prompt, made.config.system_prompt, "the rest stays");
    let same = engine.update_agent(namespace, "lead", patch).await.unwrap();
    assert_eq!(same.revision, 2, "what changes nothing is no revision");
    for bad in [json!({"runner": "claude_code"}), json!({"provider": "nobody"})] {
        let refused = engine.update_agent(namespace, "lead", change(bad)).await.unwrap_err();
        assert_eq!(refused.code(), "invalid");
    }
    let odd = change(json!({"policy": {"security": "sometimes"}}));
    assert_eq!(engine.update_agent(namespace, "lead", odd).await.unwrap_err().code(), "invalid");
    assert_eq!(engine.agent(namespace, "lead").await.unwrap(), changed);
    engine.delete_agent(namespace, "lead").await.unwrap();
    assert_eq!(engine.agent(namespace, "lead").await.unwrap_err().code(), "not_found");
    assert_eq!(engine.delete_agent(namespace, "lead").await.unwrap_err().code(), "not_found");
    let again = engine.create_agent(namespace, "lead", None, AgentSpec::default()).await.unwrap();
    assert_eq!(again.revision, 3, "a revision is never used twice");
    let foreign = "other".parse().unwrap();
    assert_eq!(engine.agent(&foreign, "lead").await.unwrap_err().code(), "not_found");
    assert_eq!(
        engine.update_agent(&foreign, "lead", Map::new()).await.unwrap_err().code(),
        "not_found"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_sees_what_happened_to_its_agent_before_it_in_the_same_commit() {
    let conversation = Conversation::new().await;
    let (engine, namespace) = (&conversation.engine, &conversation.namespace);
    let config = AgentSpec::default_for("lead");
    engine.create_agent(namespace, "lead", None, config).await.unwrap();
    let ask = || {
        let lead = Some("lead".to_owned());
        engine.submit(namespace, TaskRequest { agent: lead, ..TaskRequest::text("hi") })
    };
    ask().await.unwrap();
    // The writer stands still until everything waits, so that it becomes one group.
    let (open, opened) = mpsc::channel::<()>();
    let gate = engine.store().write(move |_| {
        // It opens when the sender is dropped, in each attempt.
        opened.recv().unwrap_err();
        Ok::<_, StoreError>(())
    });
    let opening = async { drop(open) };
    let deleting = engine.delete_agent(namespace, "lead");
    let (first, second, deleted, late, ()) =
        tokio::join!(biased; ask(), ask(), deleting, ask(), opening);
    gate.await.unwrap();
    deleted.unwrap();
    assert!(first.is_ok() && second.is_ok());
    assert_eq!(late.unwrap_err().code(), "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_are_listed_by_name() {
    let conversation = Conversation::new().await;
    for name in ["b", "c", "a"] {
        let config = AgentSpec::default_for(name);
        conversation
            .engine
            .create_agent(&conversation.namespace, name, None, config)
            .await
            .unwrap();
    }
    conversation.engine.delete_agent(&conversation.namespace, "c").await.unwrap();
    let page = conversation.engine.agents(&conversation.namespace, None, 2).await.unwrap();
    let names: Vec<_> = page.items.iter().map(|agent| agent.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    let rest =
        conversation.engine.agents(&conversation.namespace, page.next.as_deref(), 2).await.unwrap();
    let names: Vec<_> = rest.items.iter().map(|agent| agent.name.as_str()).collect();
    assert_eq!((names, rest.next), (vec!["default"], None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_never_reaches_a_run_that_was_accepted_before() {
    let conversation = Conversation::new().await;
    let _worker = conversation.worker().await;
    let first = conversation.accept("chat", "hold on").await;
    conversation.mind.hold.entered().await;
    let queued = conversation.say(first.task, "queued", InputMode::Followup).await;
    let before =
        conversation.engine.agent(&conversation.namespace, "default").await.unwrap().revision;
    let prompt = change(json!({"system_prompt": "other"}));
    let after =
        conversation.engine.update_agent(&conversation.namespace, "default", prompt).await.unwrap();
    let later = conversation.say(first.task, "later", InputMode::Followup).await;
    conversation.mind.hold.open();
    conversation.wait(later.run).await;
    let revision = async |run| conversation.run(run).await.agent_revision;
    assert_eq!((revision(first.run).await, revision(queued.run).await), (before, before));
    assert_eq!(revision(later.run).await, after.revision, "a new run begins with the new one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_agent_leaves_its_tasks() {
    let conversation = Conversation::new().await;
    let config = AgentSpec::default_for("lead");
    conversation.engine.create_agent(&conversation.namespace, "lead", None, config).await.unwrap();
    let to_lead =
        |text: &str| TaskRequest { agent: Some("lead".to_owned()), ..command("chat", text) };
    let first =
        conversation.engine.submit(&conversation.namespace, to_lead("hello")).await.unwrap();
    conversation.engine.delete_agent(&conversation.namespace, "lead").await.unwrap();
    let _worker = conversation.worker().await;
    assert_eq!(text(&conversation.wait(first.run).await), "re: hello");
    let more = conversation.say(first.task, "more", InputMode::Followup).await;
    assert_eq!(text(&conversation.wait(more.run).await), "re: more");
    assert_eq!(conversation.task(first.task).await.agent, "lead");
    let new = TaskRequest { new_task: true, ..to_lead("new") };
    assert_eq!(
        conversation.engine.submit(&conversation.namespace, new).await.unwrap_err().code(),
        "not_found"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_keeps_the_resource_set_of_its_submission() {
    let conversation = Conversation::new().await;
    let (engine, namespace) = (&conversation.engine, &conversation.namespace);
    let document = |hash: &str| ResourceDocument { hash: hash.to_owned(), body: "{}".to_owned() };
    let submitted = async |session: &str| conversation.accept(session, "hi").await.run;
    let set_of = async |run| conversation.run(run).await.resource_set;
    let first = submitted("a").await;
    engine.apply_resources(document("one"), Vec::new()).await.unwrap();
    let second = submitted("b").await;
    engine.apply_resources(document("two"), Vec::new()).await.unwrap();
    assert_eq!((set_of(first).await, set_of(second).await), (None, Some("one".to_owned())));
    assert_eq!(set_of(submitted("c").await).await.as_deref(), Some("two"));
    engine.apply_resources(document("one"), Vec::new()).await.unwrap();
    assert_eq!(set_of(submitted("d").await).await.as_deref(), Some("one"), "it is current again");
    // An agent can have a set of its own, which does not become the current one.
    engine.store_resources(document("own")).await.unwrap();
    let own = AgentUpdate::from(change(json!({"resource_set": "own"})));
    let refused = engine.update_agent(namespace, "default", own.clone()).await.unwrap_err();
    assert_eq!(refused.code(), "operator_only");
    let own = AgentUpdate { by_operator: true, ..own };
    engine.update_agent(namespace, "default", own).await.unwrap();
    assert_eq!(set_of(submitted("e").await).await.as_deref(), Some("own"));
}
