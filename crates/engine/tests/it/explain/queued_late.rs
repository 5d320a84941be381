//! Runs that wait after something went wrong, and runs whose time is nearly over.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use provost_bus::{BusMessage, Topic};
use provost_core::command::TaskRequest;
use provost_core::lifecycle::RunPhase;
use provost_core::{Env, EventKind, WorkerId};
use provost_engine::{CrashLoopGuard, EngineOptions, JOURNAL_FORMAT_VERSION};
use provost_model::{self as scripted, ModelError, ModelErrorClass, ScriptedTurn};
use provost_store::table::scheduling::{process_start, worker};
use serde_json::json;

use super::queued::{gated, idle};
use super::{commands, named, named_by, until};
use crate::cluster::{Cluster, LEASE, frozen, quick};
use crate::harness::command;

const MINUTE: Duration = Duration::from_secs(60);

/// A model that fails once, then answers.
async fn failing(failure: impl Fn() -> ScriptedTurn + Send + Sync + 'static) -> Cluster {
    let asked = Arc::new(AtomicUsize::new(0));
    Cluster::answering(move |_, _| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => failure(),
        _ => scripted::text("hello"),
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_try_failed_and_the_next_one_waits() {
    let cluster = failing(|| scripted::fail(ModelErrorClass::Overloaded, "too many people")).await;
    let _worker = cluster.engine.start().await.unwrap();
    let policy = json!({"retry": {"max_attempts": 3, "delay_ms": 5000, "jitter": "none"}});
    let run = cluster.say_with("chat", policy).await.run;
    cluster.until(run, |row| row.failure_count == 1).await;
    let names: [&dyn std::fmt::Display; 5] =
        [&run, &"provider_overloaded", &"too many people", &"try 2 of 3", &"in 5 s"];
    named(&cluster, run, "waiting_retry", &names).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_provider_wants_to_be_left_alone() {
    let cluster = failing(|| {
        let mut error = ModelError::new(ModelErrorClass::RateLimited, "come back later");
        error.retry_after = Some(Duration::from_secs(900));
        ScriptedTurn::default().then_fail(error)
    })
    .await;
    let _worker = cluster.engine.start().await.unwrap();
    let patient = TaskRequest { timeout_ms: Some(0), ..command("chat", "go") };
    let run = cluster.accept(patient).await.run;
    cluster.until(run, |row| row.failure_count == 1).await;
    let names: [&dyn std::fmt::Display; 3] = [&run, &"tries again in 1", &"come back later"];
    named(&cluster, run, "waiting_rate_limit", &names).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn its_worker_was_lost_and_may_come_back() {
    let cluster = gated().await;
    let lost = cluster.node(frozen()).start().await.unwrap();
    let run = cluster.say("chat", "go").await.run;
    cluster.rooms.gate("gate_pure").entered().await;
    let _other = cluster.engine.start().await.unwrap();
    cluster.clock.advance(LEASE);
    cluster.until(run, |row| row.phase == RunPhase::Queued).await;
    let told = named(&cluster, run, "waiting_lost_worker", &[&run, &"was lost", &"in 30 s"]).await;
    let last = told.evidence.iter().find(|seen| seen.what == "last worker").unwrap();
    assert_eq!(last.value, lost.id().to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_database_refused_what_the_last_attempt_wrote() {
    let cluster = gated().await;
    let _worker = cluster.engine.start().await.unwrap();
    let run = cluster.say("chat", "go").await.run;
    let mut live = cluster.store.bus().subscribe(Topic::LiveEvents);
    let gate = cluster.rooms.gate("gate_pure");
    gate.entered().await;
    cluster.rooms.outage.store(true, Ordering::SeqCst);
    gate.open(1);
    // The attempt has failed to write; what becomes of it is written once the database takes it.
    loop {
        let BusMessage::Live(live) = live.recv().await.unwrap() else { continue };
        if live.address.run == run && matches!(live.event.kind, EventKind::Failed { .. }) {
            break;
        }
    }
    cluster.rooms.outage.store(false, Ordering::SeqCst);
    until(&cluster.engine, run, "waiting_database").await;
    named(&cluster, run, "waiting_database", &[&run, &"in 1 s", &"an outage"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_crashed_again_and_again() {
    let cluster = gated().await;
    for pid in 0..3_u64 {
        let (id, at) = (Env::system().id::<WorkerId>(), cluster.clock.now());
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
    }
    let node = cluster
        .node(EngineOptions { crash_loop_guard: Some(CrashLoopGuard::default()), ..quick() });
    let worker = node.start().await.unwrap();
    assert!(worker.is_guarded());
    let run = cluster.say("chat", "go").await.run;
    let names: [&dyn std::fmt::Display; 3] = [&run, &"crashed repeatedly", &"in 5 min"];
    named_by(&node, run, "waiting_boot_guard", &names).await;
    named(&cluster, run, "waiting_boot_guard", &names).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_has_to_start_soon_and_then_nobody_started_it() {
    let cluster = gated().await;
    let _idle = idle(&cluster).await;
    let hasty = TaskRequest { queue_timeout_ms: Some(30_000), ..command("chat", "go") };
    let run = cluster.accept(hasty).await.run;
    named(&cluster, run, "queue_deadline_near", &[&run, &"in 30 s", &"1 worker is alive"]).await;
    cluster.clock.advance(MINUTE);
    let _worker = cluster.engine.start().await.unwrap();
    cluster.ended(run).await;
    named(&cluster, run, "ended_queue_deadline", &[&run, &"No worker started"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn its_time_to_start_or_to_end_passed_and_nobody_looked() {
    let cluster = gated().await;
    let hasty = TaskRequest { queue_timeout_ms: Some(30_000), ..command("chat", "go") };
    let run = cluster.accept(hasty).await.run;
    let deadline = Some(cluster.clock.now().after(MINUTE));
    let due = cluster.accept(TaskRequest { deadline, ..command("due", "go") }).await.run;
    cluster.clock.advance(2 * MINUTE);
    named(&cluster, run, "queue_deadline_passed", &[&run, &"1 min 30 s ago"]).await;
    let names: [&dyn std::fmt::Display; 3] = [&due, &"1 min ago", &"no worker is alive"];
    let told = named(&cluster, due, "deadline_passed", &names).await;
    assert_eq!(commands(&told)[0], "provost serve");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_run_whose_time_is_over_says_so() {
    let cluster = Cluster::new(vec![scripted::call("risky", json!({}))]).await;
    let worker = cluster.engine.start().await.unwrap();
    let deadline = Some(cluster.clock.now().after(MINUTE));
    let run = cluster.accept(TaskRequest { deadline, ..command("chat", "go") }).await.run;
    cluster.parked(run).await;
    worker.stop(Duration::ZERO).await;
    cluster.clock.advance(2 * MINUTE);
    named(&cluster, run, "deadline_passed", &[&run, &"1 min ago"]).await;
    let _worker = cluster.engine.start().await.unwrap();
    until(&cluster.engine, run, "ended_deadline").await;
}
