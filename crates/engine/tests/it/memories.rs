//! What an agent remembers of people, under the engine: a conversation tells something, another one knows it, and a kill in
//! between neither loses nor doubles it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use provost_agent::Agent;
use provost_core::Env;
use provost_core::id::name::Namespace;
use provost_engine::{Engine, EngineDeps, EngineError, Lease, Worker};
use provost_memory::{
    ExtractorOptions, ListRequest, MemoryExtractor, MemoryHook, MemoryService, Owner,
    SqliteMemoryStore,
};
use provost_model::{HashEmbedder, ScriptedModel, text as says};
use provost_store::{Store, StoreOptions};
use provost_tool::GuardServices;
use serde_json::json;

use crate::harness::{command, options, text};
use crate::worker_crash;

/// Everything of one process.
struct Node {
    engine: Engine,
    extractor: MemoryExtractor,
    memories: MemoryService,
    _worker: Worker,
}

/// An engine on a directory whose agent remembers what it is told, and says what it was shown.
async fn open(dir: &Path) -> Node {
    let store = Arc::new(SqliteMemoryStore::open(dir.join("memory.db")).unwrap());
    let memories = MemoryService::new(store, Arc::new(HashEmbedder::new(256)));
    let facts = json!({ "facts": [
        { "text": "Anna is allergic to nuts", "category": "health", "messages": [1] },
    ] });
    let reader = ScriptedModel::from_fn(move |request, _| {
        let said: String = request.messages.iter().map(|message| message.text()).collect();
        match said.contains("I am allergic") {
            true => says(facts.to_string()),
            false => says(r#"{"facts":[]}"#),
        }
    });
    let extractor =
        MemoryExtractor::start(memories.clone(), Arc::new(reader), ExtractorOptions::default());
    let hook = MemoryHook::new(memories.clone()).extractor(extractor.clone());
    let hook = hook.owner(Owner::new("anna").unwrap());
    let agents = move |_: &provost_engine::AgentRevision, _: &Lease| {
        let model = ScriptedModel::from_fn(|request, _| {
            let shown: Vec<String> =
                request.messages.iter().map(|message| message.text()).collect();
            says(shown.join("\n"))
        });
        Ok::<_, EngineError>(Agent::builder("default", model).hook(hook.clone()).build().unwrap())
    };
    let store = Store::open(StoreOptions::for_test(dir)).unwrap();
    let engine = Engine::new(
        EngineDeps::new(store, agents, GuardServices::default(), Env::system()),
        options(),
    );
    engine.put_agent(&Namespace::default(), "default", None, Default::default()).await.unwrap();
    let worker = engine.start().await.unwrap();
    Node { engine, extractor, memories, _worker: worker }
}

const TOLD: &str = "I am Anna and I am allergic to nuts.";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by another test in a process of its own"]
async fn node_that_remembers() {
    let Some(dir) = worker_crash::dir() else { return };
    let node = open(&dir).await;
    let accepted = node.engine.submit(&Namespace::default(), command("monday", TOLD)).await;
    node.engine.runs().wait(&Namespace::default(), accepted.unwrap().run).await.unwrap();
    node.extractor.idle().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_told_before_a_kill_is_remembered_once() {
    for place in ["model.answered", "attempt.before_settle", "run.ended"] {
        let dir = tempfile::tempdir().unwrap();
        worker_crash::killed_at("node_that_remembers", dir.path(), place).await;
        let node = open(dir.path()).await;
        let namespace = Namespace::default();
        let again = node.engine.submit(&namespace, command("tuesday", "How are you?")).await;
        let first = tokio::time::timeout(
            Duration::from_secs(30),
            node.engine.runs().wait(&namespace, again.unwrap().run),
        );
        first.await.expect("it ends").unwrap();
        // Whatever was under way when the process died comes to its end, too.
        let monday = node.engine.submit(&namespace, command("monday", "And now?")).await.unwrap();
        node.engine.runs().wait(&namespace, monday.run).await.unwrap();
        node.extractor.idle().await.unwrap();
        let anna = Owner::new("anna").unwrap();
        let known = node.memories.list(&anna, &ListRequest::default()).await.unwrap().memories;
        let texts: Vec<&str> = known.iter().map(|memory| memory.text.as_str()).collect();
        assert_eq!(texts, ["Anna is allergic to nuts"], "{place}");
        let friday = command("friday", "Which cake for somebody allergic to nuts?");
        let friday = node.engine.submit(&namespace, friday).await.unwrap();
        let answer = text(&node.engine.runs().wait(&namespace, friday.run).await.unwrap());
        assert!(answer.contains("Anna is allergic to nuts"), "{place}: {answer}");
        node.extractor.close().await;
    }
}
