//! Tests of the file store: changes of other writers, eviction of indexes, rejection of foreign files.

use std::sync::Arc;

use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::{MemoryService, NewMemory, conformance};
use provost_model::HashEmbedder;

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/memory.db");
    (folder, path)
}

fn memories(store: &SqliteMemoryStore) -> MemoryService {
    MemoryService::new(Arc::new(store.clone()), Arc::new(HashEmbedder::new(64)))
}

#[tokio::test]
async fn it_conforms() {
    let (_folder, path) = folder();
    conformance::all(|| Arc::new(SqliteMemoryStore::open(&path).unwrap())).await.unwrap();
}

#[tokio::test]
async fn an_index_follows_what_others_write() {
    let (_folder, path) = folder();
    let (mine, theirs) =
        (SqliteMemoryStore::open(&path).unwrap(), SqliteMemoryStore::open(&path).unwrap());
    let (mine, theirs) = (memories(&mine), memories(&theirs));
    let anna = Owner::new("anna").unwrap();
    let mut ids = Vec::new();
    for number in 0..50 {
        let new = NewMemory::new(format!("thing number{number}"));
        ids.push(theirs.add(&anna, new).await.unwrap());
        let found = mine.search(&anna, SearchQuery::text(format!("number{number}"))).await.unwrap();
        assert_eq!(found[0].memory.id, ids[number], "after each write");
    }
    for (number, id) in ids.iter().enumerate().step_by(3) {
        theirs.delete(&anna, &DeleteScope::Memory(*id)).await.unwrap();
        let query = SearchQuery { limit: 100, ..SearchQuery::text(format!("number{number}")) };
        let found = mine.search(&anna, query).await.unwrap();
        assert!(found.iter().all(|found| found.memory.id != *id), "after each forgetting");
    }
    assert_eq!(mine.count(&anna).await.unwrap(), 33);
}

#[tokio::test]
async fn indexes_are_let_go_when_there_are_too_many() {
    let (_folder, path) = folder();
    let options = SqliteOptions { index_bytes_max: 500, ..SqliteOptions::new(path) };
    let store = SqliteMemoryStore::open_with(options).unwrap();
    let memories = memories(&store);
    for round in 0..3 {
        for number in 0..20 {
            let owner = Owner::new(format!("owner {number}")).unwrap();
            if round == 0 {
                memories.add(&owner, NewMemory::new("something")).await.unwrap();
            }
            let found = memories.search(&owner, SearchQuery::text("something")).await.unwrap();
            assert_eq!(found.len(), 1);
            assert!(store.index_cache.owners() <= 6, "{}", store.index_cache.owners());
        }
    }
}

#[tokio::test]
async fn foreign_and_newer_files_are_refused_and_left_alone() {
    let (folder, path) = folder();
    drop(SqliteMemoryStore::open(&path).unwrap());
    Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    let newer = SqliteMemoryStore::open(&path).unwrap_err();
    assert!(matches!(&newer, MemoryError::CorruptFile(text) if text.contains("99")), "{newer}");
    let foreign = folder.path().join("foreign.db");
    Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    let refused = SqliteMemoryStore::open(&foreign).unwrap_err();
    assert!(matches!(refused, MemoryError::CorruptFile(_)), "{refused}");
    let text = folder.path().join("notes.txt");
    std::fs::write(&text, "not a database, but long enough to look like one ".repeat(50)).unwrap();
    let refused = SqliteMemoryStore::open(&text).unwrap_err();
    assert!(matches!(refused, MemoryError::CorruptFile(_)), "{refused}");
}

#[tokio::test]
async fn what_is_forgotten_is_not_in_the_file() {
    let (_folder, path) = folder();
    let store = SqliteMemoryStore::open(&path).unwrap();
    let memories = memories(&store);
    let anna = Owner::new("anna").unwrap();
    for number in 0..200 {
        let new = NewMemory::new(format!("the-secret-word is here {number}"));
        memories.add(&anna, new).await.unwrap();
    }
    memories.delete(&anna, &DeleteScope::Everything).await.unwrap();
    drop(memories);
    let checkpoint = Connection::open(&path).unwrap();
    checkpoint.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let secret = b"the-secret-word";
    assert!(!bytes.windows(secret.len()).any(|window| window == secret));
}

#[tokio::test]
async fn many_writers_at_once_lose_nothing() {
    let (_folder, path) = folder();
    let anna = Owner::new("anna").unwrap();
    let writers = (0..8).map(|writer| {
        let (store, anna) = (SqliteMemoryStore::open(&path).unwrap(), anna.clone());
        tokio::spawn(async move {
            let memories = memories(&store);
            for number in 0..5 {
                let new = NewMemory::new(format!("writer {writer} number {number}"));
                memories.add(&anna, new).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let store = SqliteMemoryStore::open(&path).unwrap();
    assert_eq!(store.count(&anna).await.unwrap(), 40);
}
