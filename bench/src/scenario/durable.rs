//! The same task through the engine and through a journal written by hand: five model calls and five tool calls, each of them
//! on disk before it happens.
//!
//! Each side is a process of its own with a database of its own on the same disk; they take turns.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use provost_core::Usage;
use provost_core::command::TaskRequest;
use provost_engine::Engine;
use provost_store::table::work::run::RunRow;
use provost_store::table::work::run_step;
use tokio::runtime::Runtime;

use crate::baseline::floor::Floor;
use crate::baseline::hand::Hand;
use crate::baseline::sqlite;
use crate::measure::{Pairs, cpu_time};
use crate::server::{Server, TASK_MODEL, TASK_MODEL_STEPS, TASK_TOOL_STEPS};
use crate::side::{Side, numbers};
use crate::table::{Table, Unit};
use crate::{Plan, Result, disk, engine, ours};

/// The hidden command that runs one side.
pub(crate) const COMMAND: &str = "durable";
const IN_FLIGHT: usize = 64;
/// Runs that the engine may carry at once: more than are ever in flight, so that nobody waits for a place.
const ROOM: usize = 2 * IN_FLIGHT;
const STEPS: usize = TASK_MODEL_STEPS + TASK_TOOL_STEPS;
const SPEED_RATIO_MIN: f64 = 0.35;
const CPU_RATIO_MAX: f64 = 2.5;
const STEP_RATIO_MAX: f64 = 2.0;
/// Steps of one run that are read at once; more than it has.
const STEPS_READ: u64 = 1000;

/// Measures the disk, then both sides by turns.
pub(crate) fn measure(plan: Plan, dir: &Path, table: &mut Table) -> Result<()> {
    let raw = disk::fresh(dir)?;
    for (rows, what) in [
        (1, "SQLite alone on this disk: commits of one row"),
        (10, "SQLite alone on this disk: commits of ten rows"),
    ] {
        let speed = sqlite::commits_per_second(raw.path(), rows, plan.pick(1000, 100))?;
        table.number(what, Unit::PerSecond, speed);
    }
    let server = Server::start()?;
    let (ours_dir, hand_dir) = (disk::fresh(dir)?, disk::fresh(dir)?);
    let mut ours = start("ours", server.url(), ours_dir.path())?;
    let mut hand = start("hand", server.url(), hand_dir.path())?;
    crowd(plan, &mut ours, &mut hand, table)?;
    alone(plan, &mut ours, &mut hand, table)?;
    Ok(())
}

fn start(side: &str, url: &str, dir: &Path) -> Result<Side> {
    Side::start(&[COMMAND, side, url, disk::argument(dir)?])
}

fn crowd(plan: Plan, ours: &mut Side, hand: &mut Side, table: &mut Table) -> Result<()> {
    let each = plan.pick(4, 1);
    let tasks = (IN_FLIGHT * each) as f64;
    let (mut speed, mut cpu, mut commits) = <(Pairs, Pairs, Pairs)>::default();
    for wave in 0..=plan.pick(40, 3) {
        let (theirs, ours) = (Wave::of(hand, IN_FLIGHT, each)?, Wave::of(ours, IN_FLIGHT, each)?);
        same_work(&ours, &theirs)?;
        // The first wave opens connections and makes the files.
        if wave > 0 {
            speed.push(tasks / ours.seconds, tasks / theirs.seconds);
            cpu.push(ours.cpu / tasks, theirs.cpu / tasks);
            commits.push(ours.commits / tasks, theirs.commits / tasks);
        }
    }
    let what = "64 durable tasks in flight: tasks finished";
    table.ratio_at_least(what, Unit::PerSecond, &speed, SPEED_RATIO_MIN);
    let what = "64 durable tasks in flight: CPU per task";
    table.ratio_at_most(what, Unit::Time, &cpu, CPU_RATIO_MAX);
    let what = "64 durable tasks in flight: commits per task";
    table.compare_only(what, Unit::Count, &commits);
    Ok(())
}

fn alone(plan: Plan, ours: &mut Side, hand: &mut Side, table: &mut Table) -> Result<()> {
    let (mut time, mut cpu, mut commits) = <(Pairs, Pairs, Pairs)>::default();
    for repetition in 0..=plan.pick(60, 10) {
        let (theirs, ours) = (Wave::of(hand, 1, 1)?, Wave::of(ours, 1, 1)?);
        same_work(&ours, &theirs)?;
        if repetition > 0 {
            time.push(ours.seconds / STEPS as f64, theirs.seconds / STEPS as f64);
            cpu.push(ours.cpu / STEPS as f64, theirs.cpu / STEPS as f64);
            commits.push(ours.commits, theirs.commits);
        }
    }
    let what = "one durable task alone: time per step";
    table.ratio_at_most(what, Unit::Time, &time, STEP_RATIO_MAX);
    table.compare_only("one durable task alone: CPU per step", Unit::Time, &cpu);
    table.compare_only("one durable task alone: commits", Unit::Count, &commits);
    Ok(())
}

