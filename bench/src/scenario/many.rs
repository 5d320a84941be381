//! A hundred thousand runs that wait, a hundred thousand that could begin, a million events of those that ended: what is there
//! costs rows, and nothing else.

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
use provost_engine::Engine;
use provost_store::Store;

use crate::copies::Original;
use crate::side::Side;
use crate::table::Table;
use crate::{Plan, Result, disk, engine, ours};

/// The hidden command of the processes that fill databases and open them again.
pub(crate) const COMMAND: &str = "many";

/// Measures each of the three.
pub(crate) fn measure(plan: Plan, dir: &Path, table: &mut Table) -> Result<()> {
    parked::measure(plan, dir, table)?;
    claim::measure(plan, dir, table)?;
    restart::measure(plan, dir, table)
}

/// Does one part in this process.
pub(crate) fn run(part: &str, dir: &str, count: &str) -> Result<()> {
    let (dir, count) = (Path::new(dir), count.parse()?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match part {
            parked::FILL => parked::fill(dir, count).await,
            parked::IDLE => parked::idle(dir).await,
            claim::FILL => claim::fill(dir, count).await,
            restart::FILL => restart::fill(dir, count).await,
            restart::AGAIN => restart::again(dir).await,
            other => Err(format!("there is no part `{other}`").into()),
        }
    })
}

/// Starts a process for a part.
/// Fills a database with about so many events.
pub(crate) fn fill_events(dir: &Path, events: usize) -> Result<()> {
    let mut filling = start(restart::FILL, dir, events)?;
    filling.hear()?;
    filling.kill()
}

fn start(part: &str, dir: &Path, count: usize) -> Result<Side> {
    Side::start(&[COMMAND, part, disk::argument(dir)?, &count.to_string()])
}

/// Lets a process do a part, and gives its last line.
fn finish(part: &str, dir: &Path, count: usize) -> Result<String> {
    start(part, dir, count)?.end()
}

/// Tells the other side.
fn say(line: impl std::fmt::Display) -> Result<()> {
    Ok(writeln!(io::stdout(), "{line}")?)
}

/// An engine whose every run has this agent.
async fn opened(dir: &Path, agent: Agent) -> Result<Engine> {
    engine::open(dir, 8, engine::always(agent)).await
}

/// Hands in one command and gives what is stored of its run once that is in a phase.
async fn original(engine: &Engine, phase: &str) -> Result<Original> {
    let namespace = Namespace::default();
    let accepted = engine.submit(&namespace, TaskRequest::text(ours::PROMPT)).await?;
    for _ in 0..1000 {
        if query::run::get(engine.store(), &namespace, accepted.run).await?.phase == phase {
            return Original::of(engine.store(), accepted.run).await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(format!("a run did not become `{phase}`").into())
}

/// Closes a database that nobody works on any more.
async fn close(store: &Store) -> Result<()> {
    store.close().await;
    say("done")
}

/// Thousands apart, for people.
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
