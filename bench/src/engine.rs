//! Engines for the measurements: a database in a directory, one agent, and wide execution classes.

use provost_store::query;
use std::path::Path;

use provost_agent::Agent;
use provost_core::command::TaskRequest;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RunStatus;
use provost_core::resource::AgentSpec;
use provost_core::scheduling::ExecutionClassKey;
use provost_engine::{
    AgentProvider, AgentRevision, DEFAULT_AGENT, Engine, EngineDeps, EngineError, EngineOptions,
    Lease,
};
use provost_store::table::work::run::RunRow;
use provost_store::{Store, StoreOptions};
use provost_tool::GuardServices;
use serde_json::json;

use crate::Result;

/// More classes than any measurement creates.
const CLASSES_MAX: u64 = 1000;

/// Opens an engine with this capacity.
pub(crate) async fn open(
    dir: &Path,
    capacity: usize,
    agents: impl AgentProvider,
) -> Result<Engine> {
    let store = Store::open(StoreOptions::in_dir(dir))?;
    let env = provost_core::Env::system();
    let options = EngineOptions { capacity, ..EngineOptions::default() };
    let engine =
        Engine::new(EngineDeps::new(store, agents, GuardServices::default(), env), options);
    // Interactive, because some runs wait for approvals.
    let policy = serde_json::from_value(json!({ "interactive": true }))?;
    let config = AgentSpec { policy, ..AgentSpec::default() };
    engine.put_agent(&Namespace::default(), DEFAULT_AGENT, None, config).await?;
    Ok(engine)
}

/// Returns a factory that returns the same agent for every run.
pub(crate) fn always(agent: Agent) -> impl AgentProvider {
    move |_: &AgentRevision, _: &Lease| Ok::<_, EngineError>(agent.clone())
}

/// Lists the execution classes of the submitted runs.
pub(crate) async fn classes(engine: &Engine) -> Result<Vec<ExecutionClassKey>> {
    let rows = query::execution_class::list(engine.store(), &Namespace::default(), "", CLASSES_MAX)
        .await?;
    Ok(rows.iter().map(|row| row.key.parse()).collect::<Result<_, _>>()?)
}

/// Sets the concurrency target of each class.
pub(crate) async fn widen(engine: &Engine, target: u64) -> Result<()> {
    for class in classes(engine).await? {
        engine.classes().set_target(&Namespace::default(), &class, target).await?;
    }
    Ok(())
}

/// Submits a request and waits for the end of its run, which must succeed.
pub(crate) async fn done(engine: &Engine, command: TaskRequest) -> Result<RunRow> {
    let namespace = Namespace::default();
    let accepted = engine.submit(&namespace, command).await?;
    let run = engine.runs().wait(&namespace, accepted.run).await?;
    check_succeeded(run)
}

/// Checks that a run has succeeded.
pub(crate) fn check_succeeded(run: RunRow) -> Result<RunRow> {
    if run.status == RunStatus::Ok {
        return Ok(run);
    }
    let detail = run.detail.as_deref().unwrap_or("nothing more is known");
    Err(format!("a run ended with `{}`: {detail}", run.status).into())
}
