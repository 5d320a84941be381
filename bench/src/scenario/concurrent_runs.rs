//! 200 concurrent runs: runs per second, and peak memory.
//!
//! Each side is a separate process, because the peak memory of a process never decreases. The sides alternate wave by
//! wave, so that both see the same state of the machine.

use std::io::{self, Write};
use std::time::Instant;

use tokio::runtime::Runtime;

use crate::baseline::baseline_loop::BaselineLoop;
use crate::child_process::{ChildProcess, numbers};
use crate::measure::{Pairs, peak_memory};
use crate::server::ROUNDS_MODEL;
use crate::table::{Table, Unit};
use crate::{Plan, Result, provost_side};

/// Hidden command that runs one side.
pub(crate) const COMMAND: &str = "crowd";
const RUNS: usize = 200;
const SPEED_RATIO_MIN: f64 = 0.6;
const MEMORY_RATIO_MAX: f64 = 1.5;

/// Starts both sides and alternates between them.
pub(crate) fn measure(plan: Plan, url: &str, table: &mut Table) -> Result<()> {
    let (mut speed, mut memory) = (Pairs::default(), Pairs::default());
    for _ in 0..plan.pick(3, 1) {
        let mut baseline = start("floor", url)?;
        let mut provost = start("ours", url)?;
        for number in 0..=plan.pick(12, 6) {
            let (baseline_speed, provost_speed) = (wave(&mut baseline)?, wave(&mut provost)?);
            // The first wave opens connections.
            if number > 0 {
                speed.push(provost_speed, baseline_speed);
            }
        }
        memory.push(end(provost)?, end(baseline)?);
    }
    let what = "200 runs at once: runs finished";
    table.ratio_at_least(what, Unit::PerSecond, &speed, SPEED_RATIO_MIN);
    let what = "200 runs at once: peak memory of the process";
    table.ratio_at_most(what, Unit::Bytes, &memory, MEMORY_RATIO_MAX);
    Ok(())
}

fn start(side: &str, url: &str) -> Result<ChildProcess> {
    ChildProcess::start(&[COMMAND, side, url])
}

/// Returns the runs per second.
fn wave(process: &mut ChildProcess) -> Result<f64> {
    let [speed] = numbers(&process.ask("")?)?;
    Ok(speed)
}

/// Returns the peak memory in bytes.
fn end(process: ChildProcess) -> Result<f64> {
    let [memory] = numbers(&process.end()?)?;
    Ok(memory)
}

/// Runs a wave for every line of standard input, then prints the peak memory.
pub(crate) fn run(side: &str, url: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match side {
        "ours" => {
            let agent = provost_side::agent(url, ROUNDS_MODEL)?;
            waves(&runtime, || {
                let agent = agent.clone();
                async move { provost_side::answer(&agent, provost_side::PROMPT).await }
            })?;
        }
        _ => {
            let baseline = BaselineLoop::new(url, ROUNDS_MODEL)?;
            waves(&runtime, || {
                let baseline = baseline.clone();
                async move { baseline.run(provost_side::PROMPT, |_| ()).await }
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
