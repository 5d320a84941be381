//! Memory: one conversation tells something, another one knows it. Works offline.

use std::sync::Arc;

use provost::Agent;
use provost::session::{MemorySessions, SessionStore};
use provost::testing::{ScriptedModel, text};
use provost_memory::{
    Forget, KeeperOptions, Memories, MemoryHook, MemoryKeeper, Owner, OwnerOf, Page,
    SqliteMemoryStore, memory_tools,
};
use provost_model::HashEmbedder;
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("provost-memory-{}", std::process::id()));
    let store = Arc::new(SqliteMemoryStore::open(folder.join("memory.db"))?);
    let memories = Memories::new(store, Arc::new(HashEmbedder::new(256)));

    // The model that reads conversations; here it plays a script.
    let facts = json!({ "facts": [
        { "text": "Anna is allergic to nuts", "category": "health", "messages": [1] },
    ] });
    let reader = ScriptedModel::new().turn(text(facts.to_string())).turn(text(r#"{"facts":[]}"#));
    let keeper = MemoryKeeper::start(memories.clone(), Arc::new(reader), KeeperOptions::default());

    let model = ScriptedModel::new()
        .turn(text("I will remember that."))
        .turn(text("Not the walnut cake: you are allergic to nuts."));
    let sessions: Arc<dyn SessionStore> = Arc::new(MemorySessions::default());
    let agent = Agent::builder("waiter", model.clone())
        .instructions("You recommend cake.")
        .hook(MemoryHook::new(memories.clone()).keeper(keeper.clone()))
        .toolset(memory_tools(&memories, OwnerOf::Run)?)
        .build()?;
    let anna = Owner::new("anna")?;

    let monday = agent.run("I am Anna, and I am allergic to nuts.");
    monday.dep(anna.clone()).session(Arc::clone(&sessions), "monday").await?;
    keeper.idle().await?;
    for memory in memories.list(&anna, &Page::default()).await?.memories {
        println!("remembered: {} (from {})", memory.text, memory.sources[0].session);
    }

    let friday = agent.run("Which cake may I eat, with my nuts problem?");
    let answer = friday.dep(anna.clone()).session(sessions, "friday").await?;
    println!("the model was shown:\n{}", model.request(1).messages[0].text());
    println!("answer: {}", answer.output);

    keeper.flush().await?;
    keeper.close().await;
    let gone = memories.forget(&anna, &Forget::Session("monday".into())).await?;
    println!("forgotten with the conversation it came from: {gone}");
    assert_eq!(memories.count(&anna).await?, 0);
    std::fs::remove_dir_all(folder)?;
    Ok(())
}