fn same_work(ours: &Wave, theirs: &Wave) -> Result<()> {
    if ours.tokens == theirs.tokens {
        return Ok(());
    }
    Err(format!("not the same work: {} tokens, by hand {}", ours.tokens, theirs.tokens).into())
}

/// What a side needed for some tasks.
struct Wave {
    seconds: f64,
    cpu: f64,
    commits: f64,
    tokens: f64,
}

impl Wave {
    /// Lets a side do tasks: so many at once, and each of these so often.
    fn of(side: &mut Side, at_once: usize, each: usize) -> Result<Self> {
        let [seconds, cpu, commits, tokens] = numbers(&side.ask(&format!("{at_once} {each}"))?)?;
        Ok(Self { seconds, cpu, commits, tokens })
    }
}

/// Does tasks for every line of standard input.
pub(crate) fn run(side: &str, url: &str, dir: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if side == "ours" {
        return through_engine(&runtime, url, dir);
    }
    let hand = Hand::open(Path::new(dir), Floor::new(url, TASK_MODEL)?)?;
    let work = || {
        let hand = hand.clone();
        async move { hand.run(ours::PROMPT).await }
    };
    waves(&runtime, work, || hand.commits())
}

fn through_engine(runtime: &Runtime, url: &str, dir: &str) -> Result<()> {
    let agent = ours::agent(url, TASK_MODEL)?;
    let (engine, worker) = runtime.block_on(async {
        let engine = engine::open(Path::new(dir), ROOM, engine::always(agent)).await?;
        let worker = engine.start().await?;
        // The class is there once it has a run.
        let first = engine::done(&engine, TaskRequest::text(ours::PROMPT)).await?;
        check_steps(&engine, &first).await?;
        engine::widen(&engine, ROOM as u64).await?;
        Ok::<_, crate::Error>((engine, worker))
    })?;
    let work = || {
        let engine = engine.clone();
        async move { tokens(&engine::done(&engine, TaskRequest::text(ours::PROMPT)).await?) }
    };
    waves(runtime, work, || engine.store().stats().commits)?;
    runtime.block_on(worker.stop(Duration::ZERO));
    Ok(())
}

/// A task that is not journaled as it should be would be a cheap one.
async fn check_steps(engine: &Engine, run: &RunRow) -> Result<()> {
    let id = run.id;
    let read = engine.store().read(move |tx| run_step::after(tx, id, 0, STEPS_READ));
    let steps = read.await?;
    let count = |kind| steps.iter().filter(|step| step.kind == kind).count();
    let counts = (count("model_call"), count("tool_call"));
    if counts != (TASK_MODEL_STEPS, TASK_TOOL_STEPS) {
        let (models, tools) = counts;
        return Err(format!("the journal has {models} model steps and {tools} tool steps").into());
    }
    Ok(())
}

fn tokens(run: &RunRow) -> Result<u64> {
    let usage = run.usage.as_deref().ok_or("a run that used nothing")?;
    Ok(serde_json::from_str::<Usage>(usage)?.total())
}

fn waves<W>(runtime: &Runtime, work: impl Fn() -> W, commits: impl Fn() -> u64) -> Result<()>
where
    W: Future<Output = Result<u64>> + Send + 'static,
{
    for line in io::stdin().lines() {
        let [at_once, each] = numbers(&line?)?;
        let (started, cpu_before, commits_before) = (Instant::now(), cpu_time(), commits());
        let tokens = runtime.block_on(async {
            let lanes: Vec<_> = (0..at_once as usize)
                .map(|_| {
                    let tasks: Vec<W> = (0..each as usize).map(|_| work()).collect();
                    tokio::spawn(one_by_one(tasks))
                })
                .collect();
            let mut tokens = 0;
            for lane in lanes {
                tokens += lane.await??;
            }
            Ok::<_, crate::Error>(tokens)
        })?;
        let seconds = started.elapsed().as_secs_f64();
        let cpu = (cpu_time() - cpu_before).as_secs_f64();
        writeln!(io::stdout(), "{seconds} {cpu} {} {tokens}", commits() - commits_before)?;
    }
    Ok(())
}

async fn one_by_one<W: Future<Output = Result<u64>>>(tasks: Vec<W>) -> Result<u64> {
    let mut tokens = 0;
    for task in tasks {
        tokens += task.await?;
    }
    Ok(tokens)
}
