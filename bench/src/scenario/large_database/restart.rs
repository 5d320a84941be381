//! Restart after a kill, over a large database: time until the first claim.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use provost_agent::Agent;
use provost_core::command::TaskRequest;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RunPhase;
use provost_core::{Limits, Role};
use provost_engine::{AgentRevision, EngineError, Lease};
use provost_model::{ScriptedModel, call, text};
use serde_json::json;
use tokio::sync::Notify;

use crate::measure::within;
use crate::provost_side::add_tool;
use crate::table::{Table, Unit};
use crate::{Plan, Result, disk, engine};

/// Fills a database, then runs until it is killed.
pub(super) const FILL: &str = "fill-events";
/// Opens the database again.
pub(super) const RESTART: &str = "restart";
const SECONDS_MAX: f64 = 1.0;
/// Tool rounds of the copied run, for about a hundred events.
const ROUNDS: usize = 24;
/// Prompt of a run that never ends.
const ENDLESS: &str = "Never answer this.";
/// Timeout of a claim.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(super) fn measure(plan: Plan, dir: &Path, table: &mut Table) -> Result<()> {
    let events = plan.pick(1_000_000, 100_000);
    let dir = disk::fresh(dir)?;
    let mut first = super::start(FILL, dir.path(), events)?;
    first.read_line()?;
    first.kill()?;
    let started = Instant::now();
    let mut second = super::start(RESTART, dir.path(), events)?;
    second.read_line()?;
    let seconds = started.elapsed().as_secs_f64();
    drop(second);
    let what = format!("restart over {} events: until the first claim", super::grouped(events));
    table.at_most(&what, Unit::Time, seconds, SECONDS_MAX);
    Ok(())
}

/// Stores an ended run and its copies, and executes a run that never ends while another one waits.
pub(super) async fn fill(dir: &Path, events: usize) -> Result<()> {
    let model = ScriptedModel::from_fn(|request, _| {
        let results = request.messages.iter().filter(|message| message.role == Role::Tool);
        match results.count() {
            _ if request.messages.iter().any(|message| message.text() == ENDLESS) => {
                text("Well").hang()
            }
            results if results < ROUNDS => call("add", json!({ "a": 1, "b": 2 })),
            _ => text("Three."),
        }
    });
    let agent = Agent::builder("adder", model.without_recording())
        .tool(add_tool()?)
        .limits(Limits { turns: None, ..Limits::default() })
        .build()?;
    let engine = engine::open(dir, 1, engine::always(agent)).await?;
    let worker = engine.start().await?;
    let original = super::original(&engine, RunPhase::Done).await?;
    let copies = events / original.event_count().max(1);
    original.multiply(engine.store(), copies).await?;
    let namespace = Namespace::default();
    for _ in 0..2 {
        engine.submit(&namespace, TaskRequest::text(ENDLESS)).await?;
    }
    super::print_line("filled")?;
    // The parent process kills this process.
    std::future::pending::<()>().await;
    drop(worker);
    Ok(())
}

/// Prints a line when the engine has started and its worker has claimed a run.
pub(super) async fn restart(dir: &Path) -> Result<()> {
    let claimed = Arc::new(Notify::new());
    let agents = {
        let claimed = Arc::clone(&claimed);
        let model = ScriptedModel::from_fn(|_, _| text("Three."));
        let agent = Agent::builder("adder", model.without_recording()).build()?;
        move |_: &AgentRevision, _: &Lease| {
            claimed.notify_one();
            Ok::<_, EngineError>(agent.clone())
        }
    };
    let engine = engine::open(dir, 1, agents).await?;
    let worker = engine.start().await?;
    within(TIMEOUT, "nothing was claimed", claimed.notified()).await?;
    super::print_line("claimed")?;
    worker.stop(Duration::ZERO).await;
    Ok(())
}
