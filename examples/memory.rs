//! Memory: a fact from one conversation is known in a later one. Runs offline.

use std::sync::Arc;

use provost::Agent;
use provost::model::HashEmbedder;
use provost::session::{InMemorySessionStore, SessionStore};
use provost::testing::ScriptedModel;
use provost_memory::{
    DeleteScope, ExtractorOptions, ListRequest, MemoryExtractor, MemoryHook, MemoryService, Owner,
    OwnerSource, SqliteMemoryStore, memory_tools,
};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::temp_dir().join(format!("provost-memory-{}", std::process::id()));
    let store = Arc::new(SqliteMemoryStore::open(directory.join("memory.db"))?);
    let memories = MemoryService::new(store, Arc::new(HashEmbedder::new(256)));

    // The model that extracts facts from conversations, here a scripted one.
    let facts = json!({ "facts": [
        { "text": "Anna is allergic to nuts", "category": "health", "messages": [1] },
    ] });
    let reader = ScriptedModel::new().text(facts.to_string()).text(r#"{"facts":[]}"#);
    let extractor =
        MemoryExtractor::start(memories.clone(), Arc::new(reader), ExtractorOptions::default());

    let model = ScriptedModel::new()
        .text("I will remember that.")
        .text("Not the walnut cake: you are allergic to nuts.");
    let sessions: Arc<dyn SessionStore> = Arc::new(InMemorySessionStore::default());
    let agent = Agent::builder("waiter", model.clone())
        .instructions("You recommend cake.")
        .hook(MemoryHook::new(memories.clone()).extractor(extractor.clone()))
        .toolset(memory_tools(&memories, OwnerSource::Run)?)
        .build()?;
    let anna = Owner::new("anna")?;

    let monday = agent.run("I am Anna, and I am allergic to nuts.");
    monday.dep(anna.clone()).session_in(Arc::clone(&sessions), "monday").await?;
    extractor.idle().await?;
    for memory in memories.list(&anna, &ListRequest::default()).await?.memories {
        println!("remembered: {} (from {})", memory.text, memory.sources[0].session);
    }

    let friday = agent.run("Which cake may I eat, with my nuts problem?");
    let answer = friday.dep(anna.clone()).session_in(sessions, "friday").await?;
    println!("message to the model:\n{}", model.request(1).messages[0].text());
    println!("answer: {}", answer.output);

    extractor.flush().await?;
    extractor.close().await;
    let gone = memories.delete(&anna, &DeleteScope::Session("monday".into())).await?;
    println!("memories deleted with their conversation: {gone}");
    assert_eq!(memories.count(&anna).await?, 0);
    std::fs::remove_dir_all(directory)?;
    Ok(())
}
