//! The API over a real socket: submission, streams, replay, and the idle server.
//!
//! The baseline of submission is a bare `axum` server that commits one row for each request and groups waiting requests
//! into one commit.

mod bare_axum;
mod served;
mod wire;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use self::wire::Wire;
use crate::child_process::ChildProcess;
use crate::measure::{Pairs, median};
use crate::scenario::large_database;
use crate::table::{Table, Unit};
use crate::{Plan, Result, disk};

/// Hidden command of the server process.
pub(crate) const COMMAND: &str = "api";
const CLIENTS: usize = 64;
const ACCEPT_RATIO_MAX: f64 = 1.5;
const SPEED_RATIO_MIN: f64 = 0.4;
const VIEWERS_BYTES_MAX: f64 = 300.0 * 1024.0 * 1024.0;
const EVENT_SECONDS_MAX: f64 = 2e-3;
const REPLAY_SECONDS_MAX: f64 = 1e-5;
const READY_SECONDS_MAX: f64 = 150e-3;
const IDLE_BYTES_MAX: f64 = 40.0 * 1024.0 * 1024.0;

/// Serves until its standard input ends.
pub(crate) fn run(side: &str, dir: &str) -> Result<()> {
    served::run(side, Path::new(dir))
}

/// Measures submission, streams, a replay and the binary.
pub(crate) fn measure(plan: Plan, dir: &Path, table: &mut Table) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let provost_dir = disk::fresh(dir)?;
    let provost = Served::start("ours", provost_dir.path())?;
    let axum_dir = disk::fresh(dir)?;
    let axum = Served::start("axum", axum_dir.path())?;
    runtime.block_on(accept(plan, &provost, &axum, table))?;
    drop(axum);
    runtime.block_on(latency(plan, &provost, table))?;
    runtime.block_on(viewers(plan, &provost, table))?;
    drop(provost);
    replay(plan, &runtime, dir, table)?;
    binary(plan, provost_dir.path(), table)
}

/// A server in a separate process.
struct Served {
    process: ChildProcess,
    address: String,
    token: String,
}

impl Served {
    fn start(side: &str, dir: &Path) -> Result<Self> {
        let mut process = ChildProcess::start(&[COMMAND, side, disk::argument(dir)?])?;
        let line = process.read_line()?;
        let (address, token) = line.split_once(' ').ok_or("a server without an address")?;
        Ok(Self { address: address.to_owned(), token: token.to_owned(), process })
    }

    async fn wire(&self) -> Result<Wire> {
        Wire::open(&self.address, &self.token).await
    }

    /// Returns the memory of the process, in bytes.
    fn memory(&self) -> Result<f64> {
        self.process.memory()
    }
}

async fn accept(plan: Plan, provost: &Served, baseline: &Served, table: &mut Table) -> Result<()> {
    let mut alone = Pairs::default();
    let (mut provost_wire, mut baseline_wire) = (provost.wire().await?, baseline.wire().await?);
    for request in 0..plan.pick(600, 60) {
        let baseline = baseline_wire.submit().await?;
        let provost = provost_wire.submit().await?;
        // The first requests open files and compile statements.
        if request > 10 {
            alone.push(provost.as_secs_f64(), baseline.as_secs_f64());
        }
    }
    let what = "accept over HTTP, one at a time, against bare axum";
    table.ratio_at_most(what, Unit::Time, &alone, ACCEPT_RATIO_MAX);
    let each = plan.pick(100, 20);
    let mut crowd = Pairs::default();
    for wave in 0..=plan.pick(6, 2) {
        let (baseline, provost) = (together(baseline, each).await?, together(provost, each).await?);
        if wave > 0 {
            crowd.push(provost, baseline);
        }
    }
    let what = "accept over HTTP, 64 clients, requests finished, against bare axum";
    table.ratio_at_least(what, Unit::PerSecond, &crowd, SPEED_RATIO_MIN);
    Ok(())
}

/// Returns the requests per second of many clients.
async fn together(served: &Served, each: usize) -> Result<f64> {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(served.wire().await?);
    }
    let started = Instant::now();
    let work = clients.into_iter().map(|mut wire| {
        tokio::spawn(async move {
            for _ in 0..each {
                wire.submit().await?;
            }
            Ok::<_, crate::Error>(())
        })
    });
    for done in futures::future::join_all(work).await {
        done??;
    }
    Ok((CLIENTS * each) as f64 / started.elapsed().as_secs_f64())
}

