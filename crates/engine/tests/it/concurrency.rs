//! What a worker claims and when, what the rows of leased runs say, and waiting for the end of a run.

use std::time::Duration;

use provost_core::id::name::Namespace;
use provost_core::lifecycle::RunStatus;
use provost_engine::EngineOptions;
use provost_model::{self as scripted};
use provost_store::params;
use serde_json::json;

use crate::cluster::{Cluster, quick};
use crate::harness::command;

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_claims_no_more_runs_than_it_has_permits_and_none_after_its_end() {
    let cluster = Cluster::new(vec![scripted::call("gate_pure", json!({}))]).await;
    let node = cluster.node(EngineOptions { capacity: 1, ..quick() });
    let worker = node.start().await.unwrap();
    let first = node.submit(&cluster.namespace, command("one", "go")).await.unwrap();
    let gate = cluster.rooms.gate("gate_pure");
    gate.entered().await;
    let row = cluster.run(first.run).await;
    assert_eq!((row.phase.as_str(), row.attempt_no, row.epoch), ("leased", 1, 1));
    assert_eq!(cluster.kinds(first.run).await[..2], ["accepted", "attempt_started"]);

    let second = node.submit(&cluster.namespace, command("two", "go")).await.unwrap();
    let row = cluster.run(second.run).await;
    assert_eq!((row.phase.as_str(), row.ready, row.attempt_no), ("queued", true, 0));
    gate.open(2);
    for run in [first.run, second.run] {
        assert_eq!(cluster.ended(run).await.status, RunStatus::Ok);
    }
    assert_eq!((gate.came(), gate.most()), (2, 1), "there is one permit");
    worker.stop(Duration::ZERO).await;
    assert_eq!(cluster.class().await.running, 0);

    let third = node.submit(&cluster.namespace, command("three", "go")).await.unwrap();
    let row = cluster.run(third.run).await;
    assert_eq!((row.phase.as_str(), row.attempt_no), ("queued", 0), "no worker runs");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_longer_comes_first() {
    let cluster = Cluster::new(vec![]).await;
    let waits = cluster.say("one", "go").await;
    cluster.meddle("UPDATE exec_class SET desired = 0").await;
    let worker = cluster.engine.start().await.unwrap();
    let second = cluster.say("two", "go").await;
    let row = cluster.run(second.run).await;
    assert_eq!((row.phase.as_str(), row.attempt_no), ("queued", 0));
    cluster.meddle("UPDATE exec_class SET desired = 8").await;
    let (first, second) = (cluster.ended(waits.run).await, cluster.ended(second.run).await);
    assert!(first.started <= second.started);
    worker.stop(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_row_of_a_run_at_work_counts_its_events_and_steps() {
    let turns = [scripted::call("pure", json!({})), scripted::call("gate_pure", json!({}))];
    let cluster = Cluster::new(turns.to_vec()).await;
    let _worker = cluster.engine.start().await.unwrap();
    let run = cluster.say("chat", "go").await.run;
    let gate = cluster.rooms.gate("gate_pure");
    gate.entered().await;
    let stored = || {
        let sql = "SELECT next_seq, next_step FROM run WHERE id = ?1";
        cluster.store.read(move |tx| tx.fetch_one::<(u64, u64)>(sql, params![run]))
    };
    let (row, events) = (cluster.run(run).await, cluster.events(run).await);
    assert_eq!(row.next_seq, events.len() as u64 + 1);
    assert!(row.next_step > 4, "{}", row.next_step);
    assert_eq!(stored().await.unwrap(), (row.next_seq, row.next_step));
    assert_eq!(cluster.store.check().await.unwrap().failures, []);

    gate.open(1);
    let (row, events) = (cluster.ended(run).await, cluster.events(run).await);
    assert_eq!(row.next_seq, events.len() as u64 + 1);
    assert_eq!(stored().await.unwrap(), (row.next_seq, row.next_step));
    assert_eq!(row.open_from, row.next_step);
    assert_eq!(cluster.store.check().await.unwrap().failures, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_who_waits_gets_the_row_and_nobody_from_elsewhere_waits() {
    let cluster = Cluster::new(vec![scripted::call("gate_pure", json!({}))]).await;
    let _worker = cluster.engine.start().await.unwrap();
    let run = cluster.say("chat", "go").await.run;
    let gate = cluster.rooms.gate("gate_pure");
    gate.entered().await;
    let elsewhere: Namespace = "elsewhere".parse().unwrap();
    let refused = cluster.engine.runs().wait(&elsewhere, run).await.unwrap_err();
    assert_eq!(refused.code(), "not_found");
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let (engine, namespace) = (cluster.engine.clone(), cluster.namespace.clone());
        waiting
            .push(tokio::spawn(async move { engine.runs().wait(&namespace, run).await.unwrap() }));
    }
    gate.open(1);
    let ended = cluster.ended(run).await;
    for waits in waiting {
        assert_eq!(waits.await.unwrap(), ended);
    }
    assert_eq!(cluster.engine.runs().wait(&cluster.namespace, run).await.unwrap(), ended);
}
