//! Values of the state that outlive a run.

use std::sync::Arc;

use provost_agent::hook::{Hook, HookError, StartDecision};
use provost_agent::{Agent, AgentBuilder, ApprovalMode, RunOutcome, Subagent};
use provost_core::{ErrorKind, EventKind, StateChange, StateScope};
use provost_model::{ScriptedModel, call, calls, text};
use provost_session::InMemorySessionStore;
use provost_session::shared_state::{
    InMemoryStateStore, StateError, StateFuture, StateOwners, StateStore,
};
use provost_tool::{FnTool, RequiresApproval, RunContext, ToolError, tool_fn};
use serde_json::{Map, Value, json};

use crate::support::{Say, events};

/// A tool that sets the value that `name=value` says; without a value it takes it away.
fn note() -> FnTool {
    tool_fn("note", "Remembers something", |cx, args: Say| async move {
        let state = cx.state().clone();
        match args.text.split_once('=') {
            Some((name, value)) => {
                state.set(name, value).map_err(|error| ToolError::failed(error.to_string()))?;
            }
            None => drop(state.remove(&args.text)),
        }
        Ok::<_, ToolError>("noted".to_owned())
    })
    .unwrap()
}

/// An agent that notes these things one after the other and then answers, again and again.
fn noting(store: &Arc<InMemoryStateStore>, notes: &'static [&'static str]) -> AgentBuilder {
    let model = ScriptedModel::from_fn(move |_, turn| match notes.get(turn % (notes.len() + 1)) {
        Some(note) => call("note", json!({ "text": note })),
        None => text("done"),
    });
    Agent::builder("noting", model).tool(note()).shared_state(Kept(Arc::clone(store)))
}

/// The store that the test keeps, too.
struct Kept(Arc<InMemoryStateStore>);

impl StateStore for Kept {
    fn load<'a>(&'a self, owners: &'a StateOwners) -> StateFuture<'a, Map<String, Value>> {
        self.0.load(owners)
    }
    fn commit<'a>(
        &'a self,
        owners: &'a StateOwners,
        changes: &'a [StateChange],
    ) -> StateFuture<'a, ()> {
        self.0.commit(owners, changes)
    }
    fn delete_owner<'a>(&'a self, scope: StateScope, owner: &'a str) -> StateFuture<'a, u64> {
        self.0.delete_owner(scope, owner)
    }
}

async fn stored(store: &InMemoryStateStore, session: &str, user: &str) -> Value {
    let owners = StateOwners { session: Some(session.into()), user: Some(user.into()) };
    Value::Object(store.load(&owners).await.unwrap())
}

#[tokio::test]
async fn each_value_lives_as_long_as_its_name_says() {
    let store = Arc::new(InMemoryStateStore::new());
    let notes = &["own=1", "session:topic=tea", "user:language=de", "app:notice=hello"];
    let agent = noting(&store, notes).session_store(InMemorySessionStore::new()).build().unwrap();
    let first = agent.run("go").session("s").user("ada").await.unwrap();
    assert_eq!(first.state["own"], "1");

    let shown = "{{ session.topic | default('-') }} {{ user.language | default('-') }} {{ app.notice }} {{ own | default('-') }}";
    let reader = noting(&store, &[]).instructions(shown).session_store(InMemorySessionStore::new());
    let reader = reader.build().unwrap();
    let seen = async |session: &str, user: &str| {
        let preview = reader.run("hi").session(session).user(user).preview().await.unwrap();
        preview.system.unwrap().to_string()
    };
    assert_eq!(seen("s", "ada").await, "tea de hello -");
    assert_eq!(seen("s", "bob").await, "tea - hello -");
    assert_eq!(seen("t", "ada").await, "- de hello -");
}

#[tokio::test]
async fn a_change_is_stored_after_its_round_and_told_once() {
    let store = Arc::new(InMemoryStateStore::new());
    let model = ScriptedModel::from_fn(move |_, turn| match turn {
        0 => calls([("note", json!({"text": "user:a=1"})), ("note", json!({"text": "user:b=2"}))]),
        1 => call("note", json!({"text": "user:a"})),
        _ => text("done"),
    });
    let agent = Agent::builder("a", model).tool(note()).shared_state(Kept(Arc::clone(&store)));
    let agent = agent.build().unwrap();
    let all = events(agent.run("go").user("ada").stream()).await;
    let told: Vec<_> = all
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::StateChanged { changes } => Some(json!(changes)),
            _ => None,
        })
        .collect();
    assert_eq!(
        told,
        [
            json!([{"name": "user:a", "value": "1"}, {"name": "user:b", "value": "2"}]),
            json!([{"name": "user:a", "value": null}]),
        ]
    );
    assert_eq!(stored(&store, "", "ada").await, json!({"user:b": "2"}));
}

#[tokio::test]
async fn given_wins_over_stored_and_stored_over_the_agents_own() {
    let store = Arc::new(InMemoryStateStore::new());
    let agent = noting(&store, &[])
        .instructions("{{ user.a }} {{ user.b }}")
        .state("user:a", "default")
        .state("user:b", "default")
        .build()
        .unwrap();
    let seen = async || {
        let preview = agent.run("hi").user("ada").preview().await.unwrap();
        preview.system.unwrap().to_string()
    };
    assert_eq!(seen().await, "default default");
    agent.run("hi").user("ada").await.unwrap();
    assert_eq!(stored(&store, "", "ada").await, json!({}), "a default is not stored");
    agent.run("hi").user("ada").state("user:a", "given").await.unwrap();
    assert_eq!(seen().await, "given default");
}

