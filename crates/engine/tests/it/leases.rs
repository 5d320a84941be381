//! Claims, leases and fences: one attempt at a time writes to a run, and a lost worker loses nothing.

use std::sync::atomic::Ordering;
use std::time::Duration;

use provost_core::Env;
use provost_core::command::TaskRequest;
use provost_core::scheduling::InputMode;
use provost_engine::EngineOptions;
use provost_model::{self as scripted};
use provost_store::query;
use provost_store::table::scheduling::worker;
use serde_json::json;

use crate::house::{House, LEASE, NEVER, frozen, last_result, quick};
use crate::stage::{command, text};

const TICK: Duration = Duration::from_millis(1);

#[tokio::test(flavor = "multi_thread")]
async fn g06_a_claim_that_never_began_is_taken_at_the_end_of_its_lease() {
    let house = House::new(vec![scripted::text("hello")]).await;
    house.rooms.door_closed.store(true, Ordering::SeqCst);
    let lost = house.node(frozen());
    let _lost = lost.start().await.unwrap();
    let accepted = house.say("chat", "hi").await;
    house.rooms.door.entered().await;
    house.rooms.door_closed.store(false, Ordering::SeqCst);
    let _other = house.engine.start().await.unwrap();
    house.clock.advance(LEASE - TICK);
    house.engine.maintenance().reconcile().await.unwrap();
    assert_eq!(house.run(accepted.run).await.epoch, 1, "its lease still counts");
    house.clock.advance(TICK);
    let run = house.ended(accepted.run).await;
    assert_eq!((run.status.as_str(), text(&run).as_str()), ("ok", "hello"));
    assert_eq!((run.epoch, run.claim_count), (2, 2));
    let attempts = house.attempts(accepted.run).await;
    assert_eq!(attempts[0].outcome_code.as_deref(), Some("worker_lost"));
    assert_eq!((attempts[1].strategy.as_str(), attempts[1].status.as_str()), ("resume", "ok"));
    assert_ne!(attempts[0].worker_id, attempts[1].worker_id);
    assert_ne!(attempts[0].execution_id, attempts[1].execution_id);
}

