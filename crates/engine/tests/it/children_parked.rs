//! Children that end while their parent waits for somebody else.

use std::sync::Arc;
use std::time::Duration;

use provost_agent::Agent;
use provost_core::lifecycle::RunStatus;
use provost_core::{ApprovalDecision, Env, RunId};
use provost_engine::{Lease, ask_user, child_tools};
use provost_model::{self as scripted, ScriptedModel};
use provost_store::params;
use provost_store::query;
use provost_store::table::work::run;
use provost_tool::{RequiresApproval, ToolError, tool_fn};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::children::{first_words, hold_tool, replay_all, results, until_phase};
use crate::harness::{Harness, options, text};

/// A stage whose lead starts a child, then does something for which a person is needed, and says how often it heard of the
/// child. The child ends only when it may.
async fn harness(asks: &'static str, gate: Arc<Semaphore>) -> Harness {
    Harness::of(options(), Env::system(), move |_: &_, _: &Lease| {
        let model = ScriptedModel::from_fn(move |request, _| {
            let heard = request.messages.iter().filter(|m| m.text().contains("forty-two")).count();
            match (first_words(request).as_str(), results(request).len()) {
                ("work", 0) => scripted::call("hold", json!({})),
                ("work", _) => scripted::text("forty-two"),
                (_, 0) => scripted::call("spawn_task", json!({"message": "work"})),
                (_, 1) if asks == "ask_user" => {
                    scripted::call(asks, json!({"questions": [{"question": "Which colour?"}]}))
                }
                (_, 1) => scripted::call(asks, json!({})),
                _ => scripted::text(format!("heard {heard} times")),
            }
        });
        let careful = tool_fn("careful", "Needs a yes", |_cx, (): ()| async {
            Ok::<_, ToolError>("done".to_owned())
        });
        let careful = careful.unwrap().with_spec(|spec| spec.approval(RequiresApproval::Always));
        let tools = child_tools()?.into_iter().chain([hold_tool(&gate)]);
        let agent = Agent::builder("default", model).tools(tools).tool(careful);
        Ok(agent.tool(ask_user().unwrap()).build().unwrap())
    })
    .await
}

/// Lets the child end while its parent is parked for something else; the parent stays where it is.
async fn child_ends_meanwhile(asks: &'static str) -> (Harness, provost_engine::Worker, RunId) {
    let gate = Arc::new(Semaphore::new(0));
    let harness = harness(asks, Arc::clone(&gate)).await;
    let worker = harness.worker().await;
    let accepted = harness.say("chat", "lead").await;
    let parked = until_phase(&harness, accepted.run, "parked").await;
    let children = harness.engine.store().read(move |tx| run::children(tx, accepted.run)).await;
    gate.add_permits(1);
    assert_eq!(harness.wait(children.unwrap()[0].id).await.status, RunStatus::Ok);
    let still =
        query::run::get(harness.engine.store(), &harness.namespace, accepted.run).await.unwrap();
    assert_eq!((still.phase, still.epoch), (parked.phase, parked.epoch), "it is not woken by that");
    (harness, worker, accepted.run)
}

async fn open_question(harness: &Harness) -> provost_core::ApprovalId {
    let open =
        query::approval::open(harness.engine.store(), &harness.namespace, None, 9).await.unwrap();
    assert_eq!(open.len(), 1);
    open[0].id
}

/// The run ends with what it heard; nothing was said twice and nobody got a turn for it.
async fn heard_once(harness: &Harness, id: RunId) {
    let row = harness.wait(id).await;
    assert_eq!(
        (row.status.as_str(), text(&row).as_str()),
        ("ok", "heard 1 times"),
        "{:?}",
        row.detail
    );
    let sql = "SELECT count(*) FROM run WHERE parent_run_id IS NULL";
    let runs = harness.engine.store().read(move |tx| tx.fetch_one::<u64>(sql, params![])).await;
    assert_eq!(runs.unwrap(), 1);
    replay_all(harness).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g51_a_parent_that_waits_for_a_yes_hears_of_its_child_afterwards() {
    let (harness, _worker, run) = child_ends_meanwhile("careful").await;
    let id = open_question(&harness).await;
    harness
        .engine
        .approvals()
        .answer(&harness.namespace, id, ApprovalDecision::Approve, "ann")
        .await
        .unwrap();
    heard_once(&harness, run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g51_what_a_child_says_is_not_the_answer_to_a_question() {
    let (harness, worker, run) = child_ends_meanwhile("ask_user").await;
    // Everything is started again meanwhile.
    worker.stop(Duration::from_secs(5)).await;
    let _second = harness.worker().await;
    let id = open_question(&harness).await;
    harness.engine.approvals().answer_text(&harness.namespace, id, "blue", "ann").await.unwrap();
    heard_once(&harness, run).await;
}
