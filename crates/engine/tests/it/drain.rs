//! Stopping a worker in order: runs come to a boundary and go on elsewhere at once.

use std::time::Duration;

use provost_core::Env;
use provost_core::lifecycle::{RunPhase, RunStatus};
use provost_engine::{CrashLoopGuard, EngineOptions, JOURNAL_FORMAT_VERSION};
use provost_model::{self as scripted};
use provost_store::table::scheduling::{process_start, worker};
use serde_json::json;

use crate::cluster::{Cluster, NEVER, last_result, quick};
use crate::harness::text;

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stops_gives_its_runs_back_at_a_boundary() {
    let cluster = Cluster::new(vec![
        scripted::call("gate_opaque", json!({})),
        scripted::call("opaque", json!({})),
    ])
    .await;
    let first = cluster.engine.start().await.unwrap();
    let accepted = cluster.say("chat", "go").await;
    let gate = cluster.rooms.gate("gate_opaque");
    gate.entered().await;
    let waiting = cluster.say("waits", "go").await;
    gate.entered().await;
    let stopping = tokio::spawn(first.stop(NEVER));
    // Its runs have been told by the time that others are.
    let is_told = |workers: Vec<worker::WorkerRow>| workers[0].draining.is_some();
    while !is_told(cluster.store.read(worker::live).await.unwrap()) {
        tokio::task::yield_now().await;
    }
    gate.open(2);
    stopping.await.unwrap();
    for run in [accepted.run, waiting.run] {
        let row = cluster.run(run).await;
        assert_eq!((row.phase.as_str(), row.crash_count), ("queued", 0));
        assert!(row.ready, "another worker can go on at once");
    }
    assert_eq!(cluster.rooms.calls("opaque"), 0, "nothing more was begun");
    assert_eq!(cluster.store.read(worker::live).await.unwrap(), []);
    let _second = cluster.engine.start().await.unwrap();
    for run in [accepted.run, waiting.run] {
        let row = cluster.ended(run).await;
        assert_eq!((row.status.as_str(), row.crash_count, row.failure_count), ("ok", 0, 0));
    }
    assert_eq!(gate.came(), 2, "what was done is not done again");
    assert_eq!(cluster.rooms.model_calls(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_come_to_a_boundary_in_time_is_given_back_as_it_is() {
    let cluster = Cluster::answering(|request, _| match last_result(request).as_str() {
        "" => scripted::call("gate_opaque", json!({})),
        result => scripted::text(format!("told: {result}")),
    })
    .await;
    let first = cluster.engine.start().await.unwrap();
    let accepted = cluster.say("chat", "go").await;
    let gate = cluster.rooms.gate("gate_opaque");
    gate.entered().await;
    first.stop(Duration::from_millis(10)).await;
    gate.stopped().await;
    let row = cluster.run(accepted.run).await;
    assert_eq!((row.phase.as_str(), row.crash_count, row.ready), ("queued", 0, true));
    let _second = cluster.engine.start().await.unwrap();
    let row = cluster.ended(accepted.run).await;
    assert!(text(&row).contains("unknown"), "{}", text(&row));
    assert_eq!((row.crash_count, gate.came()), (0, 1));
    assert_eq!(cluster.class().await.running, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stops_claims_nothing_more() {
    let cluster = Cluster::new(vec![scripted::call("gate_pure", json!({}))]).await;
    let worker = cluster.engine.start().await.unwrap();
    let first = cluster.say("first", "go").await;
    let gate = cluster.rooms.gate("gate_pure");
    gate.entered().await;
    let (told, tells) = tokio::sync::oneshot::channel::<()>();
    let shutdown = async move { tells.await.unwrap() };
    let stopping = tokio::spawn(worker.run_until(shutdown, NEVER));
    told.send(()).unwrap();
    let attempts = |cluster: &Cluster| cluster.rooms.gate("gate_pure").came();
    while cluster.store.read(worker::live).await.unwrap().len() == 1 && !stopping.is_finished() {
        let late = cluster.say(&format!("late{}", attempts(&cluster)), "go").await;
        if cluster.run(late.run).await.phase == RunPhase::Queued {
            gate.open(1);
            break;
        }
    }
    stopping.await.unwrap();
    assert_eq!(cluster.run(first.run).await.phase, RunPhase::Queued);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_of_a_worker_that_stops_is_cancelled() {
    let cluster = Cluster::new(vec![scripted::call("gate_opaque", json!({}))]).await;
    let options = EngineOptions { poll: NEVER, heartbeat: NEVER, ..quick() };
    let worker = cluster.node(options).start().await.unwrap();
    let accepted = cluster.say("chat", "go").await;
    cluster.rooms.gate("gate_opaque").entered().await;
    cluster.meddle("UPDATE run SET cancel_requested = 1").await;
    worker.stop(Duration::ZERO).await;
    assert_eq!(cluster.run(accepted.run).await.status, RunStatus::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_crashed_again_and_again_starts_without_its_work() {
    let cluster = Cluster::new(vec![scripted::text("hello")]).await;
    let env = Env::system();
    for pid in 0..3_u64 {
        let (id, at) = (env.id::<provost_core::WorkerId>(), cluster.clock.now());
        let crashed = cluster.store.write(move |tx| {
            let row = worker::WorkerRow {
                id,
                host: String::new(),
                // No process has such a number.
                pid: u64::from(u32::MAX) + pid,
                build: JOURNAL_FORMAT_VERSION,
                lock_path: format!("/nowhere/{id}"),
                started: at,
                last_heartbeat: at,
                stopped: Some(at),
                pool: "default".to_owned(),
                capacity: 1,
                session_filter: None,
                claims_paused_until: None,
                draining: None,
            };
            row.insert(tx)?;
            process_start::ProcessStartRow { id: id.to_string(), started: at, clean_stop: None }
                .insert(tx)
        });
        crashed.await.unwrap();
        cluster.clock.advance(Duration::from_secs(60));
    }
    let careful = EngineOptions { crash_loop_guard: Some(CrashLoopGuard::default()), ..quick() };
    let node = cluster.node(careful);
    let worker = node.start().await.unwrap();
    assert!(worker.is_guarded());
    let accepted = cluster.say("chat", "go").await;
    node.maintenance().reconcile().await.unwrap();
    let cancelled = cluster.say("other", "go").await;
    cluster.engine.runs().cancel(&cluster.namespace, cancelled.run).await.unwrap();
    assert_eq!(cluster.run(accepted.run).await.phase, RunPhase::Queued, "taken in, and not begun");
    // The oldest of the three crashes is five minutes ago.
    cluster.clock.advance(Duration::from_secs(120));
    assert_eq!(cluster.ended(accepted.run).await.status, RunStatus::Ok);
    worker.stop(NEVER).await;
    let _next = node.start().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_that_come_and_go_in_one_process_are_no_crashes() {
    let cluster = Cluster::new(vec![scripted::text("hello")]).await;
    let careful = EngineOptions { crash_loop_guard: Some(CrashLoopGuard::default()), ..quick() };
    let node = cluster.node(careful);
    for _ in 0..5 {
        let worker = node.start().await.unwrap();
        assert!(!worker.is_guarded());
        drop(worker);
    }
}