#[tokio::test(flavor = "multi_thread")]
async fn g06_a_worker_that_may_be_in_the_middle_of_something_gets_one_more_lease() {
    let house = House::new(vec![scripted::call("gate_pure", json!({}))]).await;
    let lost = house.node(frozen());
    let _lost = lost.start().await.unwrap();
    let accepted = house.say("chat", "hi").await;
    let gate = house.rooms.gate("gate_pure");
    gate.entered().await;
    let _other = house.engine.start().await.unwrap();
    house.clock.advance(LEASE);
    let run = house.until(accepted.run, |row| row.phase == "queued").await;
    assert!(!run.ready && run.not_before > house.clock.now(), "a grace of one lease");
    house.clock.advance(LEASE);
    gate.entered().await;
    gate.open(2);
    let run = house.ended(accepted.run).await;
    assert_eq!((run.status.as_str(), run.epoch), ("ok", 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn g07_what_comes_back_after_another_took_over_writes_nothing() {
    let house = House::new(vec![scripted::call("gate_opaque", json!({}))]).await;
    let lost = house.node(frozen()).start().await.unwrap();
    let accepted = house.say("chat", "hi").await;
    let gate = house.rooms.gate("gate_opaque");
    gate.entered().await;
    let _other = house.engine.start().await.unwrap();
    house.clock.advance(LEASE);
    house.until(accepted.run, |row| row.phase == "queued").await;
    house.clock.advance(LEASE);
    let ended = house.ended(accepted.run).await;
    let events = house.events(accepted.run).await;
    // The first one thaws and has its result.
    gate.open(1);
    lost.stop(NEVER).await;
    assert_eq!(house.run(accepted.run).await, ended, "the row is as it was");
    assert_eq!(house.events(accepted.run).await, events);
    let first_new = events.iter().position(|event| event.epoch == 2).unwrap();
    assert!(events[first_new..].iter().all(|event| event.epoch == 2), "{events:?}");
    assert_eq!(house.rooms.calls("gate_opaque"), 1, "nobody knows what came of it, so never again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a16_07_a_worker_that_slept_through_its_lease_does_not_write_on() {
    let house = House::new(vec![scripted::call("gate_pure", json!({}))]).await;
    let lost = house.node(frozen()).start().await.unwrap();
    let accepted = house.say("chat", "hi").await;
    let gate = house.rooms.gate("gate_pure");
    gate.entered().await;
    let _other = house.engine.start().await.unwrap();
    house.clock.advance(LEASE);
    house.until(accepted.run, |row| row.phase == "queued").await;
    // It wakes before anybody has begun again, and still has lost.
    gate.open(1);
    lost.stop(NEVER).await;
    let waiting = house.run(accepted.run).await;
    assert_eq!((waiting.phase.as_str(), waiting.epoch), ("queued", 1));
    let kinds = house.kinds(accepted.run).await;
    assert_eq!(kinds.last().map(String::as_str), Some("worker_lost"), "{kinds:?}");
    house.clock.advance(LEASE);
    gate.entered().await;
    gate.open(1);
    let run = house.ended(accepted.run).await;
    assert_eq!((run.status.as_str(), run.epoch, gate.came()), ("ok", 2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn g08_a_session_has_one_writer_however_many_workers_there_are() {
    let house = House::new(vec![scripted::call("gate_pure", json!({}))]).await;
    let nodes: Vec<_> = (0..3).map(|_| house.node(quick())).collect();
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
        runs.push(house.accept(queued(&format!("turn {turn}"))).await.run);
    }
    let gate = house.rooms.gate("gate_pure");
    gate.open(runs.len());
    for run in &runs {
        assert_eq!(house.ended(*run).await.status, "ok");
    }
    assert_eq!((gate.came(), gate.most()), (12, 1));
    assert_eq!(house.class().await.running, 0, "g09: nothing works, nothing is counted");
}

#[tokio::test(flavor = "multi_thread")]
async fn g10_the_clock_of_a_worker_decides_nothing() {
    let house = House::new(vec![scripted::call("gate_pure", json!({}))]).await;
    house.clock.advance(Duration::from_secs(600));
    let minutes = |minutes: u64| {
        let env = Env::simulated(minutes);
        env.advance(Duration::from_secs(60 * minutes));
        env
    };
    // Five minutes behind the database, and five minutes ahead of it.
    let late = house.node_on(&house.store, frozen(), minutes(5));
    let early = house.node_on(&house.store, quick(), minutes(15));
    let _late = late.start().await.unwrap();
    let accepted = house.say("chat", "hi").await;
    let gate = house.rooms.gate("gate_pure");
    gate.entered().await;
    let _early = early.start().await.unwrap();
    house.clock.advance(LEASE - TICK);
    early.maintenance().reconcile().await.unwrap();
    let run = house.run(accepted.run).await;
    assert_eq!((run.epoch, run.phase.as_str()), (1, "leased"), "no lease ends early");
    house.clock.advance(TICK);
    house.until(accepted.run, |row| row.phase == "queued").await;
    house.clock.advance(LEASE);
    gate.entered().await;
    gate.open(2);
    assert_eq!(house.ended(accepted.run).await.status, "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn g11_a_lost_lease_stops_the_attempt_within_a_heartbeat() {
    let house = House::answering(|request, _| match last_result(request).as_str() {
        "" => scripted::call("gate_opaque", json!({})),
        result => scripted::text(format!("told: {result}")),
    })
    .await;
    // It looks at its rows, and does not renew its leases.
    let lost = house.node(EngineOptions { heartbeat: NEVER, ..quick() });
    let _lost = lost.start().await.unwrap();
    let accepted = house.say("chat", "hi").await;
    let gate = house.rooms.gate("gate_opaque");
    gate.entered().await;
    // Somebody who takes no runs keeps house.
    let keeper = house.node(EngineOptions { capacity: 0, ..quick() });
    let _keeper = keeper.start().await.unwrap();
    house.clock.advance(LEASE);
    house.until(accepted.run, |row| row.phase == "queued").await;
    gate.stopped().await;
    let steps = house.kinds(accepted.run).await;
    assert_eq!(steps.last().map(String::as_str), Some("worker_lost"), "{steps:?}");
    house.clock.advance(LEASE);
    let run = house.ended(accepted.run).await;
    assert!(text(&run).contains("unknown"), "{}", text(&run));
    assert_eq!(gate.came(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_cannot_renew_its_leases_stops_by_itself() {
    let house = House::new(vec![scripted::call("gate_pure", json!({}))]).await;
    let lease = Duration::from_millis(50);
    let node = house.node(EngineOptions { lease, ..quick() });
    let _worker = node.start().await.unwrap();
    let accepted = house.say("chat", "hi").await;
    let gate = house.rooms.gate("gate_pure");
    gate.entered().await;
    house.rooms.outage.store(true, Ordering::SeqCst);
    gate.stopped().await;
    house.rooms.outage.store(false, Ordering::SeqCst);
    gate.open(1);
    assert_eq!(house.ended(accepted.run).await.status, "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_was_dropped_is_taken_over_at_once() {
    let house = House::new(vec![scripted::call("gate_pure", json!({}))]).await;
    let first = house.engine.start().await.unwrap();
    let accepted = house.say("chat", "hi").await;
    let gate = house.rooms.gate("gate_pure");
    gate.entered().await;
    drop(first);
    gate.stopped().await;
    let _second = house.engine.start().await.unwrap();
    gate.open(1);
    let run = house.ended(accepted.run).await;
    assert_eq!((run.status.as_str(), run.epoch), ("ok", 2), "no time has passed");
    assert_eq!(gate.came(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_living_worker_notices_that_another_died() {
    let house = House::new(vec![scripted::call("gate_pure", json!({}))]).await;
    let first = house.engine.start().await.unwrap();
    let accepted = house.say("chat", "hi").await;
    let gate = house.rooms.gate("gate_pure");
    gate.entered().await;
    let _second = house.node(quick()).start().await.unwrap();
    drop(first);
    gate.stopped().await;
    gate.open(1);
    assert_eq!(house.ended(accepted.run).await.status, "ok");
    let live = house.store.read(worker::live).await.unwrap();
    assert_eq!(live.len(), 1, "the dead one is known to be dead");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_does_not_begin_while_the_old_attempt_is_unwound_here() {
    let house = House::new(vec![scripted::call("gate_pure", json!({}))]).await;
    house.rooms.door_closed.store(true, Ordering::SeqCst);
    let node = house.node(quick());
    let _worker = node.start().await.unwrap();
    let accepted = house.say("chat", "hi").await;
    house.rooms.door.entered().await;
    house.rooms.door_closed.store(false, Ordering::SeqCst);
    // Somebody takes the run from it by hand; it is told at its next look.
    house
        .meddle(
            "UPDATE run SET phase = 'queued', lease_owner = NULL, lease_until = NULL, ready = 1",
        )
        .await;
    house.meddle("UPDATE exec_class SET running = 0").await;
    house.rooms.door.stopped().await;
    house.rooms.gate("gate_pure").open(1);
    let run = house.ended(accepted.run).await;
    assert_eq!((run.status.as_str(), run.epoch), ("ok", 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn g12_the_fifth_crash_without_progress_ends_the_run() {
    let house = House::new(vec![scripted::text("never").hang()]).await;
    let accepted = house.say("chat", "hi").await;
    for crash in 1..=5 {
        let worker = house.engine.start().await.unwrap();
        house.until(accepted.run, |row| row.epoch == crash && row.phase == "leased").await;
        while house.rooms.model_calls() < usize::try_from(crash).unwrap() {
            tokio::task::yield_now().await;
        }
        drop(worker);
    }
    let _worker = house.engine.start().await.unwrap();
    let run = house.ended(accepted.run).await;
    assert_eq!((run.status.as_str(), run.outcome_code.as_deref()), ("error", Some("crash_loop")));
    assert_eq!((run.crash_count, run.claim_count), (5, 5));
    assert_eq!(house.rooms.model_calls(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn g12_a_crash_loop_waits_for_an_operator_who_wants_that() {
    let house = House::new(vec![scripted::call("gate_pure", json!({}))]).await;
    let accepted = house.say_with("chat", json!({"retry": {"pause_at_end": true}})).await;
    let gate = house.rooms.gate("gate_pure");
    for _ in 1..=5 {
        let worker = house.engine.start().await.unwrap();
        gate.entered().await;
        drop(worker);
        gate.stopped().await;
    }
    let _worker = house.engine.start().await.unwrap();
    let run = house.parked(accepted.run).await;
    assert_eq!(run.parked_for.as_deref(), Some("operator"));
    assert_eq!(run.outcome_code.as_deref(), Some("crash_loop"));
    assert_eq!(
        query::task::get(house.engine.store(), &house.namespace, accepted.task)
            .await
            .unwrap()
            .state,
        "waiting"
    );
    gate.open(1);
    house.engine.runs().resume(&house.namespace, accepted.run, "operator").await.unwrap();
    let run = house.ended(accepted.run).await;
    assert_eq!((run.status.as_str(), run.outcome_code.as_deref()), ("ok", None));
    let again = house.engine.runs().resume(&house.namespace, accepted.run, "operator").await;
    assert_eq!(again.unwrap_err().code(), "already_terminal");
}

#[tokio::test(flavor = "multi_thread")]
async fn g12_progress_resets_the_count_of_crashes() {
    let turns = (0..6).map(|_| scripted::call("gate_pure", json!({}))).collect();
    let house = House::new(turns).await;
    let accepted = house.say("chat", "hi").await;
    let gate = house.rooms.gate("gate_pure");
    for crash in 1..=8 {
        let worker = house.engine.start().await.unwrap();
        gate.entered().await;
        if crash % 2 == 0 {
            // This time the call gets its result, and the next one is cut off.
            gate.open(1);
            gate.entered().await;
        }
        drop(worker);
        gate.stopped().await;
    }
    let _worker = house.engine.start().await.unwrap();
    gate.open(9);
    let run = house.ended(accepted.run).await;
    assert_eq!((run.status.as_str(), run.crash_count), ("ok", 0));
    assert_eq!(run.claim_count, 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn g55_an_old_build_leaves_runs_of_a_newer_one_alone() {
    let house = House::new(vec![scripted::text("hello")]).await;
    let newer = house.say("newer", "hi").await;
    house.meddle("UPDATE run SET min_build = min_build + 1").await;
    let older = house.say("older", "hi").await;
    let _worker = house.engine.start().await.unwrap();
    assert_eq!(house.ended(older.run).await.status, "ok");
    assert_eq!(house.run(newer.run).await.phase, "queued");
    house.meddle("UPDATE run SET min_build = min_build - 1 WHERE phase = 'queued'").await;
    assert_eq!(house.ended(newer.run).await.status, "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn g56_an_outage_of_the_database_loses_nothing_and_starts_nothing() {
    let house = House::new(vec![
        scripted::call("gate_pure", json!({})),
        scripted::call("opaque", json!({})),
    ])
    .await;
    let _worker = house.engine.start().await.unwrap();
    let accepted = house.say("chat", "hi").await;
    let gate = house.rooms.gate("gate_pure");
    gate.entered().await;
    house.rooms.outage.store(true, Ordering::SeqCst);
    gate.open(1);
    let refused = house.engine.submit(&house.namespace, command("other", "hi")).await;
    assert_eq!(refused.unwrap_err().code(), "store_busy");
    assert_eq!(house.rooms.calls("opaque"), 0, "what cannot be written down does not happen");
    house.rooms.outage.store(false, Ordering::SeqCst);
    gate.open(1);
    let run =
        house.until(accepted.run, |row| row.phase == "done" || row.not_before > house.clock.now());
    if run.await.phase != "done" {
        house.clock.advance(Duration::from_secs(2));
    }
    let run = house.ended(accepted.run).await;
    assert_eq!((run.status.as_str(), run.failure_count), ("ok", 0));
    assert_eq!(house.rooms.calls("opaque"), 1);
}
