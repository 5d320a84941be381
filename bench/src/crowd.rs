//! Two hundred runs at once: how many finish in a second, and the most memory that takes.
//!
//! Each side is a process of its own, because the peak memory of a process never goes down again. The two take turns, wave
//! by wave, so that both see the same machine.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use tokio::runtime::Runtime;

use crate::floor::Floor;
use crate::measure::{Pairs, peak_memory};
use crate::server::ROUNDS_MODEL;
use crate::table::{Table, Unit};
use crate::{Plan, Result, ours};

/// The hidden command that runs one side.
pub(crate) const COMMAND: &str = "crowd";
const RUNS: usize = 200;
const SPEED_RATIO_MIN: f64 = 0.8;
const MEMORY_RATIO_MAX: f64 = 1.5;

/// Starts both sides and lets them take turns.
pub(crate) fn measure(plan: Plan, url: &str, table: &mut Table) -> Result<()> {
    let (mut speed, mut memory) = (Pairs::default(), Pairs::default());
    for _ in 0..plan.pick(3, 1) {
        let mut floor = Side::start("floor", url)?;
        let mut ours = Side::start("ours", url)?;
        for wave in 0..=plan.pick(12, 6) {
            let (floor_speed, our_speed) = (floor.wave()?, ours.wave()?);
            // The first wave opens connections.
            if wave > 0 {
                speed.push(our_speed, floor_speed);
            }
        }
        memory.push(ours.end()?, floor.end()?);
    }
    let what = "200 runs at once: runs finished";
    table.ratio_at_least(what, Unit::PerSecond, &speed, SPEED_RATIO_MIN);
    let what = "200 runs at once: peak memory of the process";
    table.ratio_at_most(what, Unit::Bytes, &memory, MEMORY_RATIO_MAX);
    Ok(())
}

/// A process that runs a wave for every line it is sent.
struct Side {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Side {
    fn start(side: &str, url: &str) -> Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .args([COMMAND, side, url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        match (process.stdin.take(), process.stdout.take()) {
            (Some(input), Some(output)) => {
                Ok(Self { process, input, output: BufReader::new(output) })
            }
            _ => Err("a process without pipes".into()),
        }
    }

    /// Runs in a second.
    fn wave(&mut self) -> Result<f64> {
        writeln!(self.input)?;
        self.number()
    }

    /// The peak memory in bytes.
    fn end(mut self) -> Result<f64> {
        drop(self.input);
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        self.process.wait()?;
        Ok(line.trim().parse()?)
    }

    fn number(&mut self) -> Result<f64> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim().parse()?)
    }
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
