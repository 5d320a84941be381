//! How many runs work at once, who is next, and the breaker that really opens.

use std::sync::atomic::Ordering;
use std::time::Duration;

use provost_core::id::name::Namespace;
use provost_core::lifecycle::{RunPhase, RunStatus};
use provost_core::recovery::OutcomeCode;
use provost_core::resource::AgentSpec;
use provost_core::scheduling::{ClassHealth, ExecutionClassKey};
use provost_core::usage::limits::CLASS_PROBE_AFTER;
use provost_engine::{ConcurrencyScope, Engine, EngineOptions};
use provost_model::{self as scripted};
use provost_store::query;
use serde_json::json;

use crate::cluster::{Cluster, quick};
use crate::harness::command;

async fn gated() -> Cluster {
    Cluster::new(vec![scripted::call("gate_pure", json!({}))]).await
}

async fn key(cluster: &Cluster) -> ExecutionClassKey {
    cluster.class().await.key.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn g09_a_class_never_runs_more_than_its_target() {
    let cluster = gated().await;
    let mut runs = vec![cluster.say("s0", "go").await.run];
    let key = key(&cluster).await;
    cluster.engine.classes().set_target(&cluster.namespace, &key, 2).await.unwrap();
    for session in 1..8 {
        runs.push(cluster.say(&format!("s{session}"), "go").await.run);
    }
    let others: Vec<Engine> = (0..2).map(|_| cluster.node(quick())).collect();
    let mut workers = Vec::new();
    for node in others.iter().chain([&cluster.engine]) {
        workers.push(node.start().await.unwrap());
    }
    let gate = cluster.rooms.gate("gate_pure");
    gate.entered().await;
    for _ in &runs[1..] {
        gate.entered().await;
        let class = cluster.class().await;
        assert_eq!((class.running, class.max_running), (2, 2));
        gate.open(1);
    }
    gate.open(1);
    for run in &runs {
        assert_eq!(cluster.ended(*run).await.status, RunStatus::Ok);
    }
    assert_eq!(gate.most(), 2);
    assert_eq!(cluster.class().await.running, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn g09_a_count_that_is_wrong_is_repaired() {
    let cluster = gated().await;
    let accepted = cluster.say("chat", "go").await;
    cluster.meddle("UPDATE exec_class SET running = desired").await;
    cluster.meddle("UPDATE run SET ready = 0").await;
    let _worker = cluster.engine.start().await.unwrap();
    cluster.engine.maintenance().reconcile().await.unwrap();
    let gate = cluster.rooms.gate("gate_pure");
    gate.entered().await;
    assert_eq!(cluster.class().await.running, 1);
    gate.open(1);
    cluster.ended(accepted.run).await;
    assert_eq!(cluster.class().await.running, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a16_02_a_target_of_zero_pauses_and_is_obeyed() {
    let cluster = gated().await;
    let first = cluster.say("first", "go").await;
    let key = key(&cluster).await;
    let _worker = cluster.engine.start().await.unwrap();
    let gate = cluster.rooms.gate("gate_pure");
    gate.entered().await;
    cluster.engine.classes().set_target(&cluster.namespace, &key, 0).await.unwrap();
    let second = cluster.say("second", "go").await;
    gate.open(1);
    assert_eq!(cluster.ended(first.run).await.status, RunStatus::Ok, "what works goes on");
    cluster.engine.maintenance().reconcile().await.unwrap();
    assert_eq!((cluster.run(second.run).await.phase.as_str(), gate.came()), ("queued", 1));
    cluster.engine.classes().set_target(&cluster.namespace, &key, 1).await.unwrap();
    gate.open(1);
    assert_eq!(cluster.ended(second.run).await.status, RunStatus::Ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn a16_02_the_breaker_opens_after_failures_to_run_and_closes_after_a_probe() {
    let cluster = Cluster::new(vec![scripted::text("hello")]).await;
    let once = json!({"retry": {"max_attempts": 1}});
    cluster.rooms.broken.store(true, Ordering::SeqCst);
    let _worker = cluster.engine.start().await.unwrap();
    for failure in 0..5 {
        let accepted = cluster.say_with(&format!("bad{failure}"), once.clone()).await;
        let run = cluster.ended(accepted.run).await;
        assert_eq!(run.outcome_code.map(OutcomeCode::as_str), Some("sandbox_start"));
    }
    assert_eq!(cluster.class().await.health, ClassHealth::Degraded);
    cluster.rooms.broken.store(false, Ordering::SeqCst);
    let first = cluster.say_with("good0", once.clone()).await;
    let second = cluster.say_with("good1", once).await;
    cluster.engine.maintenance().reconcile().await.unwrap();
    for waiting in [first.run, second.run] {
        assert_eq!(
            cluster.run(waiting).await.phase,
            RunPhase::Queued,
            "an open breaker starts nothing"
        );
    }
    cluster.clock.advance(CLASS_PROBE_AFTER);
    for probed in [first.run, second.run] {
        assert_eq!(cluster.ended(probed).await.status, RunStatus::Ok);
    }
    assert_eq!(cluster.class().await.health, ClassHealth::Healthy);
}

#[tokio::test(flavor = "multi_thread")]
async fn a16_03_cancelled_runs_and_lost_workers_do_not_open_the_breaker() {
    let cluster = gated().await;
    let gate = cluster.rooms.gate("gate_pure");
    let worker = cluster.engine.start().await.unwrap();
    for run in 0..6 {
        let accepted = cluster.say(&format!("s{run}"), "go").await;
        gate.entered().await;
        cluster.engine.runs().cancel(&cluster.namespace, accepted.run).await.unwrap();
        assert_eq!(cluster.ended(accepted.run).await.status, RunStatus::Cancelled);
    }
    let lost: Vec<_> = {
        let mut lost = Vec::new();
        for run in 0..6 {
            lost.push(cluster.say(&format!("lost{run}"), "go").await.run);
            gate.entered().await;
        }
        lost
    };
    drop(worker);
    for _ in 0..12 {
        // Six that were cancelled, six that were lost.
        gate.stopped().await;
    }
    gate.open(lost.len());
    let _worker = cluster.engine.start().await.unwrap();
    for run in lost {
        assert_eq!(cluster.ended(run).await.status, RunStatus::Ok);
    }
    assert_eq!(cluster.class().await.health, ClassHealth::Healthy);
}

#[tokio::test(flavor = "multi_thread")]
async fn ceilings_hold_across_classes() {
    let cluster = gated().await;
    cluster.agent("other", json!({"policy": {"interactive": true}})).await;
    let mut runs = Vec::new();
    for run in 0..6 {
        let agent = ["default", "other"][run % 2];
        let told = command(&format!("s{run}"), "go");
        let told = provost_core::command::TaskRequest { agent: Some(agent.to_owned()), ..told };
        runs.push(cluster.accept(told).await.run);
    }
    let ceiling = ConcurrencyScope::Namespace(cluster.namespace.clone());
    cluster.engine.classes().set_limit(&ceiling, Some(2)).await.unwrap();
    cluster
        .engine
        .classes()
        .set_limit(&ConcurrencyScope::Pool("default".to_owned()), Some(3))
        .await
        .unwrap();
    let _worker = cluster.engine.start().await.unwrap();
    let gate = cluster.rooms.gate("gate_pure");
    for _ in &runs[..2] {
        gate.entered().await;
    }
    cluster.engine.maintenance().reconcile().await.unwrap();
    assert_eq!(gate.most(), 2, "the lower ceiling counts");
    cluster.engine.classes().set_limit(&ceiling, None).await.unwrap();
    gate.entered().await;
    assert_eq!(gate.most(), 3);
    gate.open(runs.len());
    for run in &runs {
        assert_eq!(cluster.ended(*run).await.status, RunStatus::Ok);
    }
    assert_eq!(gate.most(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_take_turns_whoever_has_more_waiting() {
    let cluster = gated().await;
    let small: Namespace = "small".parse().unwrap();
    let config = AgentSpec::default();
    cluster.engine.put_agent(&small, "default", None, config).await.unwrap();
    let mut large_runs = Vec::new();
    for run in 0..6 {
        large_runs.push(cluster.say(&format!("s{run}"), "go").await.run);
    }
    cluster.clock.advance(Duration::from_secs(60));
    let late = cluster.engine.submit(&small, command("late", "go")).await.unwrap();
    let node = cluster.node(EngineOptions { capacity: 1, ..quick() });
    let _worker = node.start().await.unwrap();
    let gate = cluster.rooms.gate("gate_pure");
    gate.entered().await;
    gate.open(1);
    gate.entered().await;
    let second = query::run::get(cluster.engine.store(), &small, late.run).await.unwrap();
    assert_eq!(second.phase, RunPhase::Leased, "one of the many, then the only one of the other");
    gate.open(10);
    for run in large_runs {
        assert_eq!(cluster.ended(run).await.status, RunStatus::Ok);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_of_somebody_else_is_not_found_and_a_target_has_bounds() {
    let cluster = gated().await;
    cluster.say("chat", "go").await;
    let key = key(&cluster).await;
    let stranger: Namespace = "stranger".parse().unwrap();
    let refused = cluster.engine.classes().set_target(&stranger, &key, 1).await.unwrap_err();
    assert_eq!(refused.code(), "not_found");
    let refused = cluster.engine.classes().set_target(&cluster.namespace, &key, u64::MAX).await;
    assert_eq!(refused.unwrap_err().code(), "invalid");
    assert!("execclass_1".parse::<ExecutionClassKey>().is_err());
    assert_eq!(cluster.class().await.max_running, 8);
}
