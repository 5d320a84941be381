//! Long runs, large outputs, and what a crash in the middle of them leaves.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use provost_agent::Agent;
use provost_agent::context::{ContextConfig, Summarize};
use provost_core::command::TaskRequest;
use provost_core::lifecycle::{RunPhase, RunStatus};
use provost_core::recovery::EffectClass;
use provost_core::{Env, Image, Limits, MediaSource, Role, RunId};
use provost_engine::{AgentRevision, Engine, EngineDeps, EngineError, Lease, WorkspaceProbe};
use provost_model::{self as scripted, ChatRequest, ScriptedModel, ScriptedTurn};
use provost_store::query;
use provost_store::{FaultInjector, FaultPoint, Store, StoreError, StoreOptions, params};
use provost_tool::{FnTool, GuardServices, ToolContext, ToolError, ToolOutput, ToolSpec};
use serde_json::json;

use crate::children::{count, replay_all};
use crate::harness::{Harness, command, options, text};
use crate::worker_crash;

/// A tool that gives so many bytes.
fn sized() -> FnTool {
    let schema = json!({"type": "object", "properties": {"bytes": {"type": "integer"}}});
    let spec = ToolSpec::new("sized", "Gives something", schema).unwrap().effect(EffectClass::Pure);
    FnTool::new(spec, |permit, _| {
        let bytes = permit.arguments()["bytes"].as_u64().unwrap_or(10);
        async move { Ok::<_, ToolError>(output(bytes)) }.boxed()
    })
}

/// An output of so many bytes that cannot be packed. A long text is cut for the model, a picture is not.
fn output(bytes: u64) -> ToolOutput {
    let env = Env::simulated(bytes);
    let mut data = String::new();
    while (data.len() as u64) < bytes {
        data.push_str(&format!("{:016x} ", env.random()));
    }
    if bytes < 20_000 {
        return ToolOutput::text(data);
    }
    let source = MediaSource::Base64 { media_type: "image/png".to_owned(), data };
    ToolOutput::image(Image { source, detail: None })
}

fn results(request: &ChatRequest) -> usize {
    request.messages.iter().flat_map(|message| message.tool_results()).count()
}

/// Calls a tool so many times, then says so.
fn working(turns: usize) -> impl Fn(&ChatRequest, usize) -> ScriptedTurn + Send + Sync + Clone {
    move |request, _| match results(request) {
        n if n < turns => scripted::call("pure", json!({ "n": n })),
        n => scripted::text(format!("{n} calls")),
    }
}

async fn long_stage(
    answer: impl Fn(&ChatRequest, usize) -> ScriptedTurn + Send + Sync + Clone + 'static,
) -> Harness {
    Harness::of(options(), Env::system(), move |_: &_, _: &Lease| {
        let model = ScriptedModel::from_fn(answer.clone());
        let tool = |name: &str| {
            let spec = ToolSpec::new(name, "Does nothing", json!({"type": "object"})).unwrap();
            FnTool::new(spec.effect(EffectClass::Pure), |_, _| {
                async { Ok::<_, ToolError>(ToolOutput::text("done")) }.boxed()
            })
        };
        let agent = Agent::builder("default", model).limits(Limits::unlimited());
        Ok(agent.tool(tool("pure")).tool(sized()).build().unwrap())
    })
    .await
}