/// Measures the time from sending a request to its first event on a stream, which includes the commit.
async fn latency(plan: Plan, provost: &Served, table: &mut Table) -> Result<()> {
    let mut stream = provost.wire().await?.stream("stream?after=end").await?;
    let mut wire = provost.wire().await?;
    let (seen, mut events) = mpsc::unbounded_channel();
    let viewer = tokio::spawn(async move {
        while let Ok(Some(_)) = stream.event().await {
            if seen.send(Instant::now()).is_err() {
                break;
            }
        }
    });
    let mut seconds = Vec::new();
    for _ in 0..plan.pick(300, 30) {
        let sent = Instant::now();
        wire.submit().await?;
        let first = events.recv().await.ok_or("the stream broke off")?;
        seconds.push(first.duration_since(sent).as_secs_f64());
        // A request can have more than one event.
        tokio::time::sleep(Duration::from_millis(2)).await;
        while events.try_recv().is_ok() {}
    }
    viewer.abort();
    let what = "a command sent until its first event is at a viewer, median";
    table.at_most(what, Unit::Time, median(seconds), EVENT_SECONDS_MAX);
    Ok(())
}

async fn viewers(plan: Plan, provost: &Served, table: &mut Table) -> Result<()> {
    let count = plan.pick(10_000, 1_000);
    let mut streams = Vec::with_capacity(count);
    for _ in 0..count {
        streams.push(provost.wire().await?.stream("stream?after=end").await?);
    }
    // Every stream receives an event first, so that its buffers are allocated.
    provost.wire().await?.submit().await?;
    for stream in &mut streams {
        stream.event().await?.ok_or("a stream broke off")?;
    }
    let memory = provost.memory()?;
    table.at_most(
        &format!("{count} open streams: memory of the server"),
        Unit::Bytes,
        memory,
        VIEWERS_BYTES_MAX,
    );
    Ok(())
}

fn replay(
    plan: Plan,
    runtime: &tokio::runtime::Runtime,
    dir: &Path,
    table: &mut Table,
) -> Result<()> {
    let events = plan.pick(1_000_000, 100_000);
    let dir = disk::fresh(dir)?;
    large_database::fill_events(dir.path(), events)?;
    let served = Served::start("ours", dir.path())?;
    let (count, seconds) = runtime.block_on(async {
        let mut stream = served.wire().await?.stream("stream?deltas=false").await?;
        let started = Instant::now();
        let mut count = 0;
        // The last events may belong to a run that does not end.
        while count < events * 99 / 100 {
            stream.event().await?.ok_or("the stream broke off")?;
            count += 1;
        }
        Ok::<_, crate::Error>((count, started.elapsed().as_secs_f64()))
    })?;
    table.number("replay of a namespace: events", Unit::PerSecond, count as f64 / seconds);
    let what = format!("replay of {count} events: time of one");
    table.at_most(&what, Unit::Time, seconds / count as f64, REPLAY_SECONDS_MAX);
    Ok(())
}

/// Starts the release binary beside this one, on an existing database.
fn binary(plan: Plan, dir: &Path, table: &mut Table) -> Result<()> {
    let binary = std::env::current_exe()?.with_file_name("provost");
    if !binary.exists() {
        table.unmeasured("provost serve until ready", "cargo build --release -p provost-cli");
        return Ok(());
    }
    let (mut ready, mut memory) = (Vec::new(), Vec::new());
    for start in 0..=plan.pick(10, 3) {
        let mut command = Command::new(&binary);
        command.args(["serve", "--json", "--listen", "127.0.0.1:0", "--model", "demo", "--data"]);
        command.arg(dir.join("binary")).stdin(Stdio::null()).stderr(Stdio::null());
        let started = Instant::now();
        let mut server = ChildProcess::spawn(command)?;
        server.read_line()?;
        // The first start creates the database.
        if start > 0 {
            ready.push(started.elapsed().as_secs_f64());
        }
        std::thread::sleep(Duration::from_millis(500));
        memory.push(server.memory()?);
        server.kill()?;
    }
    table.at_most("provost serve until ready", Unit::Time, median(ready), READY_SECONDS_MAX);
    table.at_most("provost serve at rest: memory", Unit::Bytes, median(memory), IDLE_BYTES_MAX);
    Ok(())
}
