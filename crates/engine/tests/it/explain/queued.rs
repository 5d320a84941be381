//! Runs that wait for their time, their session, a place, or somebody who works.

use std::sync::atomic::Ordering;
use std::time::Duration;

use provost_core::command::TaskRequest;
use provost_core::scheduling::{ExecutionClassKey, InputMode};
use provost_core::{Env, RunId, WorkerId};
use provost_engine::{
    ConcurrencyScope, EngineOptions, InputRequest, JOURNAL_FORMAT_VERSION, ServedSessions,
};
use provost_model as scripted;
use provost_store::table::scheduling::worker;
use provost_store::{WorkerLock, lock_dir};
use serde_json::json;

use super::{commands, explained_by, named, named_by, until};
use crate::cluster::{Cluster, NEVER, frozen, quick};
use crate::harness::command;

pub(super) async fn gated() -> Cluster {
    Cluster::new(vec![scripted::call("gate_pure", json!({}))]).await
}

/// A worker that is alive and never does anything, until this is dropped.
pub(super) async fn idle(cluster: &Cluster) -> WorkerLock {
    let (id, at) = (Env::system().id::<WorkerId>(), cluster.clock.now());
    let lock = WorkerLock::acquire(&lock_dir(cluster.store.path()), id).unwrap();
    let row = worker::WorkerRow {
        id,
        host: String::new(),
        pid: u64::from(std::process::id()),
        build: JOURNAL_FORMAT_VERSION,
        lock_path: lock.path().display().to_string(),
        started: at,
        last_heartbeat: at,
        stopped: None,
        pool: "default".to_owned(),
        capacity: 1,
        session_filter: None,
        claims_paused_until: None,
        draining: None,
    };
    cluster.store.write(move |tx| row.insert(tx)).await.unwrap();
    lock
}

