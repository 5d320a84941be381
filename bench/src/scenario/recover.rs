//! A process with a hundred runs in flight is killed, and another one goes on with them.
//!
//! The fake provider is in this process: it answers until each run has taken some steps, then holds every answer back until the
//! workers are dead. So each run has exactly one model call in flight when it is killed.

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

use crate::measure::within;
use crate::server::{TASK_MODEL, TASK_MODEL_STEPS, Task, results};
use crate::side::{Side, numbers};
use crate::table::{Table, Unit};
use crate::{Plan, Result, disk, engine, ours};

/// The hidden command of the process that is killed and of the one after it.
pub(crate) const COMMAND: &str = "recover";
const RUNS: usize = 100;
const SECONDS_MAX: f64 = 0.5;
/// The results a run has when its next answer is held back.
const HELD_AT: usize = 3;
/// After so long nothing will come any more.
const PATIENCE: Duration = Duration::from_secs(60);
/// Events of one run that are read at once; more than it has.
const EVENTS_READ: u64 = 1000;

/// What one kill and one restart came to.
struct Recovery {
    /// From the start of the process to the last run's new attempt.
    attempts: f64,
    /// From the start of the process to the last run's model call.
    asks: f64,
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
    table.number(what, Unit::Time, slowest(|recovery| recovery.asks));
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
    let first = Side::start(&[COMMAND, "begin", &url, disk::argument(dir)?])?;
    runtime.block_on(gate.wait_for(RUNS))?;
    first.kill()?;
    let in_flight = *gate.came.borrow();
    gate.held.store(false, Ordering::SeqCst);

    let (spawned, started) = (Env::system().now(), Instant::now());
    let second = Side::start(&[COMMAND, "resume", &url, disk::argument(dir)?])?;
    runtime.block_on(gate.wait_for(in_flight + RUNS))?;
    let asks = started.elapsed().as_secs_f64();
    let [latest] = numbers(&second.end()?)?;
    let whole = RUNS * TASK_MODEL_STEPS;
    Ok(Recovery {
        attempts: (latest - spawned.as_millis() as f64) / 1e3,
        asks,
        in_flight,
        repeated: provider.request_count().saturating_sub(whole),
    })
}

/// Holds answers back.
struct Gate {
    held: AtomicBool,
    /// How many requests came that are held back while the gate is closed.
    came: watch::Sender<usize>,
}

impl Gate {
    async fn wait_for(&self, wanted: usize) -> Result<()> {
        let mut came = self.came.subscribe();
        let enough = came.wait_for(|came| *came >= wanted);
        match tokio::time::timeout(PATIENCE, enough).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(format!("{} of {wanted} model calls came", *self.came.borrow()).into()),
        }
    }
}

async fn provider(gate: Arc<Gate>) -> FakeProvider {
    let task = Task::new();
    let provider = FakeProvider::answering(move |request| {
        if results(request) == HELD_AT {
            gate.came.send_modify(|came| *came += 1);
            if gate.held.load(Ordering::SeqCst) {
                return Reply::silence();
            }
        }
        task.answer(request)
    });
    let provider = provider.await;
    provider.forget_requests();
    provider
}

/// Begins the runs and works until it is killed, or goes on with them and tells when the last one had a new attempt.
pub(crate) fn run(part: &str, url: &str, dir: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let agent = ours::agent(url, TASK_MODEL)?;
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
        engine.submit(&namespace, TaskRequest::text(ours::PROMPT)).await?;
    }
    engine::widen(engine, RUNS as u64).await?;
    let worker = engine.start().await?;
    // Until somebody kills it.
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
            within(PATIENCE, "a run did not go on", engine.runs().wait(&namespace, id)).await?;
        engine::good(ended?)?;
        let events = query::run::events(engine.store(), &namespace, id, 0, EVENTS_READ).await?;
        let again = events
            .iter()
            .find(|event| event.kind == "attempt_started" && event.attempt_no > 1)
            .ok_or("a run went on without a new attempt")?;
        latest = latest.max(again.at);
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
