//! Runs that start other runs and wait for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use provost_agent::Agent;
use provost_bus::Topic;
use provost_core::command::TaskRequest;
use provost_core::lifecycle::{RunStatus, WaitReason};
use provost_core::recovery::{EffectClass, OutcomeCode};
use provost_core::{Env, Role, RunId};
use provost_engine::{ChildLimits, EngineOptions, TransactionalEffects, child_tools};
use provost_model::{self as scripted, ChatRequest, ScriptedModel, ScriptedTurn};
use provost_store::params;
use provost_store::query;
use provost_store::table::work::run::RunRow;
use provost_store::table::work::run_join;
use provost_tool::{Tool, ToolContext, ToolError, tool_fn};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::harness::{Harness, command, options, text};

/// What the user's side said first in the request.
pub(crate) fn first_words(request: &ChatRequest) -> String {
    let first = request.messages.iter().find(|message| message.role == Role::User);
    first.map(|message| message.text()).unwrap_or_default()
}

/// The results of all calls so far, as JSON where they are.
pub(crate) fn results(request: &ChatRequest) -> Vec<Value> {
    let results = request.messages.iter().flat_map(|message| message.tool_results());
    let read = |result: &provost_core::ToolResult| {
        let text = result.to_text();
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    };
    results.map(read).collect()
}

/// A stage whose agents have the tools for children and one transactional tool that adds a row.
pub(crate) async fn crew(
    options: EngineOptions,
    env: Env,
    answer: impl Fn(&ChatRequest) -> ScriptedTurn + Send + Sync + 'static,
) -> Harness {
    crew_with(options, env, Arc::new(Semaphore::new(1)), answer).await
}

/// The same, with a gate at which the tool `hold` waits.
pub(crate) async fn crew_with(
    options: EngineOptions,
    env: Env,
    gate: Arc<Semaphore>,
    answer: impl Fn(&ChatRequest) -> ScriptedTurn + Send + Sync + 'static,
) -> Harness {
    let answer = Arc::new(answer);
    let agents = move |_: &provost_engine::AgentRevision, _: &provost_engine::Lease| {
        let answer = Arc::clone(&answer);
        let model = ScriptedModel::from_fn(move |request, _| answer(request));
        let tools = child_tools()?.into_iter().chain([note_tool(), hold_tool(&gate)]);
        Ok(Agent::builder("default", model).tools(tools).build().unwrap())
    };
    let harness = Harness::of(options, env, agents).await;
    create_notes(&harness).await;
    harness
}

/// A tool that waits until it may go on.
pub(crate) fn hold_tool(gate: &Arc<Semaphore>) -> Arc<dyn Tool> {
    let gate = Arc::clone(gate);
    let hold = move |_cx: ToolContext, (): ()| {
        let gate = Arc::clone(&gate);
        async move {
            drop(gate.acquire().await?);
            Ok::<_, ToolError>("held".to_owned())
        }
    };
    let tool = tool_fn("hold", "Waits", hold).unwrap();
    Arc::new(tool.with_spec(|spec| spec.effect(EffectClass::Pure)))
}

async fn create_notes(harness: &Harness) {
    let created = harness.engine.store().write(|tx| {
        tx.execute("CREATE TABLE IF NOT EXISTS note (text TEXT NOT NULL UNIQUE)", params![])
    });
    created.await.unwrap();
}

/// A tool whose effect is a row in our own database.
pub(crate) fn note_tool() -> Arc<dyn Tool> {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Note {
        text: String,
        #[serde(default)]
        fails: bool,
    }
    let note = |cx: ToolContext, note: Note| async move {
        let transactional = cx.dep::<TransactionalEffects>()?;
        let text = note.text.clone();
        let kept = transactional.commit(cx.effect_key(), move |tx| {
            tx.execute("INSERT INTO note (text) VALUES (?1)", params![text])?;
            Ok(tx.fetch_one::<u64>("SELECT count(*) FROM note", params![])?)
        });
        let count = kept.await?;
        match note.fails {
            true => Err(ToolError::failed("it failed after all")),
            false => Ok(format!("{count} notes")),
        }
    };
    let tool = tool_fn("note", "Keeps a note", note).unwrap();
    Arc::new(tool.with_spec(|spec| spec.effect(EffectClass::Transactional)))
}

pub(crate) async fn count(harness: &Harness, table: &'static str) -> u64 {
    let sql = format!("SELECT count(*) FROM {table}");
    let read = harness.engine.store().read(move |tx| tx.fetch_one::<u64>(&sql, params![]));
    read.await.unwrap()
}

