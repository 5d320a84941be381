//! What a command adds to the instructions of its agent reaches the model, also after the worker was lost.

use std::sync::Arc;
use std::time::Duration;

use provost_agent::Agent;
use provost_core::Env;
use provost_core::command::TaskRequest;
use provost_engine::{AgentProfile, Engine, EngineError, EngineOptions, ForkEdits, Lease};
use provost_model::{self as scripted, ChatRequest, ScriptedModel, Turn};
use serde_json::json;

use crate::house::{House, LEASE, frozen, quick};
use crate::stage::{Stage, command, options, text};

/// The instructions that a request shows.
fn shown(request: &ChatRequest) -> Turn {
    scripted::text(request.system.as_deref().unwrap_or("nothing"))
}

fn with_extra(session: &str, extra: &str) -> TaskRequest {
    TaskRequest { extra_system_prompt: Some(extra.to_owned()), ..command(session, "go") }
}

const ADDED: &str = "# Additional instructions for this task\n\nbe brief";

/// Agents with instructions of their own, all on one model.
fn agents(
    model: &ScriptedModel,
) -> impl Fn(&AgentProfile, &Lease) -> Result<Agent, EngineError> + Send + Sync + 'static {
    let model = Arc::new(model.clone());
    move |_, _| {
        let builder = Agent::builder("default", ScriptedModel::clone(&model));
        Ok(builder.instructions("You are a clerk.").build().unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_comes_behind_the_agents_own_and_only_in_the_runs_of_its_task() {
    let model = ScriptedModel::answering(|request, _| shown(request));
    let stage = Stage::of(options(), Env::system(), agents(&model)).await;
    let _worker = stage.worker().await;
    let run = stage.engine.submit(&stage.namespace, with_extra("a", "be brief")).await.unwrap().run;
    let answered = stage.wait(run).await;
    assert_eq!(text(&answered), format!("You are a clerk.\n\n{ADDED}"));
    assert_eq!(model.request(0).system.as_deref(), Some(text(&answered).as_str()));
    let plain = stage.say("b", "go").await.run;
    assert_eq!(text(&stage.wait(plain).await), "You are a clerk.");
    let empty = stage.engine.submit(&stage.namespace, with_extra("c", "")).await.unwrap().run;
    assert_eq!(text(&stage.wait(empty).await), "You are a clerk.");
    // What is said to the task later, and what is forked from it, belongs to it.
    let later = stage.say("a", "and now?").await.run;
    assert_ne!(later, run);
    assert_eq!(text(&stage.wait(later).await), format!("You are a clerk.\n\n{ADDED}"));
    // A command that goes on with it may bring its own.
    let other = stage.engine.submit(&stage.namespace, with_extra("a", "be long")).await.unwrap();
    let own = ADDED.replace("be brief", "be long");
    assert_eq!(text(&stage.wait(other.run).await), format!("You are a clerk.\n\n{own}"));
    let edits =
        ForkEdits::from(provost_engine::ForkEdit::Instead(vec![provost_core::ContentPart::text(
            "x",
        )]));
    let fork = stage.engine.runs().fork(&stage.namespace, run, None, edits).await.unwrap();
    assert_eq!(text(&stage.wait(fork.run).await), format!("You are a clerk.\n\n{ADDED}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_there_again_after_the_worker_was_lost() {
    let house = House::answering(|request, _| match request.messages.len() {
        1 => scripted::call("gate_pure", json!({})),
        _ => shown(request),
    })
    .await;
    let _lost = house.node(frozen()).start().await.unwrap();
    let accepted = house.accept(with_extra("chat", "be brief")).await;
    let gate = house.rooms.gate("gate_pure");
    gate.entered().await;
    let _other = house.engine.start().await.unwrap();
    house.clock.advance(LEASE);
    house.until(accepted.run, |row| row.phase == "queued").await;
    house.clock.advance(LEASE);
    gate.entered().await;
    gate.open(2);
    let run = house.ended(accepted.run).await;
    assert_eq!((run.epoch, text(&run).as_str()), (2, ADDED));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_there_again_after_a_restart_and_an_approval() {
    let house = House::answering(|request, _| match request.messages.len() {
        1 => scripted::call("risky", json!({})),
        _ => shown(request),
    })
    .await;
    let worker = house.engine.start().await.unwrap();
    let accepted = house.accept(with_extra("chat", "be brief")).await;
    house.parked(accepted.run).await;
    worker.stop(Duration::from_secs(30)).await;
    let house = house.restart().await;
    let options = EngineOptions { capacity: 1, ..quick() };
    let node: Engine = house.node(options);
    let _worker = node.start().await.unwrap();
    let question = house.questions().await.remove(0);
    let approve = provost_core::ApprovalDecision::Approve;
    node.approvals().answer(&house.namespace, question.id, approve, "me").await.unwrap();
    assert_eq!(text(&house.ended(accepted.run).await), ADDED);
}
