//! Claims, leases and fences: one attempt at a time writes to a run, and a lost worker loses nothing.

use std::sync::atomic::Ordering;
use std::time::Duration;

use provost_core::Env;
use provost_core::command::TaskRequest;
use provost_core::lifecycle::{RunPhase, RunStatus, WaitReason};
use provost_core::recovery::OutcomeCode;
use provost_core::scheduling::InputMode;
use provost_engine::EngineOptions;
use provost_model::{self as scripted};
use provost_store::query;
use provost_store::table::scheduling::worker;
use serde_json::json;

use crate::cluster::{Cluster, LEASE, NEVER, frozen, last_result, quick};
use crate::harness::{command, text};

const TICK: Duration = Duration::from_millis(1);

#[tokio::test(flavor = "multi_thread")]
async fn g06_a_claim_that_never_began_is_taken_at_the_end_of_its_lease() {
    let cluster = Cluster::new(vec![scripted::text("hello")]).await;
    cluster.rooms.door_closed.store(true, Ordering::SeqCst);
    let lost = cluster.node(frozen());
    let _lost = lost.start().await.unwrap();
    let accepted = cluster.say("chat", "hi").await;
    cluster.rooms.door.entered().await;
    cluster.rooms.door_closed.store(false, Ordering::SeqCst);
    let _other = cluster.engine.start().await.unwrap();
    cluster.clock.advance(LEASE - TICK);
    cluster.engine.maintenance().reconcile().await.unwrap();
    assert_eq!(cluster.run(accepted.run).await.epoch, 1, "its lease still counts");
    cluster.clock.advance(TICK);
    let run = cluster.ended(accepted.run).await;
    assert_eq!((run.status.as_str(), text(&run).as_str()), ("ok", "hello"));
    assert_eq!((run.epoch, run.claim_count), (2, 2));
    let attempts = cluster.attempts(accepted.run).await;
    assert_eq!(attempts[0].outcome_code.map(OutcomeCode::as_str), Some("worker_lost"));
    assert_eq!((attempts[1].strategy.as_str(), attempts[1].status.as_str()), ("resume", "ok"));
    assert_ne!(attempts[0].worker_id, attempts[1].worker_id);
    assert_ne!(attempts[0].execution_id, attempts[1].execution_id);
}