async fn children_of(harness: &Harness, parent: RunId) -> Vec<RunRow> {
    let read = harness
        .engine
        .store()
        .read(move |tx| provost_store::table::work::run::children(tx, parent));
    read.await.unwrap()
}

/// Waits until a run is in a phase, driven by what is told of it.
pub(crate) async fn until_phase(harness: &Harness, run: RunId, phase: &str) -> RunRow {
    let looking = async {
        let mut hints = harness.engine.store().bus().subscribe(Topic::Wakeups);
        loop {
            let row =
                query::run::get(harness.engine.store(), &harness.namespace, run).await.unwrap();
            if row.phase.as_str() == phase {
                return row;
            }
            drop(tokio::time::timeout(Duration::from_millis(50), hints.recv()).await);
        }
    };
    tokio::time::timeout(Duration::from_secs(20), looking).await.expect("it comes to the phase")
}

/// Every run of the stage folds to what its row and events say.
pub(crate) async fn replay_all(harness: &Harness) {
    let ids = harness
        .engine
        .store()
        .read(|tx| tx.fetch_all::<RunId>("SELECT id FROM run ORDER BY id", params![]));
    for id in ids.await.unwrap() {
        let report = harness.engine.runs().replay(&harness.namespace, id).await.unwrap();
        assert!(report.is_consistent(), "{id}: {:#?}", report.differences);
    }
}

