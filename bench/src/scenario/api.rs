//! The run API over a real socket: taking work in, streams, replays, and the server at rest.
//!
//! The baseline of accepting is a bare `axum` server that commits one row for each request and groups waiting requests into one commit.

mod bare_axum;
mod served;
mod wire;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use self::wire::Wire;
use crate::measure::{Pairs, median};
use crate::scenario::many;
use crate::side::Side;
use crate::table::{Table, Unit};
use crate::{Plan, Result, disk};

/// The hidden command that serves.
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

/// Measures accepting, streams, a replay and the binary.
pub(crate) fn measure(plan: Plan, dir: &Path, table: &mut Table) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ours_dir = disk::fresh(dir)?;
    let ours = Served::start("ours", ours_dir.path())?;
    let axum_dir = disk::fresh(dir)?;
    let axum = Served::start("axum", axum_dir.path())?;
    runtime.block_on(accept(plan, &ours, &axum, table))?;
    drop(axum);
    runtime.block_on(latency(plan, &ours, table))?;
    runtime.block_on(viewers(plan, &ours, table))?;
    drop(ours);
    replay(plan, &runtime, dir, table)?;
    binary(plan, ours_dir.path(), table)
}

/// A server in a process of its own.
struct Served {
    side: Side,
    address: String,
    token: String,
}

impl Served {
    fn start(side: &str, dir: &Path) -> Result<Self> {
        let mut side = Side::start(&[COMMAND, side, disk::argument(dir)?])?;
        let line = side.hear()?;
        let (address, token) = line.split_once(' ').ok_or("a server without an address")?;
        Ok(Self { address: address.to_owned(), token: token.to_owned(), side })
    }

    async fn wire(&self) -> Result<Wire> {
        Wire::open(&self.address, &self.token).await
    }

    /// The memory of its process, in bytes.
    fn memory(&self) -> Result<f64> {
        self.side.memory()
    }
}

async fn accept(plan: Plan, ours: &Served, floor: &Served, table: &mut Table) -> Result<()> {
    let mut alone = Pairs::default();
    let (mut our_wire, mut floor_wire) = (ours.wire().await?, floor.wire().await?);
    for request in 0..plan.pick(600, 60) {
        let theirs = floor_wire.submit().await?;
        let mine = our_wire.submit().await?;
        // The first ones open files and compile statements.
        if request > 10 {
            alone.push(mine.as_secs_f64(), theirs.as_secs_f64());
        }
    }
    let what = "accept over HTTP, one at a time, against bare axum";
    table.ratio_at_most(what, Unit::Time, &alone, ACCEPT_RATIO_MAX);
    let each = plan.pick(100, 20);
    let mut crowd = Pairs::default();
    for wave in 0..=plan.pick(6, 2) {
        let (theirs, mine) = (together(floor, each).await?, together(ours, each).await?);
        if wave > 0 {
            crowd.push(mine, theirs);
        }
    }
    let what = "accept over HTTP, 64 clients, requests finished, against bare axum";
    table.ratio_at_least(what, Unit::PerSecond, &crowd, SPEED_RATIO_MIN);
    Ok(())
}

/// Requests per second of many clients.
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

/// From sending a command to seeing its first event on a stream: more than from its commit.
async fn latency(plan: Plan, ours: &Served, table: &mut Table) -> Result<()> {
    let mut stream = ours.wire().await?.stream("stream?after=end").await?;
    let mut wire = ours.wire().await?;
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
        // A command may have more than one event.
        tokio::time::sleep(Duration::from_millis(2)).await;
        while events.try_recv().is_ok() {}
    }
    viewer.abort();
    let what = "a command sent until its first event is at a viewer, median";
    table.at_most(what, Unit::Time, median(seconds), EVENT_SECONDS_MAX);
    Ok(())
}

async fn viewers(plan: Plan, ours: &Served, table: &mut Table) -> Result<()> {
    let count = plan.pick(10_000, 1_000);
    let mut streams = Vec::with_capacity(count);
    for _ in 0..count {
        streams.push(ours.wire().await?.stream("stream?after=end").await?);
    }
    // All of them are told of something, so that whatever they need is there.
    ours.wire().await?.submit().await?;
    for stream in &mut streams {
        stream.event().await?.ok_or("a stream broke off")?;
    }
    let memory = ours.memory()?;
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
    many::fill_events(dir.path(), events)?;
    let served = Served::start("ours", dir.path())?;
    let (count, seconds) = runtime.block_on(async {
        let mut stream = served.wire().await?.stream("stream?deltas=false").await?;
        let started = Instant::now();
        let mut count = 0;
        // The last ones may be of a run that does not end.
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

/// The release binary that lies beside this one, on a database that is there.
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
        let mut server = Side::spawn(command)?;
        server.hear()?;
        // The first start makes the database.
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
