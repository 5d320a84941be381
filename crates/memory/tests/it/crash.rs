//! Kills a process at every failpoint of a job. The next process completes the job without loss or duplication.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use provost_core::{Env, Message, Timestamp};
use provost_memory::{
    Conversation, ExtractorOptions, ListRequest, MemoryExtractor, MemoryService, NewMemory, Owner,
    SqliteMemoryStore,
};
use provost_model::{HashEmbedder, ScriptedModel, text};
use provost_testkit::Process;
use serde_json::json;

/// Environment variable with the database file of a child process.
const FILE_VARIABLE: &str = "PROVOST_MEMORY_TEST_FILE";
/// Environment variable with the clock offset of a child process, in milliseconds.
const SHIFT_VARIABLE: &str = "PROVOST_MEMORY_TEST_SHIFT_MS";
/// The signal with which a failpoint kills the process.
const SIGKILL: i32 = 9;
/// Maximum duration of a child process.
const EXIT_TIMEOUT: Duration = Duration::from_secs(60);
/// Clock offset after which every lease and every retry delay has expired.
const HOURS_LATER_MS: i64 = 10 * 3600 * 1000;

/// The failpoints of a job, in order. The claim before the job also passes the `commit` failpoints.
const FAILPOINTS: [&str; 8] = [
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
    let texts = ["I moved from Berlin to Paris", "Noted", "And I like tea"];
    let message = |(at, text): (i64, &str)| {
        let message = if at == 1 { Message::assistant(text) } else { Message::user(text) };
        Arc::new(message.at(Timestamp::from_millis(at)))
    };
    let messages: Vec<_> = (0..).zip(texts).map(message).collect();
    Conversation::new("s-1", &messages)
}

fn owner() -> Owner {
    Owner::new("anna").unwrap()
}

fn memories(path: &Path, env: Env) -> MemoryService {
    let store = Arc::new(SqliteMemoryStore::open(path).unwrap());
    MemoryService::new(store, Arc::new(HashEmbedder::new(64))).env(env)
}

/// A model whose response depends only on the request, so that a repeated job gets the same responses.
fn model() -> ScriptedModel {
    ScriptedModel::from_fn(|request, _| {
        let prompt = request.messages[0].text();
        if prompt.contains("\"notes\"") {
            let id =
                prompt.split("\"memory_id\":\"").nth(1).and_then(|rest| rest.split('"').next());
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

/// Body of a child process: enqueues the conversation and runs jobs until the queue is empty.
#[tokio::test]
#[ignore = "started by the other test, in a process of its own"]
async fn work_until_nothing_is_left() {
    let Some(path) = std::env::var_os(FILE_VARIABLE).map(PathBuf::from) else { return };
    let shift = std::env::var(SHIFT_VARIABLE).unwrap().parse().unwrap();
    let memories = memories(&path, Env::with_clock_offset(shift));
    let options = ExtractorOptions { workers: 1, ..ExtractorOptions::default() };
    let extractor = MemoryExtractor::start(memories, Arc::new(model()), options);
    extractor.close().await;
    extractor.enqueue(&owner(), conversation()).await.unwrap();
    let report = extractor.flush().await.unwrap();
    assert_eq!(report.remaining, 0, "{report:?}");
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
    for failpoint in FAILPOINTS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory.db");
        let before = memories(&path, Env::system());
        before.add(&owner(), NewMemory::new("Lives in Berlin")).await.unwrap();
        let rule = match failpoint.split_once('@') {
            Some((name, hit)) => format!("{name}=kill@{hit}"),
            None => format!("{failpoint}=kill"),
        };
        let killed = start(&path, 0, &rule);
        let status = killed.wait(EXIT_TIMEOUT).await.unwrap();
        assert_eq!(status.signal(), Some(SIGKILL), "{failpoint}: {:?}", killed.lines());
        let next = start(&path, HOURS_LATER_MS, "");
        let status = next.wait(EXIT_TIMEOUT).await.unwrap();
        assert!(status.success(), "{failpoint}: {:?}", next.lines());
        check(&path, failpoint).await;
    }
}

async fn check(path: &Path, failpoint: &str) {
    let memories = memories(path, Env::system());
    let page = ListRequest { include_superseded: true, ..ListRequest::default() };
    let all = memories.list(&owner(), &page).await.unwrap().memories;
    let mut texts: Vec<_> =
        all.iter().map(|memory| (memory.text.as_str(), memory.superseded_by.is_some())).collect();
    texts.sort_unstable();
    let expected = [("Enjoys tea", false), ("Lives in Berlin", true), ("Lives in Paris", false)];
    assert_eq!(texts, expected, "{failpoint}");
    let store = memories.store();
    assert!(store.jobs(&owner()).await.unwrap().is_empty(), "{failpoint}");
    let again = store.enqueue(&owner(), conversation(), Timestamp::default()).await.unwrap();
    assert_eq!(again, None, "{failpoint}: everything was read");
}
