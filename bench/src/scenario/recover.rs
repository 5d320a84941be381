//! A process with 100 runs in flight is killed, and another one continues them.
//!
//! The fake provider is in this process. It responds until each run has made some steps, then withholds every response
//! until the workers are dead. So each run has exactly one model call in flight when it is killed.

use provost_store::query;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use provost_core::command::TaskRequest;
use provost_core::id::name::Namespace;
use provost_core::{Env, RunId, Timestamp};
use provost_engine::Engine;
use provost_store::StoreError;
use provost_store::table::work::run::{self, RunFilter};
use provost_testkit::{FakeProvider, Reply};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::child_process::{ChildProcess, numbers};
use crate::measure::within;
use crate::server::{TASK_MODEL, TASK_MODEL_STEPS, Task, results};
use crate::table::{Table, Unit};
use crate::{Plan, Result, disk, engine, provost_side};

/// Hidden command of the killed process and of its successor.
pub(crate) const COMMAND: &str = "recover";
const RUNS: usize = 100;
const SECONDS_MAX: f64 = 0.5;
/// Number of tool results after which the next response is withheld.
const HELD_AFTER_RESULTS: usize = 3;
/// Timeout of each wait.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Events of one run that are read at once. More than it has.
const EVENTS_READ: u64 = 1000;

/// Result of one kill and one restart.
struct Recovery {
    /// Seconds from the start of the process to the last new attempt.
    attempts: f64,
    /// Seconds from the start of the process to the last model call.
    model_call: f64,
    in_flight: usize,
    repeated: usize,
}

/// Kills and restarts, each time on a new database.
pub(crate) fn measure(plan: Plan, dir: &Path, table: &mut Table) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut recoveries = Vec::new();
    for _ in 0..plan.pick(5, 1) {
        let dir = disk::fresh(dir)?;
        recoveries.push(once(&runtime, dir.path())?);
    }
    let slowest =
        |seconds: fn(&Recovery) -> f64| recoveries.iter().map(seconds).fold(0.0, f64::max);
    table.at_most(
        "kill -9 with 100 runs in flight: restart until all have a new attempt (slowest)",
        Unit::Time,
        slowest(|recovery| recovery.attempts),
        SECONDS_MAX,
    );
    let what = "kill -9 with 100 runs in flight: restart until all ask their model again (slowest)";
    table.number(what, Unit::Time, slowest(|recovery| recovery.model_call));
    let in_flight = recoveries.iter().map(|recovery| recovery.in_flight).min().unwrap_or(0);
    let repeated = recoveries.iter().map(|recovery| recovery.repeated).max().unwrap_or(0);
    let what = "kill -9 with 100 runs in flight: model calls repeated (most)";
    table.at_most(what, Unit::Count, repeated as f64, in_flight as f64);
    Ok(())
}

fn once(runtime: &Runtime, dir: &Path) -> Result<Recovery> {
    let gate = Arc::new(Gate { held: AtomicBool::new(true), came: watch::Sender::new(0) });
    let provider = runtime.block_on(provider(Arc::clone(&gate)));
    let url = provider.base_url();
    let first = ChildProcess::start(&[COMMAND, "begin", &url, disk::argument(dir)?])?;
    runtime.block_on(gate.wait_for(RUNS))?;
    first.kill()?;
    let in_flight = *gate.came.borrow();
    gate.held.store(false, Ordering::SeqCst);

    let (spawned, started) = (Env::system().now(), Instant::now());
    let second = ChildProcess::start(&[COMMAND, "resume", &url, disk::argument(dir)?])?;
    runtime.block_on(gate.wait_for(in_flight + RUNS))?;
    let model_call = started.elapsed().as_secs_f64();
    let [latest] = numbers(&second.end()?)?;
    let whole = RUNS * TASK_MODEL_STEPS;
    Ok(Recovery {
        attempts: (latest - spawned.as_millis() as f64) / 1e3,
        model_call,
        in_flight,
        repeated: provider.request_count().saturating_sub(whole),
    })
}

/// Withholds responses.
struct Gate {
    held: AtomicBool,
    /// Number of requests whose response the closed gate withholds.
    came: watch::Sender<usize>,
}

impl Gate {
    async fn wait_for(&self, expected: usize) -> Result<()> {
        let mut came = self.came.subscribe();
        let enough = came.wait_for(|came| *came >= expected);
        match tokio::time::timeout(TIMEOUT, enough).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(format!("{} of {expected} model calls came", *self.came.borrow()).into()),
        }
    }
}

async fn provider(gate: Arc<Gate>) -> FakeProvider {
    let task = Task::new();
    let provider = FakeProvider::answering(move |request| {
        if results(request) == HELD_AFTER_RESULTS {
            gate.came.send_modify(|came| *came += 1);
            if gate.held.load(Ordering::SeqCst) {
                return Reply::never_respond();
            }
        }
        task.answer(request)
    });
    let provider = provider.await;
    provider.forget_requests();
    provider
}

/// Starts the runs and executes them until the process is killed, or continues them and prints when the last new
/// attempt started.
pub(crate) fn run(part: &str, url: &str, dir: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let agent = provost_side::agent(url, TASK_MODEL)?;
    runtime.block_on(async {
        let engine = engine::open(Path::new(dir), RUNS, engine::always(agent)).await?;
        match part {
            "begin" => begin(&engine).await,
            _ => resume(&engine).await,
        }
    })
}

async fn begin(engine: &Engine) -> Result<()> {
    let namespace = Namespace::default();
    for _ in 0..RUNS {
        engine.submit(&namespace, TaskRequest::text(provost_side::PROMPT)).await?;
    }
    engine::widen(engine, RUNS as u64).await?;
    let worker = engine.start().await?;
    // The parent process kills this process.
    tokio::task::spawn_blocking(|| io::stdin().read_to_end(&mut Vec::new())).await??;
    drop(worker);
    Ok(())
}

async fn resume(engine: &Engine) -> Result<()> {
    let worker = engine.start().await?;
    let mut latest = Timestamp::default();
    for id in runs(engine).await? {
        let namespace = Namespace::default();
        let ended =
            within(TIMEOUT, "a run did not go on", engine.runs().wait(&namespace, id)).await?;
        engine::check_succeeded(ended?)?;
        let events = query::run::events(engine.store(), &namespace, id, 0, EVENTS_READ).await?;
        let restart = events
            .iter()
            .find(|event| event.kind == "attempt_started" && event.attempt_no > 1)
            .ok_or("a run went on without a new attempt")?;
        latest = latest.max(restart.at);
    }
    writeln!(io::stdout(), "{}", latest.as_millis())?;
    worker.stop(Duration::ZERO).await;
    Ok(())
}

async fn runs(engine: &Engine) -> Result<Vec<RunId>> {
    let read = engine.store().read(|tx| {
        let filter = RunFilter::default();
        run::list(tx, Namespace::default().as_str(), &filter, 2 * RUNS as u64)
    });
    let runs = read.await.map_err(|error: StoreError| error)?;
    if runs.len() != RUNS {
        return Err(format!("{} runs instead of {RUNS}", runs.len()).into());
    }
    Ok(runs.iter().map(|run| run.id).collect())
}
