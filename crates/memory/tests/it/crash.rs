//! A process is killed at every place of a job; the next one does the job, and nothing is lost or doubled.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use provost_core::{Env, Message, Timestamp};
use provost_memory::{
    Conversation, KeeperOptions, Memories, MemoryKeeper, NewMemory, Owner, Page, SqliteMemoryStore,
};
use provost_model::{HashEmbedder, ScriptedModel, text};
use provost_testkit::Process;
use serde_json::json;

/// The variable that tells a process of this test which file it works on.
const FILE_VARIABLE: &str = "PROVOST_MEMORY_TEST_FILE";
/// The variable that tells it how far its clock is ahead.
const SHIFT_VARIABLE: &str = "PROVOST_MEMORY_TEST_SHIFT_MS";
/// The signal that a failpoint ends the process with.
const SIGKILL: i32 = 9;
/// Long enough for any process of this test.
const PATIENCE: Duration = Duration::from_secs(60);
/// Later than every lease and every wait before another try.
const HOURS_LATER_MS: i64 = 10 * 3600 * 1000;

/// Every place that a job passes, in order. `commit` is also passed by the claim before it.
const PLACES: [&str; 8] = [
    "memory.commit.after",
    "memory.commit.before@2",
    "memory.job.claimed",
    "memory.job.extracted",
    "memory.job.decided",
    "memory.apply.middle",
    "memory.commit.before@3",
    "memory.job.applied",
];

fn conversation() -> Conversation {
    let said = ["I moved from Berlin to Paris", "Noted", "And I like tea"];
    let message = |(at, text): (i64, &str)| {
        let message = if at == 1 { Message::assistant(text) } else { Message::user(text) };
        Arc::new(message.at(Timestamp::from_millis(at)))
    };
    let messages: Vec<_> = (0..).zip(said).map(message).collect();
    Conversation::new("s-1", &messages)
}

fn owner() -> Owner {
    Owner::new("anna").unwrap()
}

fn memories(path: &Path, env: Env) -> Memories {
    let store = Arc::new(SqliteMemoryStore::open(path).unwrap());
    Memories::new(store, Arc::new(HashEmbedder::new(64))).env(env)
}

/// A model that answers by what it is asked, so that a repeated job gets the same answers.
fn model() -> ScriptedModel {
    ScriptedModel::answering(|request, _| {
        let asked = request.messages[0].text();
        if asked.contains("\"notes\"") {
            let id = asked.split("\"memory_id\":\"").nth(1).and_then(|rest| rest.split('"').next());
            let decision =
                json!({ "fact": 1, "event": "SUPERSEDE", "memory_id": id, "text": null });
            return text(json!({ "decisions": [decision] }).to_string());
        }
        text(
            json!({ "facts": [
                { "text": "Lives in Paris", "category": "personal", "messages": [1] },
                { "text": "Enjoys tea", "category": "preference", "messages": [3] },
            ] })
            .to_string(),
        )
    })
}

/// What a process of this test does: it hands the conversation in and works until nothing is left.
#[tokio::test]
#[ignore = "started by the other test, in a process of its own"]
async fn work_until_nothing_is_left() {
    let Some(path) = std::env::var_os(FILE_VARIABLE).map(PathBuf::from) else { return };
    let shift = std::env::var(SHIFT_VARIABLE).unwrap().parse().unwrap();
    let memories = memories(&path, Env::with_clock_offset(shift));
    let options = KeeperOptions { workers: 1, ..KeeperOptions::default() };
    let keeper = MemoryKeeper::start(memories, Arc::new(model()), options);
    keeper.close().await;
    keeper.remember(&owner(), conversation()).await.unwrap();
    let flushed = keeper.flush().await.unwrap();
    assert_eq!(flushed.left, 0, "{flushed:?}");
}

fn start(path: &Path, shift_ms: i64, rules: &str) -> Process {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["crash::work_until_nothing_is_left", "--exact", "--ignored", "--nocapture"])
        .env(FILE_VARIABLE, path)
        .env(SHIFT_VARIABLE, shift_ms.to_string())
        .env("PROVOST_FAILPOINTS", rules);
    Process::start(command).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_at_any_place_neither_loses_nor_doubles() {
    for place in PLACES {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory.db");
        let before = memories(&path, Env::system());
        before.add(&owner(), NewMemory::new("Lives in Berlin")).await.unwrap();
        let rule = match place.split_once('@') {
            Some((name, hit)) => format!("{name}=kill@{hit}"),
            None => format!("{place}=kill"),
        };
        let killed = start(&path, 0, &rule);
        let status = killed.wait(PATIENCE).await.unwrap();
        assert_eq!(status.signal(), Some(SIGKILL), "{place}: {:?}", killed.lines());
        let next = start(&path, HOURS_LATER_MS, "");
        let status = next.wait(PATIENCE).await.unwrap();
        assert!(status.success(), "{place}: {:?}", next.lines());
        check(&path, place).await;
    }
}

async fn check(path: &Path, place: &str) {
    let memories = memories(path, Env::system());
    let page = Page { history: true, ..Page::default() };
    let all = memories.list(&owner(), &page).await.unwrap().memories;
    let mut texts: Vec<_> =
        all.iter().map(|memory| (memory.text.as_str(), memory.superseded_by.is_some())).collect();
    texts.sort_unstable();
    let expected = [("Enjoys tea", false), ("Lives in Berlin", true), ("Lives in Paris", false)];
    assert_eq!(texts, expected, "{place}");
    let store = memories.store();
    assert!(store.jobs(&owner()).await.unwrap().is_empty(), "{place}");
    let again = store.enqueue(&owner(), conversation(), Timestamp::default()).await.unwrap();
    assert_eq!(again, None, "{place}: everything was read");
}
