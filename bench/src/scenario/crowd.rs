//! Two hundred runs at once: how many finish in a second, and the most memory that takes.
//!
//! Each side is a process of its own, because the peak memory of a process never goes down again. The two take turns, wave
//! by wave, so that both see the same machine.

use std::io::{self, Write};
use std::time::Instant;

use tokio::runtime::Runtime;

use crate::baseline::floor::Floor;
use crate::measure::{Pairs, peak_memory};
use crate::server::ROUNDS_MODEL;
use crate::side::{Side, numbers};
use crate::table::{Table, Unit};
use crate::{Plan, Result, ours};

/// The hidden command that runs one side.
pub(crate) const COMMAND: &str = "crowd";
const RUNS: usize = 200;
const SPEED_RATIO_MIN: f64 = 0.6;
const MEMORY_RATIO_MAX: f64 = 1.5;

/// Starts both sides and lets them take turns.
pub(crate) fn measure(plan: Plan, url: &str, table: &mut Table) -> Result<()> {
    let (mut speed, mut memory) = (Pairs::default(), Pairs::default());
    for _ in 0..plan.pick(3, 1) {
        let mut floor = start("floor", url)?;
        let mut ours = start("ours", url)?;
        for number in 0..=plan.pick(12, 6) {
            let (floor_speed, our_speed) = (wave(&mut floor)?, wave(&mut ours)?);
            // The first wave opens connections.
            if number > 0 {
                speed.push(our_speed, floor_speed);
            }
        }
        memory.push(end(ours)?, end(floor)?);
    }
    let what = "200 runs at once: runs finished";
    table.ratio_at_least(what, Unit::PerSecond, &speed, SPEED_RATIO_MIN);
    let what = "200 runs at once: peak memory of the process";
    table.ratio_at_most(what, Unit::Bytes, &memory, MEMORY_RATIO_MAX);
    Ok(())
}

fn start(side: &str, url: &str) -> Result<Side> {
    Side::start(&[COMMAND, side, url])
}

/// Runs in a second.
fn wave(side: &mut Side) -> Result<f64> {
    let [speed] = numbers(&side.ask("")?)?;
    Ok(speed)
}

/// The peak memory in bytes.
fn end(side: Side) -> Result<f64> {
    let [memory] = numbers(&side.end()?)?;
    Ok(memory)
}

/// Runs a wave for every line of standard input; then tells the peak memory.
pub(crate) fn run(side: &str, url: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match side {
        "ours" => {
            let agent = ours::agent(url, ROUNDS_MODEL)?;
            waves(&runtime, || {
                let agent = agent.clone();
                async move { ours::answer(&agent, ours::PROMPT).await }
            })?;
        }
        _ => {
            let floor = Floor::new(url, ROUNDS_MODEL)?;
            waves(&runtime, || {
                let floor = floor.clone();
                async move { floor.run(ours::PROMPT, |_| ()).await }
            })?;
        }
    }
    writeln!(io::stdout(), "{}", peak_memory()?)?;
    Ok(())
}

fn waves<W>(runtime: &Runtime, work: impl Fn() -> W) -> Result<()>
where
    W: Future<Output = Result<u64>> + Send + 'static,
{
    for line in io::stdin().lines() {
        line?;
        let started = Instant::now();
        runtime.block_on(async {
            let tasks: Vec<_> = (0..RUNS).map(|_| tokio::spawn(work())).collect();
            for task in tasks {
                task.await??;
            }
            Ok::<_, crate::Error>(())
        })?;
        writeln!(io::stdout(), "{}", RUNS as f64 / started.elapsed().as_secs_f64())?;
    }
    Ok(())
}
