//! Tests of claims.

use provost_agent::Agent;
use provost_core::Env;
use provost_core::command::TaskRequest;
use provost_core::id::name::Namespace;
use provost_core::resource::AgentSpec;
use provost_model::ScriptedModel;
use provost_store::{Store, StoreOptions, ThreadMode, params};
use provost_tool::GuardServices;

use super::*;
use crate::agent::AgentRevision;
use crate::engine::Engine;
use crate::options::EngineDeps;
use crate::options::EngineOptions;

fn agents(_: &AgentRevision, _: &Lease) -> Result<Agent, EngineError> {
    Agent::builder("default", ScriptedModel::new())
        .build()
        .map_err(|error| EngineError::bug(error.to_string()))
}

/// Creates an engine with a number of queued runs, and a claim context.
async fn waiting(runs: usize) -> (tempfile::TempDir, Engine, Vec<RunId>, ClaimContext) {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::simulated(1);
    let options = StoreOptions {
        env: env.clone(),
        thread_mode: ThreadMode::Inline,
        ..StoreOptions::for_test(dir.path())
    };
    let engine = Engine::new(
        EngineDeps::new(
            Store::open(options).unwrap(),
            agents,
            GuardServices::default(),
            env.clone(),
        ),
        EngineOptions::default(),
    );
    let namespace = Namespace::default();
    engine.put_agent(&namespace, "default", None, AgentSpec::default()).await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..runs {
        ids.push(engine.submit(&namespace, TaskRequest::text("go")).await.unwrap().run);
        env.advance(Duration::from_millis(1));
    }
    let context = ClaimContext {
        worker: env.id(),
        pool: "default".to_owned(),
        sessions: None,
        ttl: Duration::from_secs(30),
        not_before: None,
    };
    (dir, engine, ids, context)
}

async fn claimed(
    engine: &Engine,
    context: &ClaimContext,
    max: usize,
    except: &[RunId],
) -> Vec<RunId> {
    let (context, except) = (context.clone(), except.to_vec());
    let claimed = engine.store().write(move |tx| claim(tx, &context, max, &except)).await.unwrap();
    claimed.into_iter().map(|lease| lease.run).collect()
}

#[tokio::test]
async fn the_longest_waiting_run_is_first_and_what_is_being_unwound_is_left() {
    let (_dir, engine, runs, context) = waiting(4).await;
    assert_eq!(claimed(&engine, &context, 1, &runs[..1]).await, runs[1..2]);
    assert_eq!(claimed(&engine, &context, 9, &runs[2..3]).await, [runs[0], runs[3]]);
    assert_eq!(claimed(&engine, &context, 9, &runs[2..3]).await, []);
    assert_eq!(claimed(&engine, &context, 9, &[]).await, runs[2..3]);
}

#[tokio::test]
async fn a_guarded_service_claims_nothing_before_its_time() {
    let (_dir, engine, runs, mut context) = waiting(1).await;
    context.not_before = Some(engine.inner.env.now().after(Duration::from_secs(1)));
    assert_eq!(claimed(&engine, &context, 1, &[]).await, []);
    engine.inner.env.advance(Duration::from_secs(1));
    assert_eq!(claimed(&engine, &context, 1, &[]).await, runs);
}

#[tokio::test]
async fn a_mark_that_is_wrong_keeps_nobody_from_work() {
    let (_dir, engine, runs, context) = waiting(2).await;
    let first = claimed(&engine, &context, 1, &[]).await;
    assert_eq!(first, runs[..1]);
    let (held, other) = (runs[0], runs[1]);
    let meddled = engine.store().write(move |tx| {
        let held = run::get(tx, held)?.map(|row| row.session_id).unwrap_or_default();
        tx.execute_fenced("UPDATE run SET session_id = ?2 WHERE id = ?1", params![other, held])?;
        Ok::<_, EngineError>(())
    });
    meddled.await.unwrap();
    assert_eq!(claimed(&engine, &context, 1, &[]).await, [], "its session has a writer");
}
