//! Every call has an id of its own, whatever the provider says: results and effects hang on it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use provost_agent::Agent;
use provost_agent::context::{ContextConfig, Truncate};
use provost_core::{EventKind, Message};
use provost_model::{
    ChatModel, ChatRequest, ModelEvent, ModelInfo, ModelStream, ScriptedModel, ScriptedTurn, text,
};
use provost_session::InMemorySessionStore;
use provost_tool::{FnTool, ToolContext, ToolError, tool_fn};

use crate::support::{Say, assert_well_formed, events, stored};

/// A provider that gives its calls no ids, or always the same.
#[derive(Clone)]
struct Renamed {
    inner: ScriptedModel,
    id: &'static str,
}

impl ChatModel for Renamed {
    fn info(&self) -> &ModelInfo {
        self.inner.info()
    }

    fn stream(&self, request: ChatRequest) -> ModelStream {
        let id = self.id;
        Box::pin(self.inner.stream(request).map(move |event| {
            event.map(|event| match event {
                ModelEvent::ToolCallStart { index, name, .. } => {
                    ModelEvent::ToolCallStart { index, id: id.to_owned(), name }
                }
                other => other,
            })
        }))
    }
}

type Keys = Arc<Mutex<Vec<String>>>;

/// A tool that keeps the keys of its effects.
fn pay(keys: &Keys) -> FnTool {
    let keys = Arc::clone(keys);
    tool_fn("pay", "Pays", move |cx: ToolContext, args: Say| {
        keys.lock().unwrap().push(cx.effect_key().to_string());
        async move { Ok::<_, ToolError>(format!("paid {}", args.text)) }
    })
    .unwrap()
}

/// Two turns of two calls, then an answer.
fn paying(id: &'static str) -> Renamed {
    let both = || ScriptedTurn::default().raw_call("", "pay", "{}").raw_call("", "pay", "{}");
    let inner = ScriptedModel::from_fn(move |_, index| match index % 3 {
        2 => text("done"),
        _ => both(),
    });
    Renamed { inner, id }
}

fn ids(messages: &[Arc<Message>]) -> Vec<String> {
    messages.iter().flat_map(|message| message.tool_calls()).map(|call| call.id.clone()).collect()
}

fn assert_distinct(values: &[String], count: usize) {
    let distinct: HashSet<&String> = values.iter().collect();
    assert_eq!((values.len(), distinct.len()), (count, count), "{values:?}");
    assert!(values.iter().all(|value| !value.is_empty()));
}

#[tokio::test]
async fn every_call_of_a_session_has_its_own_id() {
    for id in ["", "functions.pay:0"] {
        let (keys, store) = (Keys::default(), InMemorySessionStore::new());
        let model = paying(id);
        let agent = Agent::builder("tester", model.clone()).tool(pay(&keys));
        let agent = agent.session_store(store.clone()).build().unwrap();
        for _ in 0..2 {
            agent.run("pay all").session("s").await.unwrap();
        }
        let messages = stored(&store, "s").await;
        assert_distinct(&ids(&messages), 8);
        assert_distinct(&keys.lock().unwrap(), 8);
        assert_well_formed(&messages);
        model.inner.requests().iter().for_each(|request| assert_well_formed(&request.messages));
    }
}

#[tokio::test]
async fn ids_that_are_good_stay_as_they_are() {
    let keys = Keys::default();
    let turn = |id| ScriptedTurn::default().raw_call(id, "pay", "{}");
    let model = ScriptedModel::new().turn(turn("a")).turn(turn("b")).turn(turn("a"));
    let agent = Agent::builder("tester", model.turn(text("done"))).tool(pay(&keys)).build();
    let result = agent.unwrap().run("hi").await.unwrap();
    let ids = ids(&result.messages);
    assert_eq!(ids[..2], ["a", "b"]);
    assert_distinct(&ids, 3);
}

#[tokio::test]
async fn an_id_is_not_used_again_when_its_call_has_left_the_context() {
    let keys = Keys::default();
    let words = format!(r#"{{"text": "{}"}}"#, "word ".repeat(100));
    let turns = 8;
    let inner = ScriptedModel::from_fn(move |_, index| match index {
        _ if index < turns => ScriptedTurn::default().raw_call("", "pay", words.as_str()),
        _ => text("done"),
    });
    let model = Renamed { inner: inner.clone(), id: "functions.pay:0" };
    let agent = Agent::builder("tester", model)
        .tool(pay(&keys))
        .context(ContextConfig::new(Truncate::new()).max_tokens(1_000));
    let agent = agent.build().unwrap();
    let result = agent.run("hi").await.unwrap();
    assert!(inner.request(turns).messages.len() < 2 * turns, "something was left out");
    assert_distinct(&keys.lock().unwrap(), turns);
    assert_distinct(&ids(&result.messages), turns);
}

#[tokio::test]
async fn every_call_is_announced_under_its_own_id() {
    for id in ["", "functions.pay:0"] {
        let agent = Agent::builder("tester", paying(id)).tool(pay(&Keys::default()));
        let events = events(agent.build().unwrap().run("hi").stream()).await;
        let (mut begun, mut ready, mut finished) = (HashSet::new(), Vec::new(), Vec::new());
        for event in &events {
            match &event.kind {
                EventKind::ToolCallStarted { call_id, .. } => {
                    begun.insert(call_id.clone());
                }
                EventKind::ToolCallReady { call } => {
                    assert!(begun.contains(&call.id), "{id}: {call:?}");
                    ready.push(call.id.clone());
                }
                EventKind::ToolFinished { result, .. } => finished.push(result.call_id.clone()),
                _ => {}
            }
        }
        assert_distinct(&ready, 4);
        assert_eq!(ready, finished);
    }
}
