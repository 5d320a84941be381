use std::time::Duration;

use provost_core::ToolCall;
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::session::conformance;

mod damage;
#[cfg(unix)]
mod modes;

const ID: &str = "chat";

fn opened() -> (TempDir, FileSessions, PathBuf) {
    let dir = TempDir::new().unwrap();
    let store = FileSessions::open(dir.path()).unwrap();
    let file = dir.path().join(name::encode(ID));
    (dir, store, file)
}

fn change(base: u64, pop: usize, texts: &[&str]) -> Change {
    let add = texts.iter().map(|text| Arc::new(Message::user(*text))).collect();
    Change { base, pop, add }
}

async fn texts(store: &FileSessions) -> Vec<String> {
    let transcript = store.load(ID).await.unwrap().unwrap();
    transcript.messages.iter().map(|m| m.text()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s219_s220_file_sessions_conform() {
    let dir = TempDir::new().unwrap();
    conformance::all(|| Arc::new(FileSessions::open(dir.path()).unwrap())).await.unwrap();
    let outside: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != LOCKS_DIR && name::decode(name).is_none())
        .collect();
    assert_eq!(outside, Vec::<String>::new(), "nothing but sessions is left");
}

#[tokio::test]
async fn listing_is_newest_first() {
    let (dir, env) = (TempDir::new().unwrap(), Env::simulated(1));
    let store = FileSessions::open_with(dir.path(), env.clone()).unwrap();
    conformance::listing_is_newest_first(&store, || env.advance(Duration::from_secs(1)))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_crash_at_any_byte_of_a_commit_leaves_the_state_before_or_after_it() {
    let (_dir, store, file) = opened();
    store.commit(ID, change(0, 0, &["one", "zwei – 二"])).await.unwrap();
    let before_bytes = fs::read(&file).unwrap();
    let before = store.load(ID).await.unwrap();
    let call = ToolCall::new("c1", "add", &json!({"a": 1}));
    let mut last = change(1, 1, &["drei\n三"]);
    last.add.push(Arc::new(Message::calls([call])));
    store.commit(ID, last).await.unwrap();
    let after_bytes = fs::read(&file).unwrap();
    let after = store.load(ID).await.unwrap();
    for len in before_bytes.len()..=after_bytes.len() {
        fs::write(&file, &after_bytes[..len]).unwrap();
        let expected = if len == after_bytes.len() { &after } else { &before };
        assert_eq!(&store.load(ID).await.unwrap(), expected, "cut at {len}");
        assert_eq!(store.list().await.unwrap().len(), 1, "cut at {len}");
        // The next commit builds on what was read, and cuts the torn line off.
        let base = expected.as_ref().unwrap().revision;
        store.commit(ID, change(base, 0, &["next"])).await.unwrap();
        let next = store.load(ID).await.unwrap().unwrap();
        assert_eq!(next.revision, base + 1);
        assert_eq!(next.messages.last().unwrap().text(), "next");
    }
    assert!(!torn_file(&file, 1).exists(), "half a line is worth nothing");
}

#[tokio::test]
async fn a_crash_at_any_byte_of_the_first_commit_leaves_no_session() {
    let (_dir, store, file) = opened();
    store.commit(ID, change(0, 0, &["one"])).await.unwrap();
    let bytes = fs::read(&file).unwrap();
    for len in 0..bytes.len() {
        fs::write(&file, &bytes[..len]).unwrap();
        assert_eq!(store.load(ID).await.unwrap(), None, "cut at {len}");
        assert_eq!(store.list().await.unwrap(), [], "cut at {len}");
        assert_eq!(store.commit(ID, change(0, 0, &["again"])).await.unwrap(), 1, "cut at {len}");
        assert_eq!(texts(&store).await, ["again"]);
    }
    fs::write(&file, &bytes[..3]).unwrap();
    assert!(!store.delete(ID).await.unwrap());
    assert!(!file.exists());
}

#[tokio::test]
async fn popped_messages_do_not_fill_the_disk() {
    let (_dir, store, file) = opened();
    let text = "x".repeat(1000);
    store.commit(ID, change(0, 0, &["first"])).await.unwrap();
    for base in 1..=500 {
        let pop = usize::from(base > 1);
        store.commit(ID, change(base, pop, &[&text])).await.unwrap();
    }
    let bytes = fs::metadata(&file).unwrap().len();
    assert!(bytes < 100_000, "{bytes} bytes for 1 KB of messages");
    let transcript = store.load(ID).await.unwrap().unwrap();
    assert_eq!((transcript.revision, transcript.messages.len()), (501, 2));
    assert!(!file.with_extension("tmp").exists());
}

#[tokio::test]
async fn a_crash_while_rewriting_leaves_the_old_file() {
    let (_dir, store, file) = opened();
    store.commit(ID, change(0, 0, &["one"])).await.unwrap();
    fs::write(file.with_extension("tmp"), "half of a new fi").unwrap();
    assert_eq!(texts(&store).await, ["one"]);
    assert_eq!(store.list().await.unwrap().len(), 1);
    store.commit(ID, change(1, 0, &["two"])).await.unwrap();
    assert!(store.delete(ID).await.unwrap());
    assert!(!file.with_extension("tmp").exists());
}

#[tokio::test]
async fn the_last_line_is_found_however_long_it_is() {
    let (_dir, store, _file) = opened();
    let long = "y".repeat(usize::try_from(TAIL_BYTES).unwrap() * 6);
    store.commit(ID, change(0, 0, &["one", &long])).await.unwrap();
    store.commit(ID, change(1, 0, &[&long])).await.unwrap();
    assert_eq!(store.commit(ID, change(2, 1, &["end"])).await.unwrap(), 3);
    assert_eq!(texts(&store).await, ["one", &long, "end"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_that_share_nothing_but_the_directory_get_conflicts() {
    let (dir, store, file) = opened();
    store.commit(ID, Change::default()).await.unwrap();
    let mut writers = Vec::new();
    for writer in 0..8 {
        // A store of its own opens the lock again, as another process would.
        let other = FileSessions::open(dir.path()).unwrap();
        writers.push(tokio::spawn(async move {
            let text = format!("writer {writer}");
            other.commit(ID, change(1, 0, &[&text])).await
        }));
    }
    let mut won = 0;
    for writer in writers {
        match writer.await.unwrap() {
            Ok(revision) => {
                assert_eq!(revision, 2);
                won += 1;
            }
            Err(error) => {
                assert!(matches!(error, SessionError::Conflict { found: 2, .. }), "{error}")
            }
        }
    }
    assert_eq!(won, 1, "exactly one writer builds on a revision");
    assert_eq!(fs::read(&file).unwrap().split(|&b| b == b'\n').count(), 3);
}

#[tokio::test]
async fn a_commit_waits_for_the_lock_of_another_process() {
    let (_dir, store, _file) = opened();
    let lock = store.dir.lock(ID, File::lock).unwrap();
    let mut commit = Box::pin(store.commit(ID, change(0, 0, &["one"])));
    let waiting = futures::poll!(&mut commit);
    assert!(waiting.is_pending());
    assert!(store.dir.replay(ID).unwrap().messages.is_empty());
    drop(lock);
    assert_eq!(commit.await.unwrap(), 1);
}

#[test]
fn a_directory_that_cannot_be_made_is_an_error_that_names_it() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let error = FileSessions::open(&file).unwrap_err();
    assert!(matches!(error, SessionError::Storage { .. }));
    assert!(error.to_string().contains("file"), "{error}");
}