pub(super) fn behind(session: &str, text: &str) -> TaskRequest {
    TaskRequest { queue_mode: Some(InputMode::Queue), new_task: true, ..command(session, text) }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_worker_is_alive() {
    let cluster = gated().await;
    let run = cluster.say("chat", "go").await.run;
    let told = named(&cluster, run, "waiting_no_worker", &[&run, &"no worker is alive"]).await;
    assert_eq!(commands(&told)[0], "provost serve");
    assert_eq!(told.state, "queued");
    // One that died is not alive either.
    let idle = idle(&cluster).await;
    named(&cluster, run, "ready", &[&"1 worker is alive"]).await;
    drop(idle);
    until(&cluster.engine, run, "waiting_no_worker").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_class_is_paused() {
    let cluster = gated().await;
    let run = cluster.say("chat", "go").await.run;
    let key: ExecutionClassKey = cluster.class().await.key.parse().unwrap();
    cluster.engine.classes().set_target(&cluster.namespace, &key, 0).await.unwrap();
    let _worker = cluster.engine.start().await.unwrap();
    let told =
        named(&cluster, run, "waiting_class_paused", &[&run, &key.as_str(), &"paused"]).await;
    assert_eq!(commands(&told)[0], format!("provost class set {} 8", key.as_str()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_class_is_at_its_target() {
    let cluster = gated().await;
    let first = cluster.say("first", "go").await.run;
    let key: ExecutionClassKey = cluster.class().await.key.parse().unwrap();
    cluster.engine.classes().set_target(&cluster.namespace, &key, 1).await.unwrap();
    let _worker = cluster.engine.start().await.unwrap();
    cluster.rooms.gate("gate_pure").entered().await;
    let second = cluster.say("second", "go").await.run;
    let names: [&dyn std::fmt::Display; 3] = [&second, &"1 of 1 slots", &key.as_str()];
    let told = named(&cluster, second, "waiting_class_full", &names).await;
    assert_eq!(told.related, [key.as_str()]);
    assert_ne!(explained_by(&cluster.engine, first).await.code, "waiting_class_full");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_breaker_is_open() {
    let cluster = Cluster::new(vec![scripted::text("hello")]).await;
    let once = json!({"retry": {"max_attempts": 1}});
    cluster.rooms.broken.store(true, Ordering::SeqCst);
    let _worker = cluster.engine.start().await.unwrap();
    for failure in 0..5 {
        let run = cluster.say_with(&format!("bad{failure}"), once.clone()).await.run;
        cluster.ended(run).await;
        let names: [&dyn std::fmt::Display; 3] = [&run, &"its place is gone", &"agent `default`"];
        named(&cluster, run, "ended_sandbox_start", &names).await;
    }
    let run = cluster.say_with("waits", once).await.run;
    let names: [&dyn std::fmt::Display; 3] = [&run, &"The last 5 runs", &"in 1 min"];
    named(&cluster, run, "waiting_breaker", &names).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ceiling_of_the_namespace_or_the_pool_is_reached() {
    let cluster = gated().await;
    let _worker = cluster.engine.start().await.unwrap();
    cluster.say("first", "go").await;
    cluster.rooms.gate("gate_pure").entered().await;
    let namespace = ConcurrencyScope::Namespace(cluster.namespace.clone());
    cluster.engine.classes().set_limit(&namespace, Some(1)).await.unwrap();
    let run = cluster.say("second", "go").await.run;
    let names: [&dyn std::fmt::Display; 3] = [&run, &"namespace `default`", &"limited to 1 run"];
    named(&cluster, run, "waiting_namespace_ceiling", &names).await;
    cluster
        .engine
        .classes()
        .set_limit(&ConcurrencyScope::Pool("default".to_owned()), Some(1))
        .await
        .unwrap();
    cluster.engine.classes().set_limit(&namespace, None).await.unwrap();
    let names: [&dyn std::fmt::Display; 2] = [&run, &"pool `default`"];
    named(&cluster, run, "waiting_pool_ceiling", &names).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_run_of_the_session_is_at_work_or_waits_itself() {
    let cluster = gated().await;
    let worker = cluster.engine.start().await.unwrap();
    let first = cluster.say("chat", "go").await.run;
    cluster.rooms.gate("gate_pure").entered().await;
    let second = cluster.accept(behind("chat", "go")).await.run;
    let third = cluster.accept(behind("chat", "go")).await.run;
    let names: [&dyn std::fmt::Display; 3] = [&second, &first, &"`chat`"];
    let told = named(&cluster, second, "waiting_session_busy", &names).await;
    assert_eq!(told.related[0], first.to_string());
    assert!(commands(&told).contains(&format!("provost explain {first}").as_str()));
    let other = told.evidence.iter().find(|seen| seen.what == "the other run").unwrap();
    assert!(other.value.contains("`gate_pure`"), "the root is told as well: {other:?}");
    named(&cluster, third, "waiting_session_busy", &[&third, &first]).await;
    worker.stop(Duration::from_millis(1)).await;
    // Nobody works, and the first one has lost the session: the second is behind it.
    named(&cluster, second, "waiting_session_held", &[&second, &first]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_for_an_approval_has_the_session() {
    let cluster = Cluster::new(vec![scripted::call("risky", json!({}))]).await;
    let _worker = cluster.engine.start().await.unwrap();
    let first = cluster.say("chat", "go").await.run;
    cluster.parked(first).await;
    let asked = cluster.questions().await[0].id;
    let second = cluster.accept(behind("chat", "go")).await.run;
    let names: [&dyn std::fmt::Display; 3] = [&second, &first, &"parked for approval"];
    let told = named(&cluster, second, "waiting_session_held", &names).await;
    assert!(told.related.contains(&asked.to_string()), "what would help: {told:#?}");
    assert!(commands(&told).contains(&format!("provost approval approve {asked}").as_str()));
}

#[tokio::test(flavor = "multi_thread")]
async fn others_of_the_session_came_first() {
    let cluster = gated().await;
    let first = cluster.say("chat", "go").await.run;
    cluster.accept(behind("chat", "go")).await;
    let third = cluster.accept(behind("chat", "go")).await.run;
    let names: [&dyn std::fmt::Display; 3] = [&third, &first, &"behind 2 runs"];
    let told = named(&cluster, third, "waiting_session_turn", &names).await;
    assert_eq!(told.related, [first.to_string()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_being_collected() {
    let cluster = gated().await;
    let _worker = cluster.engine.start().await.unwrap();
    let accepted = cluster.say("chat", "go").await;
    cluster.rooms.gate("gate_pure").entered().await;
    let mut run: Option<RunId> = None;
    for text in ["one", "two"] {
        let request = InputRequest::text(text).mode(InputMode::Collect);
        let said =
            cluster.engine.inputs().send(&cluster.namespace, accepted.task, request).await.unwrap();
        run = Some(said.run);
    }
    let run = run.unwrap();
    let names: [&dyn std::fmt::Display; 3] = [&run, &"2 messages", &"in 500 ms"];
    named(&cluster, run, "waiting_more_messages", &names).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_was_asked_for_later_and_its_task_sleeps() {
    let cluster = gated().await;
    let _worker = cluster.engine.start().await.unwrap();
    let later = TaskRequest { delay_ms: Some(90_000), ..command("chat", "go") };
    let accepted = cluster.accept(later).await;
    let names: [&dyn std::fmt::Display; 2] = [&accepted.run, &"in 1 min 30 s"];
    named(&cluster, accepted.run, "waiting_start_time", &names).await;
    let names: [&dyn std::fmt::Display; 2] = [&accepted.task, &"in 1 min 30 s"];
    let told = named(&cluster, accepted.task, "task_sleeping", &names).await;
    assert_eq!(
        (told.state.as_str(), told.related[0].clone()),
        ("sleeping", accepted.run.to_string())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn all_workers_are_full() {
    let cluster = gated().await;
    let node = cluster.node(EngineOptions { capacity: 1, ..quick() });
    let _worker = node.start().await.unwrap();
    cluster.say("first", "go").await;
    cluster.rooms.gate("gate_pure").entered().await;
    let run = cluster.say("second", "go").await.run;
    let names: [&dyn std::fmt::Display; 3] = [&run, &"1 worker alive", &"executing 1 of at most 1"];
    named_by(&node, run, "waiting_workers_full", &names).await;
    // Whoever asks, it is what the worker itself can carry that counts.
    named(&cluster, run, "waiting_workers_full", &names).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_workers_take_runs_of_another_pool() {
    let cluster = gated().await;
    let options = EngineOptions { pool: "gpu".to_owned(), ..quick() };
    let _worker = cluster.node(options).start().await.unwrap();
    let run = cluster.say("chat", "go").await.run;
    let names: [&dyn std::fmt::Display; 3] = [&run, &"of the pool `default`", &"the pool `gpu`"];
    let told = named(&cluster, run, "waiting_pool_worker", &names).await;
    assert_eq!(commands(&told)[0], "provost serve");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_workers_serve_other_sessions() {
    let cluster = gated().await;
    let focus = ServedSessions::default();
    focus.add(&cluster.namespace, "elsewhere");
    focus.add(&"stranger".parse().unwrap(), "chat");
    let node = cluster.node(EngineOptions { served_sessions: Some(focus.clone()), ..quick() });
    let _worker = node.start().await.unwrap();
    let run = cluster.say("chat", "go").await.run;
    let names: [&dyn std::fmt::Display; 3] = [&run, &"its session `chat`", &"1 worker alive"];
    let told = named(&cluster, run, "waiting_session_worker", &names).await;
    let served = told.evidence.iter().find(|seen| seen.what == "served sessions");
    assert_eq!(served.unwrap().value, "elsewhere, chat");
    // A session that it serves later is in its row as well.
    let other = cluster.say("later", "go").await.run;
    focus.add(&cluster.namespace, "later");
    cluster.rooms.gate("gate_pure").entered().await;
    until(&cluster.engine, other, "tool_running").await;
    let (id, session) = (cluster.run(other).await.lease_owner.unwrap(), "later");
    let told = async {
        loop {
            let row = cluster.store.read(move |tx| worker::get(tx, id)).await.unwrap().unwrap();
            if row.session_filter.unwrap().contains(session) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), told).await.expect("the row names the session");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_workers_of_an_older_build_are_alive() {
    let cluster = gated().await;
    let run = cluster.say("chat", "go").await.run;
    cluster.meddle("UPDATE run SET min_build = 1 + min_build").await;
    let _worker = cluster.engine.start().await.unwrap();
    let (newer, ours) = (
        format!("build {}", JOURNAL_FORMAT_VERSION + 1),
        format!("build {JOURNAL_FORMAT_VERSION}"),
    );
    let names: [&dyn std::fmt::Display; 3] = [&run, &newer, &ours];
    named(&cluster, run, "waiting_newer_worker", &names).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_workers_are_stopping() {
    let cluster = gated().await;
    let worker = cluster.engine.start().await.unwrap();
    let id = worker.id();
    let first = cluster.say("first", "go").await.run;
    let gate = cluster.rooms.gate("gate_pure");
    gate.entered().await;
    let stopping = tokio::spawn(worker.stop(NEVER));
    let told = until(&cluster.engine, first, "worker_draining").await;
    assert!(told.cause.contains(&id.to_string()), "{}", told.cause);
    let second = cluster.say("second", "go").await.run;
    let told = named(&cluster, second, "waiting_workers_draining", &[&second, &"draining"]).await;
    assert_eq!(told.related, [id.to_string()]);
    // It is in the database, so everybody knows.
    let elsewhere = cluster.node(quick());
    named_by(&elsewhere, first, "worker_draining", &[&id]).await;
    named_by(&elsewhere, second, "waiting_workers_draining", &[&second]).await;
    gate.open(1);
    stopping.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_ready_or_was_ready_for_too_long() {
    let cluster = gated().await;
    let _idle = idle(&cluster).await;
    let run = cluster.say("chat", "go").await.run;
    named(&cluster, run, "ready", &[&run, &"0 runs of its class"]).await;
    cluster.clock.advance(Duration::from_secs(60));
    let names: [&dyn std::fmt::Display; 3] = [&run, &"ready for 1 min", &"the pool `default`"];
    named(&cluster, run, "ready_not_claimed", &names).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_due_and_not_marked() {
    let cluster = gated().await;
    let run = cluster.say("chat", "go").await.run;
    cluster.meddle("UPDATE run SET ready = 0").await;
    let _worker = cluster.node(frozen()).start().await.unwrap();
    named(&cluster, run, "due_not_marked", &[&run, &"not marked as ready"]).await;
}
