//! Parked runs: the memory of a process with many of them in its database.

use std::path::Path;
use std::time::Duration;

use provost_agent::Agent;
use provost_core::Role;
use provost_core::command::TaskRequest;
use provost_core::lifecycle::RunPhase;
use provost_model::{ScriptedModel, call, text};
use provost_tool::RequiresApproval;
use serde_json::json;

use crate::child_process::numbers;
use crate::measure::{Pairs, memory};
use crate::provost_side::{self, add_tool};
use crate::table::{Table, Unit};
use crate::{Plan, Result, disk, engine};

/// Fills a database.
pub(super) const FILL: &str = "fill-parked";
/// Runs a worker on it and prints the memory of the process.
pub(super) const IDLE: &str = "idle";
/// Limit of the additional memory for ten times as many runs: far less than a value for each of them, and more than the
/// variation of the allocator and the page cache between two starts.
const EXCESS_BYTES_MAX: f64 = 4.0 * 1024.0 * 1024.0;
/// Runs that the process executes while the others wait.
const WORK: usize = 50;
/// Time without work, so that maintenance has run.
const IDLE_TIME: Duration = Duration::from_secs(2);

pub(super) fn measure(plan: Plan, dir: &Path, table: &mut Table) -> Result<()> {
    let many = plan.pick(100_000, 10_000);
    let few = many / 10;
    let (mut pairs, mut bytes) = (Pairs::default(), 0.0);
    let mut memory_with = |count: usize| -> Result<f64> {
        let dir = disk::fresh(dir)?;
        super::finish(FILL, dir.path(), count)?;
        let [memory, stored] = numbers(&super::finish(IDLE, dir.path(), count)?)?;
        bytes = stored / count as f64;
        Ok(memory)
    };
    let (with_few, with_many) = (memory_with(few)?, memory_with(many)?);
    pairs.push(with_many, with_few);
    let (many, few) = (super::grouped(many), super::grouped(few));
    let what = format!("{many} parked runs: memory, against {few}");
    table.excess_at_most(&what, Unit::Bytes, &pairs, EXCESS_BYTES_MAX);
    table.number(&format!("{many} parked runs: on disk, each"), Unit::Bytes, bytes);
    Ok(())
}

/// Stores one run that waits for an approval, and its copies.
pub(super) async fn fill(dir: &Path, count: usize) -> Result<()> {
    let model = ScriptedModel::from_fn(|_, _| call("add", json!({ "a": 1, "b": 2 })));
    let tool = add_tool()?.with_spec(|spec| spec.approval(RequiresApproval::Always));
    let agent = Agent::builder("adder", model).tool(tool).build()?;
    let engine = super::open_engine(dir, agent).await?;
    let worker = engine.start().await?;
    let original = super::original(&engine, RunPhase::Parked).await?;
    worker.stop(Duration::ZERO).await;
    original.multiply(engine.store(), count.saturating_sub(1)).await?;
    super::close(engine.store()).await
}

/// Executes some runs, then stays idle for a moment.
pub(super) async fn idle(dir: &Path) -> Result<()> {
    let model = ScriptedModel::from_fn(|request, _| {
        match request.messages.last().map(|message| message.role) {
            Some(Role::Tool) => text("Three."),
            _ => call("add", json!({ "a": 1, "b": 2 })),
        }
    });
    let agent = Agent::builder("adder", model.without_recording()).tool(add_tool()?).build()?;
    let engine = super::open_engine(dir, agent).await?;
    let worker = engine.start().await?;
    for _ in 0..WORK {
        engine::done(&engine, TaskRequest::text(provost_side::PROMPT)).await?;
    }
    tokio::time::sleep(IDLE_TIME).await;
    let memory = memory()?;
    worker.stop(Duration::ZERO).await;
    let path = engine.store().path().to_owned();
    engine.store().close().await;
    super::print_line(format!("{memory} {}", std::fs::metadata(path)?.len()))
}
