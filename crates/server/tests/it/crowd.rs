//! Ten thousand concurrent streams: each receives every event, a stalled one delays no other, and memory stays bounded.
//!
//! The test runs in its own process, so that the memory of other tests is not counted.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt;
use futures::future::join_all;

use crate::test_database::{SseBlock, TestDatabase};

/// Number of concurrent streams.
const VIEWERS: usize = 10_000;
/// Maximum memory of all streams.
const BYTES_MAX: usize = 300 * 1024 * 1024;
/// Number of tool calls of the streamed run.
const CALLS: usize = 5;

#[test]
fn g45_ten_thousand_viewers_get_every_event_and_a_stalled_one_delays_nobody() {
    let name = "crowd::ten_thousand_viewers_in_a_process_of_their_own";
    let ran = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && out.contains("1 passed"), "{out}{err}");
}

/// Returns the resident memory of this process in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<usize>().ok());
    kilobytes.unwrap_or(0) * 1024
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by another test in a process of its own"]
async fn ten_thousand_viewers_in_a_process_of_their_own() {
    let database = TestDatabase::new();
    let server = database.idle().await;
    let accepted = server.submit_text("chat", &format!("work {CALLS}")).await;
    let path = format!("runs/{}/stream?deltas=false", accepted.run);
    let before = resident();
    let opening = futures::stream::iter(0..VIEWERS).map(|_| server.watch(&path, None));
    let mut readers: Vec<_> = opening.buffer_unordered(64).collect().await;
    // All have seen what there was and wait for more; one of them will not read it.
    for reader in &mut readers {
        assert_eq!(reader.next().await.unwrap().event, "accepted");
    }
    let opened = resident().saturating_sub(before);
    let stalled = readers.pop().unwrap();
    let ended = Arc::<AtomicUsize>::default();
    let reading = readers.into_iter().map(|mut reader| {
        let ended = Arc::clone(&ended);
        tokio::spawn(async move {
            let (mut count, mut seen, mut last) =
                (0_usize, DefaultHasher::new(), SseBlock::default());
            while let Some(block) = reader.next().await {
                count += 1;
                block.raw.hash(&mut seen);
                last = block;
            }
            ended.fetch_add(1, Ordering::Relaxed);
            (count, seen.finish(), last.event)
        })
    });
    let reading: Vec<_> = reading.collect();
    let worker = server.engine.start().await.unwrap();
    let seen: Vec<_> = join_all(reading).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(ended.load(Ordering::Relaxed), VIEWERS - 1, "nobody waits for the one that stalls");
    let most = resident().saturating_sub(before);
    let (count, _, last) = &seen[0];
    assert_eq!(last, "end");
    assert!(*count > 3 * CALLS, "{count}");
    assert!(seen.iter().all(|other| *other == seen[0]), "all see the same, byte for byte");
    // Whoever stalled misses nothing.
    assert_eq!(stalled.rest().await.len(), *count);
    println!("{opened} bytes to open, {most} bytes while all read");
    assert!(opened.max(most) <= BYTES_MAX, "{opened} {most}");
    worker.stop(std::time::Duration::from_millis(50)).await;
    server.stop().await;
}
