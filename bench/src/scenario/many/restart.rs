//! A restart after a kill, over a large database: how long it takes until work goes on.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use provost_agent::Agent;
use provost_core::command::TaskRequest;
use provost_core::id::name::Namespace;
use provost_core::{Limits, Role};
use provost_engine::{AgentProfile, EngineError, Lease};
use provost_model::{ScriptedModel, call, text};
use serde_json::json;
use tokio::sync::Notify;

use crate::measure::within;
use crate::ours::add_tool;
use crate::table::{Table, Unit};
use crate::{Plan, Result, disk, engine};

/// Fills a database, then works until it is killed.
pub(super) const FILL: &str = "fill-events";
/// Opens it again.
pub(super) const AGAIN: &str = "restart";
const SECONDS_MAX: f64 = 1.0;
/// Tool rounds of the run that is copied, for about a hundred events.
const ROUNDS: usize = 24;
/// What is said to a run that never ends.
const ENDLESS: &str = "Never answer this.";
/// After so long no claim will come.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn measure(plan: Plan, dir: &Path, table: &mut Table) -> Result<()> {
    let events = plan.pick(1_000_000, 100_000);
    let dir = disk::fresh(dir)?;
    let mut first = super::start(FILL, dir.path(), events)?;
    first.hear()?;
    first.kill()?;
    let started = Instant::now();
    let mut second = super::start(AGAIN, dir.path(), events)?;
    second.hear()?;
    let seconds = started.elapsed().as_secs_f64();
    drop(second);
    let what = format!("restart over {} events: until the first claim", super::grouped(events));
    table.at_most(&what, Unit::Time, seconds, SECONDS_MAX);
    Ok(())
}

/// Stores a run that has ended and its copies, and works on one that does not end while another waits.
pub(super) async fn fill(dir: &Path, events: usize) -> Result<()> {
    let model = ScriptedModel::answering(|request, _| {
        let results = request.messages.iter().filter(|message| message.role == Role::Tool);
        match results.count() {
            _ if request.messages.iter().any(|message| message.text() == ENDLESS) => {
                text("Well").hang()
            }
            results if results < ROUNDS => call("add", json!({ "a": 1, "b": 2 })),
            _ => text("Three."),
        }
    });
    let agent = Agent::builder("adder", model.forgetful())
        .tool(add_tool()?)
        .limits(Limits { turns: None, ..Limits::default() })
        .build()?;
    let engine = engine::open(dir, 1, engine::always(agent)).await?;
    let worker = engine.start().await?;
    let original = super::original(&engine, "done").await?;
    let copies = events / original.event_count().max(1);
    original.multiply(engine.store(), copies).await?;
    let namespace = Namespace::default();
    for _ in 0..2 {
        engine.submit(&namespace, TaskRequest::text(ENDLESS)).await?;
    }
    super::say("filled")?;
    // Until somebody kills it.
    std::future::pending::<()>().await;
    drop(worker);
    Ok(())
}

/// Tells when the engine has started and its worker has claimed something.
pub(super) async fn again(dir: &Path) -> Result<()> {
    let claimed = Arc::new(Notify::new());
    let agents = {
        let claimed = Arc::clone(&claimed);
        let model = ScriptedModel::answering(|_, _| text("Three."));
        let agent = Agent::builder("adder", model.forgetful()).build()?;
        move |_: &AgentProfile, _: &Lease| {
            claimed.notify_one();
            Ok::<_, EngineError>(agent.clone())
        }
    };
    let engine = engine::open(dir, 1, agents).await?;
    let worker = engine.start().await?;
    within(PATIENCE, "nothing was claimed", claimed.notified()).await?;
    super::say("claimed")?;
    worker.stop(Duration::ZERO).await;
    Ok(())
}
