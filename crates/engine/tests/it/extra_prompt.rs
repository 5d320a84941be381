//! What a command adds to the instructions of its agent reaches the model, also after the worker was lost.

use std::sync::Arc;
use std::time::Duration;

use provost_agent::Agent;
use provost_core::Env;
use provost_core::command::TaskRequest;
use provost_core::lifecycle::RunPhase;
use provost_engine::{AgentRevision, Engine, EngineError, EngineOptions, ForkOptions, Lease};
use provost_model::{self as scripted, ChatRequest, ScriptedModel, ScriptedTurn};
use serde_json::json;

use crate::cluster::{Cluster, LEASE, frozen, quick};
use crate::harness::{Harness, command, options, text};

/// The instructions that a request shows.
fn shown(request: &ChatRequest) -> ScriptedTurn {
    scripted::text(request.system.as_deref().unwrap_or("nothing"))
}

fn with_extra(session: &str, extra: &str) -> TaskRequest {
    TaskRequest { extra_system_prompt: Some(extra.to_owned()), ..command(session, "go") }
}

const ADDED: &str = "# Additional instructions for this task\n\nbe brief";

/// Agents with instructions of their own, all on one model.
fn agents(
    model: &ScriptedModel,
) -> impl Fn(&AgentRevision, &Lease) -> Result<Agent, EngineError> + Send + Sync + 'static {
    let model = Arc::new(model.clone());
    move |_, _| {
        let builder = Agent::builder("default", ScriptedModel::clone(&model));
        Ok(builder.instructions("You are a clerk.").build().unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_comes_behind_the_agents_own_and_only_in_the_runs_of_its_task() {
    let model = ScriptedModel::from_fn(|request, _| shown(request));
    let harness = Harness::of(options(), Env::system(), agents(&model)).await;
    let _worker = harness.worker().await;
    let run =
        harness.engine.submit(&harness.namespace, with_extra("a", "be brief")).await.unwrap().run;
    let answered = harness.wait(run).await;
    assert_eq!(text(&answered), format!("You are a clerk.\n\n{ADDED}"));
    assert_eq!(model.request(0).system.as_deref(), Some(text(&answered).as_str()));
    let plain = harness.say("b", "go").await.run;
    assert_eq!(text(&harness.wait(plain).await), "You are a clerk.");
    let empty = harness.engine.submit(&harness.namespace, with_extra("c", "")).await.unwrap().run;
    assert_eq!(text(&harness.wait(empty).await), "You are a clerk.");
    // What is said to the task later, and what is forked from it, belongs to it.
    let later = harness.say("a", "and now?").await.run;
    assert_ne!(later, run);
    assert_eq!(text(&harness.wait(later).await), format!("You are a clerk.\n\n{ADDED}"));
    // A command that goes on with it may bring its own.
    let other =
        harness.engine.submit(&harness.namespace, with_extra("a", "be long")).await.unwrap();
    let own = ADDED.replace("be brief", "be long");
    assert_eq!(text(&harness.wait(other.run).await), format!("You are a clerk.\n\n{own}"));
    let edits = ForkOptions::from(provost_engine::ForkEdit::ReplaceLast(vec![
        provost_core::ContentPart::text("x"),
    ]));
    let fork = harness.engine.runs().fork(&harness.namespace, run, None, edits).await.unwrap();
    assert_eq!(text(&harness.wait(fork.run).await), format!("You are a clerk.\n\n{ADDED}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_there_again_after_the_worker_was_lost() {
    let cluster = Cluster::answering(|request, _| match request.messages.len() {
        1 => scripted::call("gate_pure", json!({})),
        _ => shown(request),
    })
    .await;
    let _lost = cluster.node(frozen()).start().await.unwrap();
    let accepted = cluster.accept(with_extra("chat", "be brief")).await;
    let gate = cluster.rooms.gate("gate_pure");
    gate.entered().await;
    let _other = cluster.engine.start().await.unwrap();
    cluster.clock.advance(LEASE);
    cluster.until(accepted.run, |row| row.phase == RunPhase::Queued).await;
    cluster.clock.advance(LEASE);
    gate.entered().await;
    gate.open(2);
    let run = cluster.ended(accepted.run).await;
    assert_eq!((run.epoch, text(&run).as_str()), (2, ADDED));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_there_again_after_a_restart_and_an_approval() {
    let cluster = Cluster::answering(|request, _| match request.messages.len() {
        1 => scripted::call("risky", json!({})),
        _ => shown(request),
    })
    .await;
    let worker = cluster.engine.start().await.unwrap();
    let accepted = cluster.accept(with_extra("chat", "be brief")).await;
    cluster.parked(accepted.run).await;
    worker.stop(Duration::from_secs(30)).await;
    let cluster = cluster.restart().await;
    let options = EngineOptions { capacity: 1, ..quick() };
    let node: Engine = cluster.node(options);
    let _worker = node.start().await.unwrap();
    let question = cluster.questions().await.remove(0);
    let approve = provost_core::ApprovalDecision::Approve;
    node.approvals().answer(&cluster.namespace, question.id, approve, "me").await.unwrap();
    assert_eq!(text(&cluster.ended(accepted.run).await), ADDED);
}