async fn snapshots(harness: &Harness, run: RunId) -> Vec<u64> {
    let sql = "SELECT fed FROM run_snapshot WHERE run_id = ?1 ORDER BY fed";
    harness.engine.store().read(move |tx| tx.fetch_all::<u64>(sql, params![run])).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_run_goes_on_from_its_newest_snapshot_to_the_same_end() {
    let stopped = Arc::new((AtomicBool::new(false), tokio::sync::Semaphore::new(0)));
    let inside = Arc::clone(&stopped);
    let harness = long_stage(move |request, _| match results(request) {
        // Once, near the end, an answer never comes.
        180 if !inside.0.swap(true, Ordering::SeqCst) => {
            inside.1.add_permits(1);
            scripted::text("never").delay(Duration::from_secs(3600))
        }
        n if n < 190 => scripted::call("pure", json!({ "n": n })),
        n => scripted::text(format!("{n} calls")),
    })
    .await;
    let worker = harness.worker().await;
    let accepted = harness.say("chat", "go").await;
    stopped.1.acquire().await.unwrap().forget();
    let kept = snapshots(&harness, accepted.run).await;
    assert_eq!(kept.len(), 1, "older ones are removed: {kept:?}");
    // Three feeds a turn: the first is due after 257, the next after twice as many and one.
    assert!((515..530).contains(&kept[0]), "{kept:?}");
    drop(worker);
    let _second = harness.worker().await;
    let run = harness.wait(accepted.run).await;
    assert_eq!(text(&run), "190 calls");
    // A replay folds the run from its beginning and from its snapshot, and compares both.
    replay_all(&harness).await;
    // Without the shortcut it is the same run.
    let gone =
        harness.engine.store().write(|tx| tx.execute("DELETE FROM run_snapshot", params![])).await;
    assert_eq!(gone.unwrap(), 1);
    replay_all(&harness).await;
    let blobs = count(&harness, "blob").await;
    let aged = harness
        .engine
        .store()
        .write(|tx| tx.execute_fenced("UPDATE blob SET created = 0", params![]));
    aged.await.unwrap();
    assert!(
        harness.engine.maintenance().collect_garbage().await.unwrap() >= 1,
        "nothing refers to it any more"
    );
    assert!(count(&harness, "blob").await < blobs);
    replay_all(&harness).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_does_not_fit_is_found() {
    let harness = long_stage(working(120)).await;
    let _worker = harness.worker().await;
    let accepted = harness.say("chat", "go").await;
    let run = harness.wait(accepted.run).await;
    assert_eq!(snapshots(&harness, run.id).await.len(), 1);
    replay_all(&harness).await;
    // The machine of an earlier moment under a later number.
    let moved = harness
        .engine
        .store()
        .write(|tx| tx.execute_fenced("UPDATE run_snapshot SET fed = fed + 2", params![]));
    moved.await.unwrap();
    let report = harness.engine.runs().replay(&harness.namespace, run.id).await;
    assert!(report.is_err() || !report.unwrap().is_consistent());
}

#[tokio::test(flavor = "multi_thread")]
async fn short_runs_have_no_snapshots() {
    let harness = long_stage(working(20)).await;
    let _worker = harness.worker().await;
    let accepted = harness.say("chat", "go").await;
    harness.wait(accepted.run).await;
    assert_eq!(count(&harness, "run_snapshot").await, 0);
}

/// An engine on a directory. What is said to it there decides: `large` makes one picture of 5 MB, anything else so much text
/// that the conversation must be summarised.
async fn open(dir: &Path) -> (Engine, provost_engine::Worker) {
    let store = Store::open(StoreOptions::for_test(dir)).unwrap();
    let large = std::fs::read_to_string(dir.join("say")).unwrap() == "large";
    let agents = move |_: &provost_engine::AgentRevision, _: &Lease| {
        let model = ScriptedModel::from_fn(move |request, _| {
            let summed = request.messages.iter().any(|m| m.role == Role::Summary);
            match (large, results(request)) {
                (true, 0) => scripted::call("sized", json!({"bytes": 5_000_000})),
                (false, n) if n < 3 && !summed => scripted::call("sized", json!({"bytes": 6_000})),
                _ => scripted::text(format!("done, summed {summed}")),
            }
        });
        let agent = Agent::builder("default", model).tool(sized());
        if large {
            return Ok(agent.build().unwrap());
        }
        let summarizer = ScriptedModel::from_fn(|_, _| scripted::text("it went on"));
        let agent = agent.context(
            ContextConfig::new(Summarize::new(Arc::new(summarizer)).keep_recent(1))
                .max_tokens(3_000)
                .reserve(0),
        );
        Ok(agent.build().unwrap())
    };
    let engine = Engine::new(
        EngineDeps::new(store, agents, GuardServices::default(), Env::system()),
        options(),
    );
    engine.put_agent(&Default::default(), "default", None, Default::default()).await.unwrap();
    let worker = engine.start().await.unwrap();
    (engine, worker)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by another test in a process of its own"]
async fn node_with_large_outputs() {
    let Some(dir) = worker_crash::dir() else { return };
    let (engine, _worker) = open(&dir).await;
    let said = std::fs::read_to_string(dir.join("say")).unwrap();
    let accepted = engine.submit(&Default::default(), command("chat", &said)).await.unwrap();
    engine.runs().wait(&Default::default(), accepted.run).await.unwrap();
}

/// Lets a process die at a place, and another one go on; returns what the run came to.
async fn dies_and_goes_on(
    said: &str,
    place: &str,
) -> (Engine, provost_engine::Worker, RunId, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("say"), said).unwrap();
    worker_crash::killed_at("node_with_large_outputs", dir.path(), place).await;
    {
        let store = Store::open(StoreOptions::for_test(dir.path())).unwrap();
        let sound = store.check().await.unwrap();
        assert!(sound.failures.is_empty(), "{place}: {:?}", sound.failures);
        store.close().await;
    }
    let (engine, worker) = open(dir.path()).await;
    let run = engine
        .store()
        .read(|tx| tx.fetch_one::<RunId>("SELECT id FROM run", params![]))
        .await
        .unwrap();
    let namespace = Default::default();
    let ended = tokio::time::timeout(Duration::from_secs(30), engine.runs().wait(&namespace, run));
    let row = ended.await.expect("it ends").unwrap();
    assert_eq!(row.status, RunStatus::Ok, "{place}: {:?}", row.detail);
    let report = engine.runs().replay(&Default::default(), run).await.unwrap();
    assert!(report.is_consistent(), "{place}: {:?}", report.differences);
    (engine, worker, run, dir)
}

#[tokio::test(flavor = "multi_thread")]
async fn g21_a_step_with_a_large_output_is_there_whole_or_not_at_all() {
    // The places before, in and after the transaction of the step, and those of the next ones, with the result in the session.
    for place in ["tool.finished", "step.before@5", "step.after@5", "step.before@6", "step.after@6"]
    {
        let (engine, _worker, run, _dir) = dies_and_goes_on("large", place).await;
        let read = engine.store().read(move |tx| {
            let sql = "SELECT b.size FROM run_step s JOIN blob b ON b.hash = s.blob \
                       WHERE s.run_id = ?1 AND s.kind = 'tool_call'";
            Ok::<_, StoreError>((
                tx.fetch_all::<u64>(sql, params![run])?,
                tx.fetch_one::<u64>("SELECT count(*) FROM blob WHERE size > 4000000", params![])?,
            ))
        });
        let (sizes, large) = read.await.unwrap();
        assert_eq!((sizes.len(), large), (1, 1), "{place}: one step, one blob, no orphan");
        assert!(sizes[0] > 5_000_000, "{place}: the whole of it");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g20_a_compaction_that_is_killed_leaves_the_old_context_or_the_new_one() {
    let around = ["compaction.before_begin", "compaction.begun", "compaction.fitted"];
    // The transactions around it: its beginning, its end, the session that gets it, the model call after it.
    let inside =
        (12..=14).flat_map(|hit| [format!("step.before@{hit}"), format!("step.after@{hit}")]);
    for place in around.into_iter().map(str::to_owned).chain(inside) {
        let (engine, _worker, run, _dir) = dies_and_goes_on("small", &place).await;
        let row = query::run::get(engine.store(), &Default::default(), run).await.unwrap();
        // Old or new: the answer comes after the summary in both cases, and the fold of the feeds was compared before.
        assert_eq!(text(&row), "done, summed true", "{place}");
        let compacted =
            query::run::events(engine.store(), &Default::default(), run, 0, 1000).await.unwrap();
        assert_eq!(
            compacted.iter().filter(|event| event.kind == "compacted").count(),
            1,
            "{place}"
        );
    }
}

/// Says that no workspace ever survives.
struct Nothing;

impl WorkspaceProbe for Nothing {
    fn is_intact<'a>(&'a self, _lease: &'a Lease) -> BoxFuture<'a, bool> {
        std::future::ready(false).boxed()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g22_a_run_whose_workspace_is_gone_says_so_when_it_goes_on() {
    let began = Arc::new((AtomicBool::new(false), tokio::sync::Semaphore::new(0)));
    let inside = Arc::clone(&began);
    let answer = move |_: &_, _| match inside.0.swap(true, Ordering::SeqCst) {
        false => {
            inside.1.add_permits(1);
            scripted::text("never").delay(Duration::from_secs(3600))
        }
        true => scripted::text("done"),
    };
    let harness = Harness::with_deps(options(), answer, |deps| EngineDeps {
        workspaces: Some(Arc::new(Nothing)),
        ..deps
    });
    let harness = harness.await;
    let worker = harness.worker().await;
    let accepted = harness.say("chat", "go").await;
    began.1.acquire().await.unwrap().forget();
    drop(worker);
    let _second = harness.worker().await;
    harness.wait(accepted.run).await;
    let kinds = harness.kinds(accepted.run).await;
    let reset = kinds.iter().position(|kind| kind == "workspace_reset").expect("it says so");
    let again = kinds.iter().rposition(|kind| kind == "attempt_started").unwrap();
    assert!(reset > again, "{kinds:?}");
    assert_eq!(
        kinds.iter().filter(|kind| *kind == "workspace_reset").count(),
        1,
        "not at its first start"
    );
    let fresh = harness.say("other", "go").await;
    harness.wait(fresh.run).await;
    assert!(!harness.kinds(fresh.run).await.contains(&"workspace_reset".to_owned()));
    replay_all(&harness).await;
}

/// A run of several steps on a database that loses its `lost`-th commit.
async fn run_with_a_lost_commit(lost: usize) -> (Engine, RunId) {
    let dir = tempfile::tempdir().unwrap();
    let (env, commits) = (Env::simulated(lost as u64), AtomicUsize::new(0));
    let faults = FaultInjector::new(move |point| {
        let is_recorded =
            point == FaultPoint::Commit && commits.fetch_add(1, Ordering::SeqCst) == lost;
        is_recorded.then(|| StoreError::Io { detail: "the disk was away".to_owned() })
    });
    let store = StoreOptions {
        env: env.clone(),
        faults: Some(faults),
        ..StoreOptions::for_test(dir.path())
    };
    let agents = |_: &provost_engine::AgentRevision, _: &Lease| {
        let model = ScriptedModel::from_fn(|request, _| match results(request) {
            n if n < 6 => scripted::calls([("sized", json!({})), ("sized", json!({"bytes": 20}))]),
            n => scripted::text(format!("{n} calls")),
        });
        Ok(Agent::builder("default", model).tool(sized()).build().unwrap())
    };
    let engine = Engine::new(
        EngineDeps::new(Store::open(store).unwrap(), agents, GuardServices::default(), env.clone()),
        options(),
    );
    let namespace = Default::default();
    // What is refused is asked for again, as every caller would.
    while engine.put_agent(&namespace, "default", None, Default::default()).await.is_err() {}
    let keyed = TaskRequest { idempotency_key: Some("k".to_owned()), ..command("chat", "go") };
    let accepted = loop {
        if let Ok(accepted) = engine.submit(&namespace, keyed.clone()).await {
            break accepted;
        }
    };
    let worker = loop {
        if let Ok(worker) = engine.start().await {
            break worker;
        }
    };
    let ending = async {
        loop {
            let row = query::run::get(engine.store(), &namespace, accepted.run).await.unwrap();
            if row.phase == RunPhase::Done {
                return row;
            }
            if row.phase == RunPhase::Queued {
                env.advance(row.not_before.since(env.now()));
            }
            tokio::task::yield_now().await;
        }
    };
    let row = tokio::time::timeout(Duration::from_secs(30), ending).await.expect("it ends");
    assert_eq!(
        (row.status.as_str(), text(&row).as_str()),
        ("ok", "6 calls"),
        "{lost}: {:?}",
        row.detail
    );
    worker.stop(Duration::ZERO).await;
    (engine, accepted.run)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_is_lost_takes_what_follows_with_it() {
    for lost in (1..30).step_by(2) {
        let (engine, run) = run_with_a_lost_commit(lost).await;
        let report = engine.runs().replay(&Default::default(), run).await.unwrap();
        assert!(report.is_consistent(), "{lost}: {:?}", report.differences);
    }
}

/// Agents whose only tool finds that files are lost each time it is called.
fn agents_that_lose()
-> impl Fn(&AgentRevision, &Lease) -> Result<Agent, EngineError> + Send + Sync + 'static {
    |_, _| {
        let spec = ToolSpec::new("look", "Looks at files", json!({"type": "object"})).unwrap();
        let look = FnTool::new(spec.effect(EffectClass::Pure), |_permit, cx: ToolContext| {
            async move {
                let conversation = cx.conversation().unwrap();
                conversation
                    .report_workspace_reset("b is lost")
                    .await
                    .map_err(ToolError::Failed)?;
                Ok::<_, ToolError>(ToolOutput::text("a"))
            }
            .boxed()
        });
        let model = ScriptedModel::from_fn(|request, _| match request.messages.last() {
            Some(last) if last.role == Role::Tool => scripted::text("done"),
            _ => scripted::call("look", json!({})),
        });
        Ok(Agent::builder("default", model).tool(look).build().unwrap())
    }
}

/// A loss that only a call finds is in the log before the call ends, also in a run that has just begun.
#[tokio::test(flavor = "multi_thread")]
async fn g22_what_a_call_finds_lost_is_in_the_log() {
    let harness = Harness::of(options(), Env::system(), agents_that_lose()).await;
    let _worker = harness.worker().await;
    let accepted = harness.say("chat", "go").await;
    let row = harness.wait(accepted.run).await;
    assert_eq!(text(&row), "done");
    let events = harness.events(accepted.run).await;
    let at = |kind: &str| events.iter().position(|event| event.kind == kind);
    let (reset, finished) = (at("workspace_reset").unwrap(), at("tool_finished").unwrap());
    assert!(at("tool_started").unwrap() < reset && reset < finished, "{events:?}");
    let body = events[reset].body.as_ref().unwrap();
    let body: serde_json::Value = serde_json::from_str(body.as_str()).unwrap();
    assert_eq!(body["reason"], "b is lost");
    replay_all(&harness).await;
}
