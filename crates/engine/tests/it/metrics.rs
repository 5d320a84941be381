//! What the work of a process is like, in numbers.

use provost_core::lifecycle::RunPhase;
use provost_model as scripted;
use serde_json::json;

use crate::cluster::{Cluster, LEASE, NEVER, frozen};

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_write_and_the_first_piece_of_each_answer_are_counted() {
    let cluster =
        Cluster::new(vec![scripted::call("gate_pure", json!({})), scripted::text("done")]).await;
    let node = cluster.node(frozen());
    assert_eq!(node.metrics(), Default::default());
    let lost = node.start().await.unwrap();
    let run = cluster.say("chat", "hi").await.run;
    let gate = cluster.rooms.gate("gate_pure");
    gate.entered().await;
    assert_eq!(node.metrics().first_token.counts.iter().sum::<u64>(), 1);
    let _other = cluster.engine.start().await.unwrap();
    cluster.clock.advance(LEASE);
    cluster.until(run, |row| row.phase == RunPhase::Queued).await;
    // It comes back, and what it writes is not taken.
    gate.open(1);
    lost.stop(NEVER).await;
    assert_eq!(node.metrics().fenced_writes, 1);
    cluster.clock.advance(LEASE);
    gate.entered().await;
    gate.open(1);
    cluster.ended(run).await;
    let other = cluster.engine.metrics();
    assert_eq!(other.fenced_writes, 0, "each process counts its own");
    assert_eq!(other.first_token.counts.iter().sum::<u64>(), 1);
    assert_eq!(node.metrics().first_token.counts.iter().sum::<u64>(), 1);
}
