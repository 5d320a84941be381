//! Two hundred runs at once: how many finish in a second, and the most memory that takes.
//!
//! Each side runs in a process of its own, because the peak memory of a process never goes down again.

use std::io::Write;
use std::process::Command;
use std::time::Instant;

use crate::floor::Floor;
use crate::measure::{median, peak_memory};
use crate::server::ROUNDS_MODEL;
use crate::table::{Table, Unit};
use crate::{Plan, Result, ours};

/// The hidden command that runs one side.
pub(crate) const COMMAND: &str = "crowd";
const RUNS: usize = 200;
const SPEED_RATIO_MIN: f64 = 0.8;
const MEMORY_RATIO_MAX: f64 = 1.5;

/// Starts processes for both sides by turns.
pub(crate) fn measure(plan: Plan, url: &str, table: &mut Table) -> Result<()> {
    let waves = plan.pick(5, 3);
    let (mut speeds, mut peaks) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for _ in 0..plan.pick(7, 3) {
        for (place, side) in ["ours", "floor"].into_iter().enumerate() {
            let (speed, peak) = start(side, url, waves)?;
            speeds[place].push(speed);
            peaks[place].push(peak);
        }
    }
    let [our_speeds, floor_speeds] = speeds.map(median);
    let [our_peak, floor_peak] = peaks.map(median);
    table.ratio_at_least(
        "200 runs at once: runs finished",
        Unit::PerSecond,
        (our_speeds, floor_speeds, SPEED_RATIO_MIN),
    );
    table.ratio_at_most(
        "200 runs at once: peak memory of the process",
        Unit::Bytes,
        (our_peak, floor_peak, MEMORY_RATIO_MAX),
    );
    Ok(())
}

fn start(side: &str, url: &str, waves: usize) -> Result<(f64, f64)> {
    let output = Command::new(std::env::current_exe()?)
        .args([COMMAND, side, url, &RUNS.to_string(), &waves.to_string()])
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let mut numbers = text.split_whitespace().map(str::parse::<f64>);
    match (numbers.next(), numbers.next()) {
        (Some(speed), Some(peak)) => Ok((speed?, peak?)),
        _ => {
            let problem = String::from_utf8_lossy(&output.stderr);
            Err(format!("the crowd of {side} did not finish: {problem}").into())
        }
    }
}

/// Runs one side and prints runs per second, the median of the waves, and the peak memory in bytes.
pub(crate) fn run(side: &str, url: &str, runs: usize, waves: usize) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let speeds = match side {
        "ours" => {
            let agent = ours::agent(url, ROUNDS_MODEL)?;
            runtime.block_on(crowd(runs, waves, || {
                let agent = agent.clone();
                async move { ours::run(&agent, ours::PROMPT, |_| ()).await }
            }))?
        }
        _ => {
            let floor = Floor::new(url, ROUNDS_MODEL)?;
            runtime.block_on(crowd(runs, waves, || {
                let floor = floor.clone();
                async move { floor.run(ours::PROMPT, |_| ()).await }
            }))?
        }
    };
    writeln!(std::io::stdout(), "{} {}", median(speeds), peak_memory()?)?;
    Ok(())
}

async fn crowd<W>(runs: usize, waves: usize, work: impl Fn() -> W) -> Result<Vec<f64>>
where
    W: Future<Output = Result<u64>> + Send + 'static,
{
    let mut speeds = Vec::with_capacity(waves);
    for _ in 0..waves {
        let started = Instant::now();
        let tasks: Vec<_> = (0..runs).map(|_| tokio::spawn(work())).collect();
        for task in tasks {
            task.await??;
        }
        speeds.push(runs as f64 / started.elapsed().as_secs_f64());
    }
    Ok(speeds)
}
