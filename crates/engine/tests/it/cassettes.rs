//! A durable run becomes a cassette, and the cassette plays its model.

use provost_agent::Agent;
use provost_core::{ErrorKind, RunId};
use provost_model::{self as scripted, CassetteRedaction, ModelInfo, ReplayModel};

use crate::harness::{Harness, text};

#[tokio::test(flavor = "multi_thread")]
async fn a_durable_run_is_played_back_from_its_cassette() {
    let harness = Harness::new(|_, n| scripted::text(format!("answer {n}"))).await;
    let _worker = harness.worker().await;
    let first = harness.wait(harness.say("chat", "one").await.run).await;
    let second = harness.wait(harness.say("chat", "two").await.run).await;
    let cassette = harness.engine.runs().export(&harness.namespace, second.id).await.unwrap();
    assert_eq!(cassette.calls.len(), 1);
    let messages = cassette.calls[0].request["messages"].as_array().unwrap().len();
    assert_eq!(messages, 3, "with what was said before it");
    let cassette = harness.engine.runs().export(&harness.namespace, first.id).await.unwrap();
    let info = ModelInfo::unknown("played", "back");
    let player = ReplayModel::new(cassette, info, CassetteRedaction::default());
    let agent = Agent::builder("again", player.clone()).instructions("Anything.").build().unwrap();
    let again = agent.run("one").await.unwrap();
    assert_eq!(again.output, text(&first));
    assert_eq!(player.remaining(), 0);
    let agent = Agent::builder("other", player).build().unwrap();
    let error = agent.run("another question").await.unwrap_err().to_string();
    assert!(error.contains("the cassette has no response"), "{error}");
    let nobody = harness.engine.runs().export(&harness.namespace, harness.env.id::<RunId>()).await;
    assert_eq!(nobody.unwrap_err().kind(), ErrorKind::NotFound);
}
