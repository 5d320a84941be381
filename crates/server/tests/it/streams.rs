//! Streams that continue: a client with a cursor receives exactly the following events.

use std::time::Duration;

use provost_core::id::name::Namespace;
use provost_store::{RestoreOptions, restore};

use crate::test_database::{Server, SseBlock, TEST_TIMEOUT, TestDatabase, durable};

/// Returns the complete stream of a run without deltas.
async fn whole(server: &Server, path: &str) -> Vec<SseBlock> {
    server.watch(&format!("{path}?deltas=false"), None).await.rest().await
}

fn kinds(blocks: &[SseBlock]) -> Vec<&str> {
    blocks.iter().map(|block| block.event.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn g44_a_run_is_streamed_from_its_first_event_to_its_end() {
    let database = TestDatabase::new();
    let server = database.open().await;
    let accepted = server.submit_text("chat", "work 2").await;
    let live = server.watch(&format!("runs/{}/stream?deltas=false", accepted.run), None).await;
    let live = live.rest().await;
    assert_eq!(live.last().unwrap().event, "end");
    let seqs: Vec<u64> =
        live[..live.len() - 1].iter().map(|block| block.json()["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    let kinds = kinds(&live);
    assert_eq!(kinds[0], "accepted");
    for kind in ["user_message", "turn_finished", "tool_finished", "finished"] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    let tool = live.iter().find(|block| block.event == "tool_finished").unwrap().json();
    assert_eq!(tool["result"]["name"], "note", "{tool}");
    // What was seen as it happened and what is read afterwards are the same bytes.
    let replayed = whole(&server, &format!("runs/{}/stream", accepted.run)).await;
    assert_eq!(replayed, live);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g44_a_reader_with_a_cursor_gets_exactly_what_follows_across_a_restart() {
    let database = TestDatabase::new();
    let server = database.open().await;
    let accepted = server.submit_text("chat", "work 3").await;
    let paths = [
        format!("runs/{}/stream", accepted.run),
        format!("tasks/{}/stream", accepted.task),
        "sessions/chat/stream".to_owned(),
        "stream".to_owned(),
    ];
    let run = whole(&server, &paths[0]).await;
    let count = run.iter().filter(|block| block.is_durable()).count();
    server.stop().await;
    let server = database.idle().await;
    for path in &paths {
        // The others stay open after what there is.
        let mut reader = server.watch(&format!("{path}?deltas=false"), None).await;
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(reader.next().await.unwrap());
        }
        let rows = |blocks: &[SseBlock]| -> Vec<String> {
            blocks.iter().map(|block| block.data.clone()).collect()
        };
        assert_eq!(rows(&all), rows(&run[..count]), "{path}");
        for (seen, block) in all.iter().enumerate() {
            let cursor = block.id.as_deref();
            // What the query says does not matter if there is a header.
            let by_header = format!("{path}?deltas=false&after=nonsense");
            let by_query = format!("{path}?deltas=false&after={}", cursor.unwrap());
            for (path, header) in [(by_header, cursor), (by_query, None)] {
                let mut reader = server.watch(&path, header).await;
                for expected in &all[seen + 1..] {
                    assert_eq!(reader.next().await.unwrap(), *expected, "{path} after {cursor:?}");
                }
                if path.starts_with("runs") {
                    assert_eq!(kinds(&reader.rest().await), ["end"], "after {cursor:?}");
                }
            }
        }
    }
    server.stop().await;
}

/// Returns deterministic pseudo-random numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, max: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % max
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g44_a_hundred_reconnects_and_two_restarts_give_the_same_bytes() {
    let database = TestDatabase::new();
    let mut server = database.open().await;
    let accepted = server.submit_text("chat", "work 12").await;
    let path = format!("runs/{}/stream?deltas=false", accepted.run);
    let mut dice = Dice(44);
    let (mut got, mut cursor): (String, Option<String>) = (String::new(), None);
    for connection in 0..100 {
        if connection == 5 || connection == 11 {
            server.stop().await;
            server = database.open().await;
        }
        let mut reader = server.watch(&path, cursor.as_deref()).await;
        for _ in 0..dice.below(3) {
            match reader.next().await {
                Some(block) if block.is_durable() => {
                    got.push_str(&block.raw);
                    cursor = block.id;
                }
                Some(block) => assert_eq!(block.event, "end"),
                None => break,
            }
        }
    }
    let last = server.watch(&path, cursor.as_deref()).await.rest().await;
    assert_eq!(last.last().map(|block| block.event.as_str()), Some("end"));
    got.push_str(&durable(&last));
    let whole = whole(&server, &format!("runs/{}/stream", accepted.run)).await;
    assert_eq!(got, durable(&whole));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g44_a_cursor_of_another_log_or_of_nothing_is_reset() {
    let database = TestDatabase::new();
    let server = database.open().await;
    let accepted = server.submit_text("chat", "work 1").await;
    let path = format!("runs/{}/stream", accepted.run);
    let all = whole(&server, &path).await;
    let cursor = all[2].id.clone().unwrap();
    let task_path = format!("tasks/{}/stream", accepted.task);
    let wide = server.watch(&task_path, None).await.wait_until("accepted").await.id.unwrap();
    let generation: u64 = cursor.split('-').next().unwrap().parse().unwrap();
    let ahead = format!("{generation}-999");
    let reset = server.watch(&path, Some(&ahead)).await.rest().await;
    assert_eq!(reset[0].event, "reset");
    assert_eq!(durable(&reset), durable(&all), "everything begins anew");
    let (status, problem) =
        server.json(&format!("runs/{}/events?after={ahead}", accepted.run)).await;
    assert_eq!((status, problem["code"].as_str()), (410, Some("cursor_stale")));
    for (path, wrong) in [(&path, wide.as_str()), (&task_path, &cursor), (&path, "nonsense")] {
        let (status, _) = server.get(path, Some(wrong)).await;
        assert_eq!(status, 400, "{path} {wrong}");
    }
    server.engine.store().backup(database.file("copy.db"), |_| {}).await.unwrap();
    server.stop().await;
    let options = RestoreOptions {
        from: database.file("copy.db"),
        to: database.file("provost.db"),
        replace: true,
        env: provost_core::Env::system(),
    };
    // The server's own tasks let go of the database in a moment.
    let restored = async {
        while restore(&options).is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, restored).await.expect("the database is free");
    let server = database.idle().await;
    for (path, cursor) in [(&path, &cursor), (&task_path, &wide)] {
        let mut reader = server.watch(path, Some(cursor)).await;
        assert_eq!(reader.next().await.unwrap().event, "reset", "{path}");
        let first = reader.next().await.unwrap();
        assert_eq!(first.event, "accepted", "{path}");
        assert_ne!(first.id.unwrap().split('-').next(), cursor.split('-').next());
        let batch = format!("tasks/{}/events?after={wide}&limit=1", accepted.task);
        let (_, batch) = server.json(&batch).await;
        assert_eq!((&batch["reset"], &batch["more"]), (&true.into(), &true.into()), "{batch}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_and_namespaces_are_streamed_in_the_order_of_commits() {
    let database = TestDatabase::new();
    let server = database.open().await;
    let mut all = server.watch("stream?deltas=false&after=end", None).await;
    let mut runs = Vec::new();
    for text in ["work 2", "one", "work 1", "two"] {
        runs.push(server.submit_text(text.split(' ').next().unwrap(), text).await.run);
    }
    let other: Namespace = "other".parse().unwrap();
    let foreign = provost_core::command::TaskRequest::text("elsewhere");
    let foreign = server.engine.submit(&other, foreign).await.unwrap();
    let mut live = Vec::new();
    let mut ended = 0;
    while ended < runs.len() {
        let block = all.next().await.unwrap();
        ended += usize::from(block.event == "finished");
        live.push(block);
    }
    let positions: Vec<u64> = live
        .iter()
        .map(|block| block.id.as_ref().unwrap().split_once("-p").unwrap().1.parse().unwrap())
        .collect();
    assert!(positions.is_sorted_by(|one, two| one < two), "{positions:?}");
    let of_run = |blocks: &[SseBlock], run: &str| -> Vec<u64> {
        let of_it = blocks.iter().map(SseBlock::json).filter(|event| event["run"] == run);
        of_it.map(|event| event["seq"].as_u64().unwrap()).collect()
    };
    for run in &runs {
        let seqs = of_run(&live, &run.to_string());
        assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    }
    assert!(of_run(&live, &foreign.run.to_string()).is_empty());
    // A session has the events of both of its runs, in the same order.
    let mut session = server.watch("sessions/work/stream?deltas=false", None).await;
    let wanted: Vec<&SseBlock> = live
        .iter()
        .filter(|block| [runs[0], runs[2]].iter().any(|run| block.json()["run"] == run.to_string()))
        .collect();
    for block in wanted {
        assert_eq!(session.next().await.unwrap(), *block);
    }
    server.stop().await;
}

#[tokio::test]
async fn what_belongs_to_others_is_not_there() {
    let database = TestDatabase::new();
    let server = database.idle().await;
    let other: Namespace = "other".parse().unwrap();
    let command = provost_core::command::TaskRequest::text("elsewhere");
    let foreign = server.engine.submit(&other, command).await.unwrap();
    let paths = [format!("runs/{}", foreign.run), format!("tasks/{}", foreign.task)];
    for path in paths {
        for what in ["stream", "wait", "events"] {
            let (status, problem) = server.json(&format!("{path}/{what}")).await;
            assert_eq!(
                (status, problem["code"].as_str()),
                (404, Some("not_found")),
                "{path}/{what}"
            );
        }
    }
    let gone = [
        format!("sessions/{}/stream", foreign.session),
        format!("tasks/{}/logs", foreign.task),
        "runs/run_nonsense/stream".to_owned(),
    ];
    for path in gone {
        assert_eq!(server.get(&path, None).await.0, 404, "{path}");
    }
    for path in ["stream?deltas=perhaps", "stream?since=1", "stream?after=1-1"] {
        assert_eq!(server.get(path, None).await.0, 400, "{path}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_events_and_logs_hold_what_the_stream_holds() {
    let database = TestDatabase::new();
    let server = database.open().await;
    let accepted = server.submit_text("chat", "work 2").await;
    let all = whole(&server, &format!("runs/{}/stream", accepted.run)).await;
    let all: Vec<_> = all.iter().filter(|block| block.is_durable()).map(SseBlock::json).collect();
    let (mut events, mut after) = (Vec::new(), None);
    loop {
        let page = server.client.run_events(accepted.run, after.as_deref(), Some(3)).await.unwrap();
        events.extend(page.items.iter().map(|event| serde_json::to_value(event).unwrap()));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(events, all);
    let (mut events, mut lines, mut after) = (Vec::new(), Vec::new(), None);
    loop {
        let batch =
            server.client.task_events(accepted.task, after.as_deref(), Some(4)).await.unwrap();
        assert_eq!(batch.run_id, Some(accepted.run));
        events.extend(batch.run_events.iter().map(|event| serde_json::to_value(event).unwrap()));
        lines.extend(batch.logs);
        after = Some(batch.next);
        if !batch.more {
            break;
        }
    }
    assert_eq!(events, all);
    let nothing = server.client.task_events(accepted.task, after.as_deref(), None).await.unwrap();
    assert!(nothing.run_events.is_empty() && nothing.logs.is_empty() && !nothing.reset);
    let logs = server.client.task_logs(accepted.task, None, None).await.unwrap();
    assert_eq!(logs.items, lines);
    let said: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    assert!(said.contains(&"work 2") && said.contains(&"done"), "{said:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g44_a_cursor_beyond_what_is_kept_is_reset() {
    let database = TestDatabase::new();
    let env = provost_core::Env::simulated(44);
    let server = database.idle_with(env.clone()).await;
    let accepted = server.submit_text("chat", "work 1").await;
    let path = format!("runs/{}/stream", accepted.run);
    let worker = server.engine.start().await.unwrap();
    let all = whole(&server, &path).await;
    worker.stop(Duration::from_millis(50)).await;
    let mut wide = server.watch("stream?deltas=false", None).await;
    let (first, last) = (wide.next().await.unwrap(), wide.wait_until("finished").await);
    env.advance(Duration::from_secs(31 * 24 * 3600));
    server.engine.maintenance().enforce_retention().await.unwrap();
    let kept = &all[all.len() - 2..];
    assert_eq!(kinds(kept), ["finished", "end"]);
    let reset = server.watch(&path, all[1].id.as_deref()).await.rest().await;
    assert_eq!(kinds(&reset), ["reset", "finished", "end"]);
    assert_eq!(reset[1..], *kept);
    // Whoever had everything but the last event has missed nothing.
    let before = server.watch(&path, all[all.len() - 3].id.as_deref()).await.rest().await;
    assert_eq!(before, kept);
    let after = server.watch(&path, kept[0].id.as_deref()).await.rest().await;
    assert_eq!(after, kept[1..]);
    let mut reset = server.watch("stream?deltas=false", first.id.as_deref()).await;
    assert_eq!(reset.next().await.unwrap().event, "reset");
    assert_eq!(reset.next().await.unwrap(), last);
    let mut good = server.watch("stream?deltas=false", last.id.as_deref()).await;
    server.submit_text("chat", "more").await;
    assert_eq!(good.next().await.unwrap().event, "accepted");
    server.stop().await;
}