/// Starts children with these messages, waits for all of them, and says what they said.
fn lead(request: &ChatRequest, messages: &[&str]) -> ScriptedTurn {
    let results = results(request);
    match results.len() {
        0 => scripted::calls(
            messages.iter().map(|text| ("spawn_task", json!({"message": text, "label": text}))),
        ),
        n if n == messages.len() => {
            let runs: Vec<_> = results.iter().map(|child| child["run"].clone()).collect();
            scripted::call("await_tasks", json!({ "runs": runs }))
        }
        _ => {
            let tasks = results.last().unwrap()["tasks"].as_array().unwrap().clone();
            let said = tasks.iter().map(|task| task["result"].as_str().unwrap_or("nothing"));
            scripted::text(said.collect::<Vec<_>>().join(", "))
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g51_a_parent_waits_without_a_worker_and_gets_each_result_once() {
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let harness =
        crew(options(), Env::system(), move |request| match first_words(request).as_str() {
            "lead" => lead(request, &["red", "blue"]),
            // A model that answers only when it may.
            word if held.try_acquire().is_ok() => scripted::text(format!("{word} done")),
            _ => scripted::fail(provost_model::ModelErrorClass::RateLimited, "later"),
        })
        .await;
    let worker = harness.worker().await;
    let accepted = harness.say("chat", "lead").await;
    let parked = until_phase(&harness, accepted.run, "parked").await;
    assert_eq!(parked.parked_for.map(WaitReason::as_str), Some("child"));
    assert!(parked.lease_owner.is_none() && parked.holds_session, "no worker, and its session");
    let children = children_of(&harness, accepted.run).await;
    assert_eq!(children.len(), 2);
    assert!(children.iter().all(|child| child.depth == 1 && child.policy == parked.policy));
    // The parent is dead while they end: nothing but the database knows it.
    drop(worker);
    gate.add_permits(1);
    let _second = harness.worker().await;
    let run = harness.wait(accepted.run).await;
    assert_eq!((run.status.as_str(), text(&run).as_str()), ("ok", "red done, blue done"));
    let told = harness.engine.store().read(|tx| {
        tx.fetch_one::<u64>("SELECT count(*) FROM input WHERE kind = 'child_result'", params![])
    });
    assert_eq!(told.await.unwrap(), 0, "what was waited for is not told again");
    replay_all(&harness).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g51_a_child_that_nobody_waits_for_is_told_in_a_message_once() {
    let harness = crew(options(), Env::system(), |request| {
        let told = request.messages.iter().filter(|m| m.text().contains("has ended: ok")).count();
        match (first_words(request).as_str(), results(request).len(), told) {
            ("work", ..) => scripted::text("forty-two"),
            (_, 0, 0) => scripted::call("spawn_task", json!({"message": "work"})),
            (_, _, 0) => scripted::text("started"),
            (_, _, n) => scripted::text(format!("told {n} times")),
        }
    })
    .await;
    let _worker = harness.worker().await;
    let accepted = harness.say("chat", "lead").await;
    let first = harness.wait(accepted.run).await;
    // The child may end before the parent or after it: then the parent's task has one more turn.
    let child = children_of(&harness, accepted.run).await.remove(0);
    harness.wait(child.id).await;
    let mut answers = vec![text(&first)];
    let runs = harness
        .engine
        .store()
        .read(move |tx| provost_store::table::work::run::of_task(tx, accepted.task));
    for run in runs.await.unwrap().into_iter().skip(1) {
        answers.push(text(&harness.wait(run.id).await));
    }
    assert_eq!(answers.last().map(String::as_str), Some("told 1 times"), "{answers:?}");
    replay_all(&harness).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g51_a_child_that_ends_before_anybody_waits_is_heard_once() {
    let harness = crew(options(), Env::system(), |request| {
        let heard =
            request.messages.iter().map(|m| said(m).matches("forty-two").count()).sum::<usize>();
        let results = results(request);
        match (first_words(request).as_str(), results.len()) {
            ("work", _) => scripted::text("forty-two"),
            (_, 0) => scripted::call("spawn_task", json!({"message": "work"})),
            // While this answer is on its way, the child ends and its parent is told. Then somebody waits for it.
            (_, 1) => scripted::call("await_tasks", json!({"runs": [results[0]["run"]]}))
                .delay(Duration::from_millis(300)),
            _ => scripted::text(format!("heard {heard} times")),
        }
    })
    .await;
    let _worker = harness.worker().await;
    let accepted = harness.say("chat", "lead").await;
    let run = harness.wait(accepted.run).await;
    assert_eq!(text(&run), "heard 1 times");
    assert_eq!(count(&harness, "run").await, 2, "there is no turn for a message as well");
    replay_all(&harness).await;
}

/// Everything in a message.
fn said(message: &provost_core::Message) -> String {
    let results = message.tool_results().map(|result| result.to_text());
    results.fold(message.text(), |said, result| said + &result)
}

#[tokio::test(flavor = "multi_thread")]
async fn g38_a_stopped_parent_takes_its_children_with_it() {
    let harness = crew(options(), Env::system(), |request| match first_words(request).as_str() {
        "lead" => lead(request, &["slow"]),
        _ => scripted::text("never").delay(Duration::from_secs(3600)),
    })
    .await;
    let _worker = harness.worker().await;
    let accepted = harness.say("chat", "lead").await;
    until_phase(&harness, accepted.run, "parked").await;
    let child = children_of(&harness, accepted.run).await.remove(0);
    until_phase(&harness, child.id, "leased").await;
    harness.engine.runs().cancel(&harness.namespace, accepted.run).await.unwrap();
    let child = harness.wait(child.id).await;
    assert_eq!(child.outcome_code.map(OutcomeCode::as_str), Some("cancelled_by_parent"));
    assert_eq!(harness.wait(accepted.run).await.status, RunStatus::Cancelled);
    assert_eq!(count(&harness, "run").await, 2, "the end of the child starts nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn children_are_bounded_in_depth_and_number() {
    let limits = EngineOptions { children: ChildLimits { depth: 1, active: 2 }, ..options() };
    let gate = Arc::new(Semaphore::new(0));
    let harness = crew_with(limits, Env::system(), Arc::clone(&gate), |request| {
        let results = results(request);
        let spawn = |text: &str| ("spawn_task", json!({"message": text}));
        match (first_words(request).as_str(), results.len()) {
            ("lead", 0) => scripted::calls([spawn("one"), spawn("two"), spawn("three")]),
            ("lead", _) => {
                scripted::text(results.iter().map(Value::to_string).collect::<Vec<_>>().join("\n"))
            }
            (_, 0) => scripted::call("hold", json!({})),
            (_, 1) => scripted::call("spawn_task", json!({"message": "below"})),
            (_, _) => scripted::text(results[1].to_string()),
        }
    })
    .await;
    let _worker = harness.worker().await;
    let accepted = harness.say("chat", "lead").await;
    let run = harness.wait(accepted.run).await;
    let said = text(&run);
    assert_eq!(said.matches("\"status\":\"accepted\"").count(), 2, "{said}");
    assert!(said.contains("is full, 2 are allowed"), "{said}");
    gate.add_permits(1);
    let children = children_of(&harness, accepted.run).await;
    let below = harness.wait(children[0].id).await;
    assert!(text(&below).contains("1 levels below"), "{}", text(&below));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_when_its_time_is_over() {
    let env = Env::simulated(7);
    let harness = crew(options(), env.clone(), |request| {
        let results = results(request);
        match (first_words(request).as_str(), results.len()) {
            ("lead", 0) => scripted::call("spawn_task", json!({"message": "slow"})),
            ("lead", 1) => {
                scripted::call("await_tasks", json!({"runs": [results[0]["run"]], "timeout_s": 60}))
            }
            ("lead", _) => scripted::text(results[1]["tasks"][0]["status"].as_str().unwrap()),
            _ => scripted::text("never").delay(Duration::from_secs(3600)),
        }
    })
    .await;
    let _worker = harness.worker().await;
    let accepted = harness.say("chat", "lead").await;
    until_phase(&harness, accepted.run, "parked").await;
    let child = children_of(&harness, accepted.run).await.remove(0);
    until_phase(&harness, child.id, "leased").await;
    env.advance(Duration::from_secs(61));
    let run = harness.wait(accepted.run).await;
    assert_eq!(text(&run), "running");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transactional_effect_commits_with_its_step_or_not_at_all() {
    let harness = crew(options(), Env::system(), |request| {
        let results = results(request);
        match results.len() {
            0 => scripted::calls([
                ("note", json!({"text": "a"})),
                ("note", json!({"text": "b", "fails": true})),
            ]),
            2 => scripted::call("note", json!({"text": "a"})),
            _ => scripted::text(results.iter().map(Value::to_string).collect::<Vec<_>>().join("|")),
        }
    })
    .await;
    let _worker = harness.worker().await;
    let accepted = harness.engine.submit(&harness.namespace, command("chat", "go")).await.unwrap();
    let run = harness.wait(accepted.run).await;
    let said = text(&run);
    assert!(said.contains("it failed after all"), "{said}");
    assert!(
        said.to_lowercase().contains("unique"),
        "what cannot be done is the tool's error: {said}"
    );
    assert_eq!(count(&harness, "note").await, 1, "the first one, once");
    replay_all(&harness).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_may_do_less_than_its_parent_and_never_more() {
    let seen = Arc::new(AtomicUsize::new(0));
    let inside = Arc::clone(&seen);
    let harness =
        crew(options(), Env::system(), move |request| match first_words(request).as_str() {
            "lead" => lead(request, &["red"]),
            _ => {
                inside.fetch_add(1, Ordering::SeqCst);
                scripted::text("done")
            }
        })
        .await;
    let _worker = harness.worker().await;
    let tight = TaskRequest {
        policy: Some(crate::harness::patch(json!({"interactive": false}))),
        ..command("chat", "lead")
    };
    let accepted = harness.engine.submit(&harness.namespace, tight).await.unwrap();
    let run = harness.wait(accepted.run).await;
    assert_eq!(run.status, RunStatus::Ok);
    let child = children_of(&harness, accepted.run).await.remove(0);
    let policy: Value = serde_json::from_str(child.policy.as_str()).unwrap();
    assert_eq!(policy["interactive"], false, "the agent would allow more");
    assert_eq!(seen.load(Ordering::SeqCst), 1);
}

/// Whoever reads a log by positions goes on where a number was: within a run both rise together.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_call_tells_in_its_transaction_comes_behind_its_result_in_the_log() {
    let harness = crew(options(), Env::system(), |request| {
        match (first_words(request).as_str(), results(request).len()) {
            ("go", 0) => scripted::call("spawn_task", json!({"message": "work"})),
            _ => scripted::text("done"),
        }
    })
    .await;
    let _worker = harness.worker().await;
    let run = harness.say("s", "go").await.run;
    harness.wait(run).await;
    let events = harness.events(run).await;
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    assert!(kinds.contains(&"child_started"), "{kinds:?}");
    let positions: Vec<u64> = events.iter().map(|event| event.pos.get()).collect();
    assert!(positions.is_sorted_by(|one, next| one < next), "{kinds:?}: {positions:?}");
}

/// The timeouts in milliseconds with which a parked run waits for other runs.
pub(crate) async fn timeouts(harness: &Harness, run: RunId) -> Vec<u128> {
    let parked = harness.events(run).await.into_iter().rfind(|event| event.kind == "parked");
    let parked = parked.map(|event| event.at).unwrap_or_default();
    let joins = harness.engine.store().read(move |tx| run_join::of_run(tx, run)).await.unwrap();
    let untils = joins.iter().filter_map(|join| join.until);
    untils.map(|until| until.since(parked).as_millis()).collect()
}
