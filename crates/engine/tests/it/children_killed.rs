//! Calls whose effect is in our own database: what is left when the process dies, or when their transaction fails.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use provost_agent::Agent;
use provost_core::Env;
use provost_core::lifecycle::{RequestError, RunStatus};
use provost_core::recovery::{EffectClass, child_run_id, child_task_id};
use provost_engine::{Engine, EngineDeps, Lease, TransactionalEffects, Worker, child_tools};
use provost_model::{self as scripted, ScriptedModel};
use provost_store::table::work::run::{self, RunRow};
use provost_store::{Store, StoreError, StoreOptions, params};
use provost_tool::{FnTool, GuardServices, ToolContext, ToolError, ToolOutput, ToolSpec};
use serde_json::json;

use crate::children::{count, first_words, note_tool, replay_all, results};
use crate::harness::{Harness, command, options, text};
use crate::worker_crash;

/// An engine on a directory: its agent keeps a note, starts a child, waits for it and says what it said.
async fn open(dir: &Path) -> (Engine, Worker) {
    let store = Store::open(StoreOptions::for_test(dir)).unwrap();
    let table = store.write(|tx| {
        // Not unique, so that a repetition would be seen and not refused.
        tx.execute("CREATE TABLE IF NOT EXISTS note (text TEXT NOT NULL)", params![])
    });
    table.await.unwrap();
    let agents = |_: &provost_engine::AgentRevision, _: &Lease| {
        let model = ScriptedModel::from_fn(|request, _| {
            let results = results(request);
            match (first_words(request).as_str(), results.len()) {
                ("lead", 0) => scripted::call("note", json!({"text": "begun"})),
                ("lead", 1) => scripted::call("spawn_task", json!({"message": "work"})),
                ("lead", 2) => scripted::call("await_tasks", json!({"runs": [results[1]["run"]]})),
                ("lead", _) => {
                    scripted::text(results[2]["tasks"][0]["result"].as_str().unwrap_or("?"))
                }
                _ => scripted::text("worked"),
            }
        });
        let tools = child_tools()?.into_iter().chain([note_tool()]);
        Ok(Agent::builder("default", model).tools(tools).build().unwrap())
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
async fn node_that_spawns() {
    let Some(dir) = worker_crash::dir() else { return };
    let (engine, _worker) = open(&dir).await;
    let accepted = engine.submit(&Default::default(), command("chat", "lead")).await.unwrap();
    engine.runs().wait(&Default::default(), accepted.run).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn g52_a_spawn_that_is_killed_leaves_one_child_and_no_twin() {
    // The note is the first call and the spawn the second. Each of its transactions is killed before and after it has done
    // its work; then the wait, the end of the child, and the end of the parent.
    let calls = [
        "tool.begun@2",
        "child.planned",
        "tool.finished@2",
        "tool.begun@3",
        "run.ended",
        "run.ended@2",
    ];
    let steps =
        (9..=13).flat_map(|hit| [format!("step.before@{hit}"), format!("step.after@{hit}")]);
    for place in calls.into_iter().map(str::to_owned).chain(steps) {
        let dir = tempfile::tempdir().unwrap();
        worker_crash::killed_at("node_that_spawns", dir.path(), &place).await;
        let (engine, _worker) = open(dir.path()).await;
        let read = engine.store().read(|tx| {
            let id = tx.fetch_one("SELECT id FROM run WHERE parent_run_id IS NULL", params![])?;
            run::get(tx, id)
        });
        let parent = read.await.unwrap().unwrap();
        let namespace = Default::default();
        let ended = tokio::time::timeout(
            Duration::from_secs(30),
            engine.runs().wait(&namespace, parent.id),
        );
        let parent = ended.await.expect("it ends").unwrap();
        assert_eq!(parent.status, RunStatus::Ok, "{place}: {:?}", parent.detail);
        // The child may end before anybody waits for it: then its parent has read it in a message, and the call says so.
        let by_call = u64::from(text(&parent) == "worked");
        let read = engine.store().read(move |tx| {
            let notes = tx.fetch_one::<u64>("SELECT count(*) FROM note", params![])?;
            let told = tx.fetch_one::<u64>(
                "SELECT count(*) FROM input WHERE kind = 'child_result' AND state <> 'superseded'",
                params![],
            )?;
            Ok::<_, StoreError>((run::children(tx, parent.id)?, notes, told))
        });
        let (children, notes, told): (Vec<RunRow>, u64, u64) = read.await.unwrap();
        assert_eq!((children.len(), notes), (1, 1), "{place}");
        assert_eq!(by_call + told, 1, "{place}: heard once, {:?}", text(&parent));
        let (child, step) = (&children[0], children[0].parent_step.unwrap());
        assert_eq!(child.id, child_run_id(parent.id, step), "{place}");
        assert_eq!(child.task_id, child_task_id(parent.id, step), "{place}");
        for id in [parent.id, child.id] {
            let report = engine.runs().replay(&namespace, id).await.unwrap();
            assert!(report.is_consistent(), "{place} {id}: {:?}", report.differences);
        }
    }
}

/// A tool whose work can be done when it is tried, cannot when it counts, and can the next time.
fn fickle_tool() -> FnTool {
    let tries = Arc::new(AtomicUsize::new(0));
    let refuses = Arc::new(AtomicBool::new(false));
    let spec = ToolSpec::new("fickle", "Keeps a note", json!({"type": "object"})).unwrap();
    FnTool::new(spec.effect(EffectClass::Transactional), move |_, cx: ToolContext| {
        let (tries, refuses) = (Arc::clone(&tries), Arc::clone(&refuses));
        async move {
            let transactional = cx.dep::<TransactionalEffects>()?;
            let first = tries.fetch_add(1, Ordering::SeqCst) == 0;
            refuses.store(false, Ordering::SeqCst);
            let refused = Arc::clone(&refuses);
            let work = transactional.commit(cx.effect_key(), move |tx| {
                if refused.load(Ordering::SeqCst) {
                    return Err(
                        RequestError::Busy { what: "the table".to_owned(), until: None }.into()
                    );
                }
                Ok(tx.execute("INSERT INTO note (text) VALUES ('kept')", params![])?)
            });
            work.await?;
            // It was tried; the first time it cannot be done after all.
            refuses.store(first, Ordering::SeqCst);
            Ok::<_, ToolError>(ToolOutput::text("kept"))
        }
        .boxed()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_transaction_fails_is_made_again_and_leaves_nothing_twice() {
    let tool = fickle_tool();
    let harness = Harness::of(options(), Env::system(), move |_: &_, _: &Lease| {
        let model = ScriptedModel::from_fn(|request, _| match results(request).len() {
            0 => scripted::call("fickle", json!({})),
            n => scripted::text(format!("{n} result")),
        });
        Ok(Agent::builder("default", model).tool(tool.clone()).build().unwrap())
    })
    .await;
    let table =
        harness.engine.store().write(|tx| tx.execute("CREATE TABLE note (text TEXT)", params![]));
    table.await.unwrap();
    let _worker = harness.worker().await;
    let accepted = harness.say("chat", "go").await;
    let run = harness.wait(accepted.run).await;
    assert_eq!((run.status.as_str(), text(&run).as_str()), ("ok", "1 result"), "{:?}", run.detail);
    assert_eq!((run.attempt_no, count(&harness, "note").await), (2, 1));
    replay_all(&harness).await;
    // The conversation has the result that counts, once: the question, the call, its result, the answer.
    assert_eq!(count(&harness, "session_entry").await, 4);
    let next = harness.say("chat", "again").await;
    assert_eq!(text(&harness.wait(next.run).await), "1 result");
}
