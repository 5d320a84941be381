//! A large database: 100,000 parked runs, 100,000 queued runs, and 1,000,000 events of ended runs.

mod claim;
mod parked;
mod restart;

use provost_store::query;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use provost_agent::Agent;
use provost_core::command::TaskRequest;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RunPhase;
use provost_engine::Engine;
use provost_store::Store;

use crate::child_process::ChildProcess;
use crate::seed_data::Original;
use crate::table::Table;
use crate::{Plan, Result, disk, engine, provost_side};

/// Hidden command of the processes that fill and open databases.
pub(crate) const COMMAND: &str = "many";

/// Measures the three parts.
pub(crate) fn measure(plan: Plan, dir: &Path, table: &mut Table) -> Result<()> {
    parked::measure(plan, dir, table)?;
    claim::measure(plan, dir, table)?;
    restart::measure(plan, dir, table)
}

/// Executes one part in this process.
pub(crate) fn run(part: &str, dir: &str, count: &str) -> Result<()> {
    let (dir, count) = (Path::new(dir), count.parse()?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match part {
            parked::FILL => parked::fill(dir, count).await,
            parked::IDLE => parked::idle(dir).await,
            claim::FILL => claim::fill(dir, count).await,
            restart::FILL => restart::fill(dir, count).await,
            restart::RESTART => restart::restart(dir).await,
            other => Err(format!("there is no part `{other}`").into()),
        }
    })
}

/// Fills a database with about `events` events.
pub(crate) fn fill_events(dir: &Path, events: usize) -> Result<()> {
    let mut filling = start(restart::FILL, dir, events)?;
    filling.read_line()?;
    filling.kill()
}

fn start(part: &str, dir: &Path, count: usize) -> Result<ChildProcess> {
    ChildProcess::start(&[COMMAND, part, disk::argument(dir)?, &count.to_string()])
}

/// Runs a part in a child process. Returns its last line of output.
fn finish(part: &str, dir: &Path, count: usize) -> Result<String> {
    start(part, dir, count)?.end()
}

/// Prints a line for the parent process.
fn print_line(line: impl std::fmt::Display) -> Result<()> {
    Ok(writeln!(io::stdout(), "{line}")?)
}

/// Opens an engine that uses this agent for every run.
async fn open_engine(dir: &Path, agent: Agent) -> Result<Engine> {
    engine::open(dir, 8, engine::always(agent)).await
}

/// Submits one task. Returns the rows of its run when the run is in a phase.
async fn original(engine: &Engine, phase: RunPhase) -> Result<Original> {
    let namespace = Namespace::default();
    let accepted = engine.submit(&namespace, TaskRequest::text(provost_side::PROMPT)).await?;
    for _ in 0..1000 {
        if query::run::get(engine.store(), &namespace, accepted.run).await?.phase == phase {
            return Original::of(engine.store(), accepted.run).await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(format!("a run did not become `{phase}`").into())
}

/// Closes a database that no engine uses.
async fn close(store: &Store) -> Result<()> {
    store.close().await;
    print_line("done")
}

/// Formats a number with thousands separators.
fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