#[tokio::test(flavor = "multi_thread")]
async fn g06_a_worker_that_may_be_in_the_middle_of_something_gets_one_more_lease() {
    let cluster = Cluster::new(vec![scripted::call("gate_pure", json!({}))]).await;
    let lost = cluster.node(frozen());
    let _lost = lost.start().await.unwrap();
    let accepted = cluster.say("chat", "hi").await;
    let gate = cluster.rooms.gate("gate_pure");
    gate.entered().await;
    let _other = cluster.engine.start().await.unwrap();
    cluster.clock.advance(LEASE);
    let run = cluster.until(accepted.run, |row| row.phase == RunPhase::Queued).await;
    assert!(!run.ready && run.not_before > cluster.clock.now(), "a grace of one lease");
    cluster.clock.advance(LEASE);
    gate.entered().await;
    gate.open(2);
    let run = cluster.ended(accepted.run).await;
    assert_eq!((run.status.as_str(), run.epoch), ("ok", 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn g07_what_comes_back_after_another_took_over_writes_nothing() {
    let cluster = Cluster::new(vec![scripted::call("gate_opaque", json!({}))]).await;
    let lost = cluster.node(frozen()).start().await.unwrap();
    let accepted = cluster.say("chat", "hi").await;
    let gate = cluster.rooms.gate("gate_opaque");
    gate.entered().await;
    let _other = cluster.engine.start().await.unwrap();
    cluster.clock.advance(LEASE);
    cluster.until(accepted.run, |row| row.phase == RunPhase::Queued).await;
    cluster.clock.advance(LEASE);
    let ended = cluster.ended(accepted.run).await;
    let events = cluster.events(accepted.run).await;
    // The first one thaws and has its result.
    gate.open(1);
    lost.stop(NEVER).await;
    assert_eq!(cluster.run(accepted.run).await, ended, "the row is as it was");
    assert_eq!(cluster.events(accepted.run).await, events);
    let first_new = events.iter().position(|event| event.epoch == 2).unwrap();
    assert!(events[first_new..].iter().all(|event| event.epoch == 2), "{events:?}");
    assert_eq!(
        cluster.rooms.calls("gate_opaque"),
        1,
        "nobody knows what came of it, so never again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a16_07_a_worker_that_slept_through_its_lease_does_not_write_on() {
    let cluster = Cluster::new(vec![scripted::call("gate_pure", json!({}))]).await;
    let lost = cluster.node(frozen()).start().await.unwrap();
    let accepted = cluster.say("chat", "hi").await;
    let gate = cluster.rooms.gate("gate_pure");
    gate.entered().await;
    let _other = cluster.engine.start().await.unwrap();
    cluster.clock.advance(LEASE);
    cluster.until(accepted.run, |row| row.phase == RunPhase::Queued).await;
    // It wakes before anybody has begun again, and still has lost.
    gate.open(1);
    lost.stop(NEVER).await;
    let waiting = cluster.run(accepted.run).await;
    assert_eq!((waiting.phase.as_str(), waiting.epoch), ("queued", 1));
    let kinds = cluster.kinds(accepted.run).await;
    assert_eq!(kinds.last().map(String::as_str), Some("worker_lost"), "{kinds:?}");
    cluster.clock.advance(LEASE);
    gate.entered().await;
    gate.open(1);
    let run = cluster.ended(accepted.run).await;
    assert_eq!((run.status.as_str(), run.epoch, gate.came()), ("ok", 2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn g08_a_session_has_one_writer_however_many_workers_there_are() {
    let cluster = Cluster::new(vec![scripted::call("gate_pure", json!({}))]).await;
    let nodes: Vec<_> = (0..3).map(|_| cluster.node(quick())).collect();
    let mut workers = Vec::new();
    for node in &nodes {
        workers.push(node.start().await.unwrap());
        workers.push(node.start().await.unwrap());
    }
    let queued = |text: &str| TaskRequest {
        queue_mode: Some(InputMode::Queue),
        new_task: true,
        ..command("chat", text)
    };
    let mut runs = Vec::new();
    for turn in 0..12 {
        runs.push(cluster.accept(queued(&format!("turn {turn}"))).await.run);
    }
    let gate = cluster.rooms.gate("gate_pure");
    gate.open(runs.len());
    for run in &runs {
        assert_eq!(cluster.ended(*run).await.status, RunStatus::Ok);
    }
    assert_eq!((gate.came(), gate.most()), (12, 1));
    assert_eq!(cluster.class().await.running, 0, "g09: nothing works, nothing is counted");
}

#[tokio::test(flavor = "multi_thread")]
async fn g10_the_clock_of_a_worker_decides_nothing() {
    let cluster = Cluster::new(vec![scripted::call("gate_pure", json!({}))]).await;
    cluster.clock.advance(Duration::from_secs(600));
    let minutes = |minutes: u64| {
        let env = Env::simulated(minutes);
        env.advance(Duration::from_secs(60 * minutes));
        env
    };
    // Five minutes behind the database, and five minutes ahead of it.
    let late = cluster.node_on(&cluster.store, frozen(), minutes(5));
    let early = cluster.node_on(&cluster.store, quick(), minutes(15));
    let _late = late.start().await.unwrap();
    let accepted = cluster.say("chat", "hi").await;
    let gate = cluster.rooms.gate("gate_pure");
    gate.entered().await;
    let _early = early.start().await.unwrap();
    cluster.clock.advance(LEASE - TICK);
    early.maintenance().reconcile().await.unwrap();
    let run = cluster.run(accepted.run).await;
    assert_eq!((run.epoch, run.phase.as_str()), (1, "leased"), "no lease ends early");
    cluster.clock.advance(TICK);
    cluster.until(accepted.run, |row| row.phase == RunPhase::Queued).await;
    cluster.clock.advance(LEASE);
    gate.entered().await;
    gate.open(2);
    assert_eq!(cluster.ended(accepted.run).await.status, RunStatus::Ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn g11_a_lost_lease_stops_the_attempt_within_a_heartbeat() {
    let cluster = Cluster::answering(|request, _| match last_result(request).as_str() {
        "" => scripted::call("gate_opaque", json!({})),
        result => scripted::text(format!("told: {result}")),
    })
    .await;
    // It looks at its rows, and does not renew its leases.
    let lost = cluster.node(EngineOptions { heartbeat: NEVER, ..quick() });
    let _lost = lost.start().await.unwrap();
    let accepted = cluster.say("chat", "hi").await;
    let gate = cluster.rooms.gate("gate_opaque");
    gate.entered().await;
    // Somebody who takes no runs keeps house.
    let keeper = cluster.node(EngineOptions { capacity: 0, ..quick() });
    let _keeper = keeper.start().await.unwrap();
    cluster.clock.advance(LEASE);
    cluster.until(accepted.run, |row| row.phase == RunPhase::Queued).await;
    gate.stopped().await;
    let steps = cluster.kinds(accepted.run).await;
    assert_eq!(steps.last().map(String::as_str), Some("worker_lost"), "{steps:?}");
    cluster.clock.advance(LEASE);
    let run = cluster.ended(accepted.run).await;
    assert!(text(&run).contains("unknown"), "{}", text(&run));
    assert_eq!(gate.came(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_cannot_renew_its_leases_stops_by_itself() {
    let cluster = Cluster::new(vec![scripted::call("gate_pure", json!({}))]).await;
    let lease = Duration::from_millis(50);
    let node = cluster.node(EngineOptions { lease, ..quick() });
    let _worker = node.start().await.unwrap();
    let accepted = cluster.say("chat", "hi").await;
    let gate = cluster.rooms.gate("gate_pure");
    gate.entered().await;
    cluster.rooms.outage.store(true, Ordering::SeqCst);
    gate.stopped().await;
    cluster.rooms.outage.store(false, Ordering::SeqCst);
    gate.open(1);
    assert_eq!(cluster.ended(accepted.run).await.status, RunStatus::Ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_was_dropped_is_taken_over_at_once() {
    let cluster = Cluster::new(vec![scripted::call("gate_pure", json!({}))]).await;
    let first = cluster.engine.start().await.unwrap();
    let accepted = cluster.say("chat", "hi").await;
    let gate = cluster.rooms.gate("gate_pure");
    gate.entered().await;
    drop(first);
    gate.stopped().await;
    let _second = cluster.engine.start().await.unwrap();
    gate.open(1);
    let run = cluster.ended(accepted.run).await;
    assert_eq!((run.status.as_str(), run.epoch), ("ok", 2), "no time has passed");
    assert_eq!(gate.came(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_living_worker_notices_that_another_died() {
    let cluster = Cluster::new(vec![scripted::call("gate_pure", json!({}))]).await;
    let first = cluster.engine.start().await.unwrap();
    let accepted = cluster.say("chat", "hi").await;
    let gate = cluster.rooms.gate("gate_pure");
    gate.entered().await;
    let _second = cluster.node(quick()).start().await.unwrap();
    drop(first);
    gate.stopped().await;
    gate.open(1);
    assert_eq!(cluster.ended(accepted.run).await.status, RunStatus::Ok);
    let live = cluster.store.read(worker::live).await.unwrap();
    assert_eq!(live.len(), 1, "the dead one is known to be dead");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_does_not_begin_while_the_old_attempt_is_unwound_here() {
    let cluster = Cluster::new(vec![scripted::call("gate_pure", json!({}))]).await;
    cluster.rooms.door_closed.store(true, Ordering::SeqCst);
    let node = cluster.node(quick());
    let _worker = node.start().await.unwrap();
    let accepted = cluster.say("chat", "hi").await;
    cluster.rooms.door.entered().await;
    cluster.rooms.door_closed.store(false, Ordering::SeqCst);
    // Somebody takes the run from it by hand; it is told at its next look.
    cluster
        .meddle(
            "UPDATE run SET phase = 'queued', lease_owner = NULL, lease_until = NULL, ready = 1",
        )
        .await;
    cluster.meddle("UPDATE exec_class SET running = 0").await;
    cluster.rooms.door.stopped().await;
    cluster.rooms.gate("gate_pure").open(1);
    let run = cluster.ended(accepted.run).await;
    assert_eq!((run.status.as_str(), run.epoch), ("ok", 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn g12_the_fifth_crash_without_progress_ends_the_run() {
    let cluster = Cluster::new(vec![scripted::text("never").hang()]).await;
    let accepted = cluster.say("chat", "hi").await;
    for crash in 1..=5 {
        let worker = cluster.engine.start().await.unwrap();
        cluster
            .until(accepted.run, |row| row.epoch == crash && row.phase == RunPhase::Leased)
            .await;
        while cluster.rooms.model_calls() < usize::try_from(crash).unwrap() {
            tokio::task::yield_now().await;
        }
        drop(worker);
    }
    let _worker = cluster.engine.start().await.unwrap();
    let run = cluster.ended(accepted.run).await;
    assert_eq!(
        (run.status.as_str(), run.outcome_code.map(OutcomeCode::as_str)),
        ("error", Some("crash_loop"))
    );
    assert_eq!((run.crash_count, run.claim_count), (5, 5));
    assert_eq!(cluster.rooms.model_calls(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn g12_a_crash_loop_waits_for_an_operator_who_wants_that() {
    let cluster = Cluster::new(vec![scripted::call("gate_pure", json!({}))]).await;
    let accepted = cluster.say_with("chat", json!({"retry": {"pause_at_end": true}})).await;
    let gate = cluster.rooms.gate("gate_pure");
    for _ in 1..=5 {
        let worker = cluster.engine.start().await.unwrap();
        gate.entered().await;
        drop(worker);
        gate.stopped().await;
    }
    let _worker = cluster.engine.start().await.unwrap();
    let run = cluster.parked(accepted.run).await;
    assert_eq!(run.parked_for.map(WaitReason::as_str), Some("operator"));
    assert_eq!(run.outcome_code.map(OutcomeCode::as_str), Some("crash_loop"));
    assert_eq!(
        query::task::get(cluster.engine.store(), &cluster.namespace, accepted.task)
            .await
            .unwrap()
            .state
            .as_str(),
        "waiting"
    );
    gate.open(1);
    cluster.engine.runs().resume(&cluster.namespace, accepted.run, "operator").await.unwrap();
    let run = cluster.ended(accepted.run).await;
    assert_eq!((run.status.as_str(), run.outcome_code.map(OutcomeCode::as_str)), ("ok", None));
    let again = cluster.engine.runs().resume(&cluster.namespace, accepted.run, "operator").await;
    assert_eq!(again.unwrap_err().code(), "already_terminal");
}

#[tokio::test(flavor = "multi_thread")]
async fn g12_progress_resets_the_count_of_crashes() {
    let turns = (0..6).map(|_| scripted::call("gate_pure", json!({}))).collect();
    let cluster = Cluster::new(turns).await;
    let accepted = cluster.say("chat", "hi").await;
    let gate = cluster.rooms.gate("gate_pure");
    for crash in 1..=8 {
        let worker = cluster.engine.start().await.unwrap();
        gate.entered().await;
        if crash % 2 == 0 {
            // This time the call gets its result, and the next one is cut off.
            gate.open(1);
            gate.entered().await;
        }
        drop(worker);
        gate.stopped().await;
    }
    let _worker = cluster.engine.start().await.unwrap();
    gate.open(9);
    let run = cluster.ended(accepted.run).await;
    assert_eq!((run.status.as_str(), run.crash_count), ("ok", 0));
    assert_eq!(run.claim_count, 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn g55_an_old_build_leaves_runs_of_a_newer_one_alone() {
    let cluster = Cluster::new(vec![scripted::text("hello")]).await;
    let newer = cluster.say("newer", "hi").await;
    cluster.meddle("UPDATE run SET min_build = min_build + 1").await;
    let older = cluster.say("older", "hi").await;
    let _worker = cluster.engine.start().await.unwrap();
    assert_eq!(cluster.ended(older.run).await.status, RunStatus::Ok);
    assert_eq!(cluster.run(newer.run).await.phase, RunPhase::Queued);
    cluster.meddle("UPDATE run SET min_build = min_build - 1 WHERE phase = 'queued'").await;
    assert_eq!(cluster.ended(newer.run).await.status, RunStatus::Ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn g56_an_outage_of_the_database_loses_nothing_and_starts_nothing() {
    let cluster = Cluster::new(vec![
        scripted::call("gate_pure", json!({})),
        scripted::call("opaque", json!({})),
    ])
    .await;
    let _worker = cluster.engine.start().await.unwrap();
    let accepted = cluster.say("chat", "hi").await;
    let gate = cluster.rooms.gate("gate_pure");
    gate.entered().await;
    cluster.rooms.outage.store(true, Ordering::SeqCst);
    gate.open(1);
    let refused = cluster.engine.submit(&cluster.namespace, command("other", "hi")).await;
    assert_eq!(refused.unwrap_err().code(), "store_busy");
    assert_eq!(cluster.rooms.calls("opaque"), 0, "what cannot be written down does not happen");
    cluster.rooms.outage.store(false, Ordering::SeqCst);
    gate.open(1);
    let run = cluster.until(accepted.run, |row| {
        row.phase == RunPhase::Done || row.not_before > cluster.clock.now()
    });
    if run.await.phase != RunPhase::Done {
        cluster.clock.advance(Duration::from_secs(2));
    }
    let run = cluster.ended(accepted.run).await;
    assert_eq!((run.status.as_str(), run.failure_count), ("ok", 0));
    assert_eq!(cluster.rooms.calls("opaque"), 1);
}
