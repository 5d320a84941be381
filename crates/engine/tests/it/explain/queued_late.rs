//! Runs that wait after something went wrong, and runs whose time is nearly over.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use provost_core::command::TaskRequest;
use provost_core::{Env, EventKind, WorkerId};
use provost_engine::{BUILD, BootGuard, EngineOptions};
use provost_model::{self as scripted, ModelError, ModelErrorClass, Turn};
use provost_store::table::scheduling::{process_start, worker};
use serde_json::json;

use super::queued::{gated, idle};
use super::{commands, named, named_by, until};
use crate::house::{House, LEASE, frozen, quick};
use crate::stage::command;

const MINUTE: Duration = Duration::from_secs(60);

/// A model that fails once, then answers.
async fn failing(failure: impl Fn() -> Turn + Send + Sync + 'static) -> House {
    let asked = Arc::new(AtomicUsize::new(0));
    House::answering(move |_, _| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => failure(),
        _ => scripted::text("hello"),
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_try_failed_and_the_next_one_waits() {
    let house = failing(|| scripted::fail(ModelErrorClass::Overloaded, "too many people")).await;
    let _worker = house.engine.start().await.unwrap();
    let policy = json!({"retry": {"max_attempts": 3, "delay_ms": 5000, "jitter": "none"}});
    let run = house.say_with("chat", policy).await.run;
    house.until(run, |row| row.failure_count == 1).await;
    let names: [&dyn std::fmt::Display; 5] =
        [&run, &"provider_overloaded", &"too many people", &"try 2 of 3", &"in 5 s"];
    named(&house, run, "waiting_retry", &names).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_provider_wants_to_be_left_alone() {
    let house = failing(|| {
        let mut error = ModelError::new(ModelErrorClass::RateLimited, "come back later");
        error.retry_after = Some(Duration::from_secs(900));
        Turn::default().then_fail(error)
    })
    .await;
    let _worker = house.engine.start().await.unwrap();
    let patient = TaskRequest { timeout_ms: Some(0), ..command("chat", "go") };
    let run = house.accept(patient).await.run;
    house.until(run, |row| row.failure_count == 1).await;
    let names: [&dyn std::fmt::Display; 3] = [&run, &"tries again in 1", &"come back later"];
    named(&house, run, "waiting_rate_limit", &names).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn its_worker_was_lost_and_may_come_back() {
    let house = gated().await;
    let lost = house.node(frozen()).start().await.unwrap();
    let run = house.say("chat", "go").await.run;
    house.rooms.gate("gate_pure").entered().await;
    let _other = house.engine.start().await.unwrap();
    house.clock.advance(LEASE);
    house.until(run, |row| row.phase == "queued").await;
    let told = named(&house, run, "waiting_lost_worker", &[&run, &"was lost", &"in 30 s"]).await;
    let last = told.evidence.iter().find(|seen| seen.what == "last worker").unwrap();
    assert_eq!(last.value, lost.id().to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_database_refused_what_the_last_attempt_wrote() {
    let house = gated().await;
    let _worker = house.engine.start().await.unwrap();
    let run = house.say("chat", "go").await.run;
    let mut follow = house.engine.runs().follow(&house.namespace, run);
    let gate = house.rooms.gate("gate_pure");
    gate.entered().await;
    house.rooms.outage.store(true, Ordering::SeqCst);
    gate.open(1);
    // The attempt has failed to write; what becomes of it is written once the database takes it.
    while !matches!(follow.next().await.unwrap().unwrap().kind, EventKind::Failed { .. }) {}
    house.rooms.outage.store(false, Ordering::SeqCst);
    until(&house.engine, run, "waiting_database").await;
    named(&house, run, "waiting_database", &[&run, &"in 1 s", &"an outage"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_crashed_again_and_again() {
    let house = gated().await;
    for pid in 0..3_u64 {
        let (id, at) = (Env::system().id::<WorkerId>(), house.clock.now());
        let crashed = house.store.write(move |tx| {
            let row = worker::WorkerRow {
                id,
                host: String::new(),
                // No process has such a number.
                pid: u64::from(u32::MAX) + pid,
                build: BUILD,
                lock_path: format!("/nowhere/{id}"),
                started: at,
                seen: at,
                stopped: Some(at),
                pool: "default".to_owned(),
                capacity: 1,
                focus: None,
                idle_until: None,
                draining: None,
            };
            row.insert(tx)?;
            process_start::BootRow { id: id.to_string(), started: at, clean_stop: None }.insert(tx)
        });
        crashed.await.unwrap();
    }
    let node =
        house.node(EngineOptions { crash_loop_guard: Some(BootGuard::default()), ..quick() });
    let worker = node.start().await.unwrap();
    assert!(worker.is_guarded());
    let run = house.say("chat", "go").await.run;
    let names: [&dyn std::fmt::Display; 3] = [&run, &"crashed repeatedly", &"in 5 min"];
    named_by(&node, run, "waiting_boot_guard", &names).await;
    named(&house, run, "waiting_boot_guard", &names).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_has_to_start_soon_and_then_nobody_started_it() {
    let house = gated().await;
    let _idle = idle(&house).await;
    let hasty = TaskRequest { queue_timeout_ms: Some(30_000), ..command("chat", "go") };
    let run = house.accept(hasty).await.run;
    named(&house, run, "queue_deadline_near", &[&run, &"in 30 s", &"1 worker is alive"]).await;
    house.clock.advance(MINUTE);
    let _worker = house.engine.start().await.unwrap();
    house.ended(run).await;
    named(&house, run, "ended_queue_deadline", &[&run, &"No worker started"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn its_time_to_start_or_to_end_passed_and_nobody_looked() {
    let house = gated().await;
    let hasty = TaskRequest { queue_timeout_ms: Some(30_000), ..command("chat", "go") };
    let run = house.accept(hasty).await.run;
    let deadline = Some(house.clock.now().after(MINUTE));
    let due = house.accept(TaskRequest { deadline, ..command("due", "go") }).await.run;
    house.clock.advance(2 * MINUTE);
    named(&house, run, "queue_deadline_passed", &[&run, &"1 min 30 s ago"]).await;
    let names: [&dyn std::fmt::Display; 3] = [&due, &"1 min ago", &"no worker is alive"];
    let told = named(&house, due, "deadline_passed", &names).await;
    assert_eq!(commands(&told)[0], "provost serve");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_run_whose_time_is_over_says_so() {
    let house = House::new(vec![scripted::call("risky", json!({}))]).await;
    let worker = house.engine.start().await.unwrap();
    let deadline = Some(house.clock.now().after(MINUTE));
    let run = house.accept(TaskRequest { deadline, ..command("chat", "go") }).await.run;
    house.parked(run).await;
    worker.stop(Duration::ZERO).await;
    house.clock.advance(2 * MINUTE);
    named(&house, run, "deadline_passed", &[&run, &"1 min ago"]).await;
    let _worker = house.engine.start().await.unwrap();
    until(&house.engine, run, "ended_deadline").await;
}