#[tokio::test]
async fn a_scope_that_a_run_does_not_have_is_refused_where_it_is_used() {
    let store = Arc::new(InMemoryStateStore::new());
    let agent = noting(&store, &["user:a=1"]).build().unwrap();
    let result = agent.run("go").await.unwrap();
    let told = result.tool_results[0].to_text();
    assert!(told.contains("need a user"), "{told}");
    let error = agent.run("go").state("session:a", 1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("a session"), "{error}");
}

struct Greets;

#[async_trait::async_trait]
impl Hook for Greets {
    async fn before_agent(
        &self,
        cx: &RunContext,
        _input: &str,
    ) -> Result<StartDecision, HookError> {
        let visits: u32 = cx.state.get("user:visits").unwrap_or(0);
        cx.state.set("user:visits", visits + 1).map_err(|error| HookError(error.to_string()))?;
        Ok(StartDecision::Continue)
    }
}

#[tokio::test]
async fn hooks_see_what_is_stored_and_what_they_set_is_kept() {
    let store = Arc::new(InMemoryStateStore::new());
    let agent = noting(&store, &[]).hook(Greets).build().unwrap();
    for _ in 0..3 {
        agent.run("hi").user("ada").await.unwrap();
    }
    assert_eq!(stored(&store, "", "ada").await, json!({"user:visits": 3}));
}

#[tokio::test]
async fn a_run_that_waits_for_a_person_keeps_its_changes_and_comes_back_to_what_is_stored_then() {
    let store = Arc::new(InMemoryStateStore::new());
    let model = ScriptedModel::from_fn(|_, turn| match turn {
        0 => call("note", json!({"text": "user:a=mine"})),
        1 => call("risky", json!({})),
        _ => text("done"),
    });
    let risky = tool_fn("risky", "Needs a person", |cx, _: Say| async move {
        Ok::<_, ToolError>(cx.state().get::<String>("user:a").unwrap_or_default())
    });
    let risky = risky.unwrap().with_spec(|spec| spec.approval(RequiresApproval::Always));
    let agent = Agent::builder("a", model).tool(note()).tool(risky);
    let agent = agent.approvals(ApprovalMode::Suspend).shared_state(Kept(Arc::clone(&store)));
    let agent = agent.build().unwrap();
    let outcome = agent.run("go").user("ada").outcome().await.unwrap();
    let RunOutcome::Suspended(suspended) = outcome else { panic!("{outcome:?}") };
    assert_eq!(stored(&store, "", "ada").await, json!({"user:a": "mine"}));

    let theirs = [StateChange { name: "user:a".into(), value: Some(json!("theirs")) }];
    let owners = StateOwners { session: None, user: Some("ada".into()) };
    store.commit(&owners, &theirs).await.unwrap();
    let result = agent.resume(suspended.approve_all()).user("ada").await.unwrap();
    assert_eq!(result.tool_results.last().unwrap().to_text(), "theirs");
    assert_eq!(stored(&store, "", "ada").await, json!({"user:a": "theirs"}));
}

#[tokio::test]
async fn a_run_below_is_for_the_same_user() {
    let store = Arc::new(InMemoryStateStore::new());
    let below = ScriptedModel::new()
        .turn(call("note", json!({"text": "user:a=below"})))
        .turn(call("note", json!({"text": "session:a=below"})))
        .turn(text("ok"));
    let child = Agent::builder("child", below.clone()).tool(note()).build().unwrap();
    let above =
        ScriptedModel::new().turn(call("child", json!({"task": "note it"}))).turn(text("done"));
    let lead = Agent::builder("lead", above).subagent(Subagent::new(&child, "Notes"));
    let lead =
        lead.session_store(InMemorySessionStore::new()).shared_state(Kept(Arc::clone(&store)));
    lead.build().unwrap().run("go").session("s").user("ada").await.unwrap();
    assert_eq!(stored(&store, "s", "ada").await, json!({"user:a": "below"}));
    let refused = below.request(2).last_tool_result().unwrap().to_text();
    assert!(refused.contains("a session"), "its conversation is not stored: {refused}");
}

/// Does not work.
struct Broken;

fn broken<'a, T: Send + 'a>() -> StateFuture<'a, T> {
    let error = StateError { message: "the disk is gone".into(), source: None };
    Box::pin(std::future::ready(Err(error)))
}

impl StateStore for Broken {
    fn load<'a>(&'a self, _: &'a StateOwners) -> StateFuture<'a, Map<String, Value>> {
        broken()
    }
    fn commit<'a>(&'a self, _: &'a StateOwners, _: &'a [StateChange]) -> StateFuture<'a, ()> {
        broken()
    }
    fn delete_owner<'a>(&'a self, _: StateScope, _: &'a str) -> StateFuture<'a, u64> {
        broken()
    }
}

#[tokio::test]
async fn a_store_that_does_not_work_stops_the_run_before_the_model_is_asked() {
    let model = ScriptedModel::from_fn(|_, _| text("never"));
    let agent = Agent::builder("a", model.clone()).shared_state(Broken).build().unwrap();
    let error = agent.run("hi").await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Unavailable, "state"));
    assert!(model.requests().is_empty());
}
