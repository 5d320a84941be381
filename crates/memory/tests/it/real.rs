//! Search with a real embedding model; see `scripts/conformance embeddings`.

use std::sync::Arc;

use provost_memory::{MemoryService, NewMemory, Owner, SearchQuery, SqliteMemoryStore};
use provost_provider::openai_embeddings;

/// Environment variable with the address of an OpenAI-compatible embeddings server.
const URL_VARIABLE: &str = "PROVOST_REAL_EMBEDDINGS_URL";
/// Number of dimensions of all-MiniLM-L6-v2.
const DIMENSIONS: usize = 384;

/// Questions, each with the memory that answers it in different words.
const PAIRS: [(&str, &str); 6] = [
    ("What pet does she have at home?", "A small kitten lives with Anna since last spring"),
    ("Which food must be avoided for her?", "Anna is severely allergic to peanuts"),
    ("How does she travel to the office?", "Anna rides her bicycle to work every morning"),
    ("When is her birthday?", "Anna was born on the third of May 1990"),
    ("What is her profession?", "Anna earns her living as a pastry chef"),
    ("Which instrument can she play?", "Anna took piano lessons for ten years"),
];

/// Memories that answer none of the questions.
const OTHERS: [&str; 6] = [
    "The quarterly revenue report is due on Friday",
    "Her router was replaced after a thunderstorm",
    "She prefers short answers without emojis",
    "The invoice of the plumber was paid in March",
    "Her favourite colour is dark green",
    "The train to Lyon was two hours late",
];

#[tokio::test]
#[ignore = "needs a real embedding model: run scripts/conformance embeddings"]
async fn real_embeddings_rank_the_known_pair_first() {
    let url = std::env::var(URL_VARIABLE).expect("scripts/conformance embeddings sets it");
    let embedder = openai_embeddings("local", url, "all-MiniLM-L6-v2", DIMENSIONS).build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteMemoryStore::open(folder.path().join("memory.db")).unwrap();
    let memories = MemoryService::new(Arc::new(store), Arc::new(embedder));
    let anna = Owner::new("anna").unwrap();
    let texts = PAIRS.iter().map(|(_, answer)| *answer).chain(OTHERS);
    memories.add_all(&anna, texts.map(NewMemory::new).collect()).await.unwrap();
    for (question, answer) in PAIRS {
        let found = memories.search(&anna, SearchQuery::text(question)).await.unwrap();
        let first = &found[0];
        eprintln!("{:.3} {question} -> {}", first.score, first.memory.text);
        assert_eq!(first.memory.text, answer, "{question}: {found:#?}");
    }
    assert!(memories.usage().input > 0, "the server says what it used");
}
