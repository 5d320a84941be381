//! Many concurrent streams: slow clients delay no other client, late clients miss no event, and all receive the same end.

use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use provost_core::lifecycle::RunStatus;

use crate::test_database::{SseBlock, TestDatabase, durable};

fn texts(blocks: &[SseBlock]) -> String {
    let deltas = blocks.iter().filter(|block| block.event == "delta").map(SseBlock::json);
    let texts = deltas.filter(|delta| delta["type"] == "text_delta");
    texts.map(|delta| delta["text"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn live_pieces_come_before_the_event_that_holds_them_all() {
    let database = TestDatabase::new();
    let server = database.idle().await;
    let accepted = server.submit_text("chat", "chatter 20").await;
    let reader = server.watch(&format!("runs/{}/stream", accepted.run), None).await;
    let mut silent =
        server.watch(&format!("tasks/{}/stream?deltas=false", accepted.task), None).await;
    let seen = tokio::spawn(reader.rest());
    // The reader listens before anything is said.
    silent.wait_until("accepted").await;
    while server.app.open_streams() < 2 {
        tokio::task::yield_now().await;
    }
    let worker = server.engine.start().await.unwrap();
    let seen = seen.await.unwrap();
    // The pieces of a turn lie between the end of the turn before and its own end.
    let (mut turn, mut said) = (0, String::new());
    for block in &seen {
        match block.event.as_str() {
            "delta" if block.json()["type"] == "turn_started" => {
                turn += 1;
                assert_eq!(block.json()["turn"], turn);
                said.clear();
            }
            "delta" => said.push_str(&texts(std::slice::from_ref(block))),
            "turn_finished" => {
                assert_eq!(block.json()["data"]["turn"], turn);
                let whole = &block.json()["message"]["parts"][0]["text"];
                assert_eq!(whole, said.as_str(), "{}", block.raw);
                assert!(!said.is_empty());
                said.clear();
            }
            _ => assert!(!block.raw.contains("text_delta")),
        }
    }
    assert_eq!(turn, 3);
    assert!(seen.iter().filter(|block| block.event == "delta").all(|block| block.id.is_none()));
    assert_eq!(silent.wait_until("finished").await.event, "finished");
    worker.stop(Duration::from_millis(50)).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g45_a_stalled_viewer_delays_nobody_is_told_and_misses_nothing() {
    let database = TestDatabase::new();
    let server = database.idle().await;
    let accepted = server.submit_text("chat", "chatter 3000").await;
    let path = format!("runs/{}/stream", accepted.run);
    let mut stalled = server.watch(&path, None).await;
    let mut other = server.watch(&path, None).await;
    // Both have caught up, and then one of them reads no more.
    for reader in [&mut stalled, &mut other] {
        assert_eq!(reader.next().await.unwrap().event, "accepted");
    }
    let worker = server.engine.start().await.unwrap();
    let fast = other.rest().await;
    assert_eq!(fast.last().unwrap().event, "end");
    let slow = stalled.rest().await;
    let lagged: Vec<&SseBlock> = slow.iter().filter(|block| block.event == "lagged").collect();
    assert_eq!(lagged.len(), 1, "{:?}", slow.iter().map(|block| &block.event).collect::<Vec<_>>());
    assert!(lagged[0].json()["missed"].as_u64().unwrap() > 5000);
    assert!(slow.len() < 200, "what waited for it was bounded: {}", slow.len());
    assert_eq!(durable(&slow), durable(&fast));
    assert_eq!(slow.last().unwrap().event, "end");
    worker.stop(Duration::from_millis(50)).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g45_whoever_is_behind_by_thousands_of_events_reads_them_from_the_log() {
    let database = TestDatabase::new();
    let server = database.open().await;
    let mut stalled = server.watch("stream?deltas=false", None).await;
    let mut fast = server.watch("stream?deltas=false", None).await;
    let mut wanted = Vec::new();
    for task in 0..60 {
        server.submit_text(&format!("s{task}"), "work 2").await;
    }
    let mut ended = 0;
    while ended < 60 {
        let block = fast.next().await.unwrap();
        ended += usize::from(block.event == "finished");
        wanted.push(block);
    }
    assert!(wanted.len() > 400, "{}", wanted.len());
    for block in &wanted {
        assert_eq!(stalled.next().await.unwrap(), *block);
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g46_everybody_who_waits_or_watches_gets_the_same_single_end() {
    let database = TestDatabase::new();
    let server = database.idle().await;
    let accepted = server.submit_text("chat", "work 1").await;
    let (run, task) = (accepted.run, accepted.task);
    let by_run = join_all((0..20).map(|_| server.client.poll_run(run, Duration::from_secs(60))));
    let by_task = join_all((0..20).map(|_| server.client.poll_task(task, Duration::from_secs(60))));
    let path = format!("runs/{run}/stream");
    let streams = join_all((0..20).map(|_| async { server.watch(&path, None).await.rest().await }));
    let works = async {
        while server.app.open_streams() < 60 {
            tokio::task::yield_now().await;
        }
        server.engine.start().await.unwrap()
    };
    let (by_run, by_task, streams, worker) = tokio::join!(by_run, by_task, streams, works);
    let row = server.client.run(run).await.unwrap();
    assert_eq!(row.status, RunStatus::Ok);
    for waited in by_run.into_iter().chain(by_task) {
        let waited = waited.unwrap();
        assert_eq!((waited.timed_out, &waited.run), (false, &row));
    }
    for blocks in &streams {
        let ends = blocks.iter().filter(|block| block.event == "end").count();
        let finished = blocks.iter().filter(|block| block.event == "finished").count();
        assert_eq!((ends, finished), (1, 1));
        assert_eq!(blocks.last().unwrap().json()["status"], "ok");
        assert_eq!(durable(blocks), durable(&streams[0]));
    }
    // Whoever comes afterwards gets it at once.
    assert!(!server.client.poll_run(run, Duration::ZERO).await.unwrap().timed_out);
    assert_eq!(server.app.open_streams(), 0, "nobody is left at the board");
    worker.stop(Duration::from_millis(50)).await;
    server.stop().await;
}

#[tokio::test]
async fn waiting_out_leaves_the_run_alone() {
    let database = TestDatabase::new();
    let server = database.idle().await;
    let accepted = server.submit_text("chat", "hello").await;
    let waited = server.client.poll_run(accepted.run, Duration::from_millis(20)).await.unwrap();
    assert!(waited.timed_out);
    assert_eq!(waited.run.status, RunStatus::Accepted);
    assert!(waited.run.cancel_requested.is_none());
    let (status, problem) =
        server.json(&format!("runs/{}/wait?timeout_ms=600001", accepted.run)).await;
    assert_eq!((status, problem["code"].as_str()), (400, Some("invalid")));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_joins_in_the_middle_of_an_answer_gets_the_draft_first() {
    let database = TestDatabase::new();
    let server = database.open().await;
    let accepted = server.submit_text("chat", "hang").await;
    let paths = [
        format!("runs/{}/stream", accepted.run),
        format!("tasks/{}/stream", accepted.task),
        "sessions/chat/stream".to_owned(),
    ];
    let mut first = server.watch(&paths[0], None).await;
    let mut heard = Vec::new();
    while texts(&heard) != "once upon a time" {
        heard.push(first.next().await.unwrap());
    }
    for path in &paths {
        let mut late = server.watch(path, None).await;
        let mut blocks = Vec::new();
        while texts(&blocks) != "once upon a time" {
            blocks.push(late.next().await.unwrap());
        }
        let first_delta = blocks.iter().position(|block| block.event == "delta").unwrap();
        assert!(blocks[first_delta..].iter().all(|block| block.event == "delta"), "{path}");
        assert_eq!(blocks[first_delta].json()["type"], "turn_started", "{path}");
    }
    // Without live pieces there is no draft either.
    let mut quiet = server.watch(&format!("{}?deltas=false", paths[1]), None).await;
    quiet.wait_until("user_message").await;
    server.client.cancel_run(accepted.run).await.unwrap();
    assert_ne!(quiet.next().await.unwrap().event, "delta");
    let rest = first.rest().await;
    assert_eq!(rest.last().unwrap().json()["status"], "cancelled");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_end_when_the_server_stops_and_their_readers_come_back() {
    let database = TestDatabase::new();
    let server = database.open().await;
    let accepted = server.submit_text("chat", "hang").await;
    let mut reader = server.watch("stream", None).await;
    let cursor = reader.wait_until("user_message").await.id;
    let waiting = {
        let client = server.client.clone();
        tokio::spawn(async move { client.poll_run(accepted.run, Duration::from_secs(60)).await })
    };
    while server.app.open_streams() < 2 {
        tokio::task::yield_now().await;
    }
    server.stop().await;
    while reader.next().await.is_some() {}
    assert_eq!(waiting.await.unwrap().unwrap_err().code(), "draining");
    let server = database.open().await;
    let mut reader = server.watch("stream", cursor.as_deref()).await;
    let again = reader.wait_until("attempt_started").await;
    assert!(again.json()["attempt"].as_u64().unwrap() > 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_process_writes_is_seen_too() {
    let database = TestDatabase::new();
    let (here, there) = (database.idle().await, database.idle().await);
    let mut reader = here.watch("stream?after=end", None).await;
    let accepted = there.submit_text("chat", "hello").await;
    let seen = reader.wait_until("accepted").await;
    assert_eq!(seen.json()["run"], accepted.run.to_string());
    // Waiting is woken by it as well.
    let waiting = {
        let client = here.client.clone();
        tokio::spawn(async move { client.poll_run(accepted.run, Duration::from_secs(60)).await })
    };
    while here.app.open_streams() < 2 {
        tokio::task::yield_now().await;
    }
    there.client.cancel_run(accepted.run).await.unwrap();
    let waited = waiting.await.unwrap().unwrap();
    assert_eq!((waited.timed_out, waited.run.status), (false, RunStatus::Cancelled));
    here.stop().await;
    there.stop().await;
}

#[tokio::test(start_paused = true)]
async fn silence_is_broken_by_comments() {
    let database = TestDatabase::new();
    let server = database.idle().await;
    let (_, mut body) = server.get("stream?after=end", None).await;
    let opened = body.next().await.unwrap().unwrap();
    assert!(opened.starts_with(b"retry: 1000\n\nid: "), "{opened:?}");
    let begun = tokio::time::Instant::now();
    for _ in 0..3 {
        assert_eq!(body.next().await.unwrap().unwrap(), ":\n\n");
    }
    assert_eq!(begun.elapsed().as_secs(), 45);
    server.stop().await;
}
