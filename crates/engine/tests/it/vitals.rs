//! What the work of a process is like, in numbers.

use provost_model as scripted;
use serde_json::json;

use crate::house::{House, LEASE, NEVER, frozen};

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_write_and_the_first_piece_of_each_answer_are_counted() {
    let house =
        House::new(vec![scripted::call("gate_pure", json!({})), scripted::text("done")]).await;
    let node = house.node(frozen());
    assert_eq!(node.metrics(), Default::default());
    let lost = node.start().await.unwrap();
    let run = house.say("chat", "hi").await.run;
    let gate = house.rooms.gate("gate_pure");
    gate.entered().await;
    assert_eq!(node.metrics().first_token.counts.iter().sum::<u64>(), 1);
    let _other = house.engine.start().await.unwrap();
    house.clock.advance(LEASE);
    house.until(run, |row| row.phase == "queued").await;
    // It comes back, and what it writes is not taken.
    gate.open(1);
    lost.stop(NEVER).await;
    assert_eq!(node.metrics().fenced_writes, 1);
    house.clock.advance(LEASE);
    gate.entered().await;
    gate.open(1);
    house.ended(run).await;
    let other = house.engine.metrics();
    assert_eq!(other.fenced_writes, 0, "each process counts its own");
    assert_eq!(other.first_token.counts.iter().sum::<u64>(), 1);
    assert_eq!(node.metrics().first_token.counts.iter().sum::<u64>(), 1);
}
