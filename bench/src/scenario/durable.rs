//! The same task through the engine and through the baseline journal: five model calls and five tool calls, each
//! persisted before it happens.
//!
//! Each side is a separate process with a separate database on the same disk. The sides alternate.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use provost_core::Usage;
use provost_core::command::TaskRequest;
use provost_core::lifecycle::StepKind;
use provost_engine::Engine;
use provost_store::table::work::run::RunRow;
use provost_store::table::work::run_step;
use tokio::runtime::Runtime;

use crate::baseline::baseline_journal::BaselineJournal;
use crate::baseline::baseline_loop::BaselineLoop;
use crate::baseline::sqlite;
use crate::child_process::{ChildProcess, numbers};
use crate::measure::{Pairs, cpu_time};
use crate::server::{Server, TASK_MODEL, TASK_MODEL_STEPS, TASK_TOOL_STEPS};
use crate::table::{Table, Unit};
use crate::{Plan, Result, disk, engine, provost_side};

/// Hidden command that runs one side.
pub(crate) const COMMAND: &str = "durable";
const IN_FLIGHT: usize = 64;
/// Capacity of the engine: more than the runs in flight, so that no run waits for a slot.
const CAPACITY: usize = 2 * IN_FLIGHT;
const STEPS: usize = TASK_MODEL_STEPS + TASK_TOOL_STEPS;
const SPEED_RATIO_MIN: f64 = 0.35;
const CPU_RATIO_MAX: f64 = 2.5;
const STEP_RATIO_MAX: f64 = 2.0;
/// Steps of one run that are read at once. More than it has.
const STEPS_READ: u64 = 1000;

/// Measures the disk, then both sides alternately.
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
    let (provost_dir, baseline_dir) = (disk::fresh(dir)?, disk::fresh(dir)?);
    let mut provost = start("ours", server.url(), provost_dir.path())?;
    let mut baseline = start("hand", server.url(), baseline_dir.path())?;
    crowd(plan, &mut provost, &mut baseline, table)?;
    alone(plan, &mut provost, &mut baseline, table)?;
    Ok(())
}

fn start(side: &str, url: &str, dir: &Path) -> Result<ChildProcess> {
    ChildProcess::start(&[COMMAND, side, url, disk::argument(dir)?])
}

fn crowd(
    plan: Plan,
    provost: &mut ChildProcess,
    baseline: &mut ChildProcess,
    table: &mut Table,
) -> Result<()> {
    let each = plan.pick(4, 1);
    let tasks = (IN_FLIGHT * each) as f64;
    let (mut speed, mut cpu, mut commits) = <(Pairs, Pairs, Pairs)>::default();
    for wave in 0..=plan.pick(40, 3) {
        let (baseline, provost) =
            (Wave::of(baseline, IN_FLIGHT, each)?, Wave::of(provost, IN_FLIGHT, each)?);
        same_work(&provost, &baseline)?;
        // The first wave opens connections and creates the files.
        if wave > 0 {
            speed.push(tasks / provost.seconds, tasks / baseline.seconds);
            cpu.push(provost.cpu / tasks, baseline.cpu / tasks);
            commits.push(provost.commits / tasks, baseline.commits / tasks);
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

fn alone(
    plan: Plan,
    provost: &mut ChildProcess,
    baseline: &mut ChildProcess,
    table: &mut Table,
) -> Result<()> {
    let (mut time, mut cpu, mut commits) = <(Pairs, Pairs, Pairs)>::default();
    for repetition in 0..=plan.pick(60, 10) {
        let (baseline, provost) = (Wave::of(baseline, 1, 1)?, Wave::of(provost, 1, 1)?);
        same_work(&provost, &baseline)?;
        if repetition > 0 {
            time.push(provost.seconds / STEPS as f64, baseline.seconds / STEPS as f64);
            cpu.push(provost.cpu / STEPS as f64, baseline.cpu / STEPS as f64);
            commits.push(provost.commits, baseline.commits);
        }
    }
    let what = "one durable task alone: time per step";
    table.ratio_at_most(what, Unit::Time, &time, STEP_RATIO_MAX);
    table.compare_only("one durable task alone: CPU per step", Unit::Time, &cpu);
    table.compare_only("one durable task alone: commits", Unit::Count, &commits);
    Ok(())
}

fn same_work(provost: &Wave, baseline: &Wave) -> Result<()> {
    if provost.tokens == baseline.tokens {
        return Ok(());
    }
    Err(format!("not the same work: {} tokens, by hand {}", provost.tokens, baseline.tokens).into())
}

/// Cost of some tasks on one side.
struct Wave {
    seconds: f64,
    cpu: f64,
    commits: f64,
    tokens: f64,
}

impl Wave {
    /// Runs tasks on a side: `at_once` lanes with `each` tasks each.
    fn of(process: &mut ChildProcess, at_once: usize, each: usize) -> Result<Self> {
        let [seconds, cpu, commits, tokens] = numbers(&process.ask(&format!("{at_once} {each}"))?)?;
        Ok(Self { seconds, cpu, commits, tokens })
    }
}

/// Runs tasks for every line of standard input.
pub(crate) fn run(side: &str, url: &str, dir: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if side == "ours" {
        return through_engine(&runtime, url, dir);
    }
    let baseline = BaselineJournal::open(Path::new(dir), BaselineLoop::new(url, TASK_MODEL)?)?;
    let work = || {
        let baseline = baseline.clone();
        async move { baseline.run(provost_side::PROMPT).await }
    };
    waves(&runtime, work, || baseline.commits())
}

fn through_engine(runtime: &Runtime, url: &str, dir: &str) -> Result<()> {
    let agent = provost_side::agent(url, TASK_MODEL)?;
    let (engine, worker) = runtime.block_on(async {
        let engine = engine::open(Path::new(dir), CAPACITY, engine::always(agent)).await?;
        let worker = engine.start().await?;
        // The class exists after its first run.
        let first = engine::done(&engine, TaskRequest::text(provost_side::PROMPT)).await?;
        check_steps(&engine, &first).await?;
        engine::widen(&engine, CAPACITY as u64).await?;
        Ok::<_, crate::Error>((engine, worker))
    })?;
    let work = || {
        let engine = engine.clone();
        async move { tokens(&engine::done(&engine, TaskRequest::text(provost_side::PROMPT)).await?) }
    };
    waves(runtime, work, || engine.store().stats().commits)?;
    runtime.block_on(worker.stop(Duration::ZERO));
    Ok(())
}

/// Checks that the task is journaled completely. An incomplete journal would be cheaper.
async fn check_steps(engine: &Engine, run: &RunRow) -> Result<()> {
    let id = run.id;
    let read = engine.store().read(move |tx| run_step::after(tx, id, 0, STEPS_READ));
    let steps = read.await?;
    let count = |kind| steps.iter().filter(|step| step.kind == kind).count();
    let counts = (count(StepKind::ModelCall), count(StepKind::ToolCall));
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
