//! A durable run becomes a cassette, and the cassette plays its model.

use provost_agent::Agent;
use provost_core::{ErrorKind, RunId};
use provost_model::{self as scripted, ModelInfo, Player, Redaction};

use crate::stage::{Stage, text};

#[tokio::test(flavor = "multi_thread")]
async fn a_durable_run_is_played_back_from_its_cassette() {
    let stage = Stage::new(|_, n| scripted::text(format!("answer {n}"))).await;
    let _worker = stage.worker().await;
    let first = stage.wait(stage.say("chat", "one").await.run).await;
    let second = stage.wait(stage.say("chat", "two").await.run).await;
    let cassette = stage.engine.runs().export(&stage.namespace, second.id).await.unwrap();
    assert_eq!(cassette.calls.len(), 1);
    let messages = cassette.calls[0].request["messages"].as_array().unwrap().len();
    assert_eq!(messages, 3, "with what was said before it");
    let cassette = stage.engine.runs().export(&stage.namespace, first.id).await.unwrap();
    let info = ModelInfo::unknown("played", "back");
    let player = Player::new(cassette, info, Redaction::default());
    let agent = Agent::builder("again", player.clone()).instructions("Anything.").build().unwrap();
    let again = agent.run("one").await.unwrap();
    assert_eq!(again.output, text(&first));
    assert_eq!(player.left(), 0);
    let agent = Agent::builder("other", player).build().unwrap();
    let error = agent.run("another question").await.unwrap_err().to_string();
    assert!(error.contains("the cassette has no answer"), "{error}");
    let nobody = stage.engine.runs().export(&stage.namespace, stage.env.id::<RunId>()).await;
    assert_eq!(nobody.unwrap_err().kind(), ErrorKind::NotFound);
}
