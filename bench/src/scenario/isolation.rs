//! Cost of a sandbox: its start against the bare commands, work inside it, and requests through its egress proxy.

mod bare_commands;
mod egress_proxy;

use std::process::Stdio;
use std::sync::Arc;
use std::time::Instant;

use provost_core::resource::IsolationMode;
use provost_sandbox::{
    Bubblewrap, Container, ContainerOptions, ExitInfo, IsolationError, IsolationProfile,
    LandlockBackend, Launcher, RootfsSource, SandboxBackend, SandboxCommand, SandboxRegistry,
    StdStream,
};
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use crate::measure::Pairs;
use crate::table::{Table, Unit};
use crate::{Plan, Result};

pub(crate) use self::bare_commands::{COMMAND, bare_landlock};

/// Starts of each kind before the measurement.
const WARM_UP: usize = 5;
/// Maximum start time, relative to the bare commands.
const START_RATIO_MAX: f64 = 1.3;
/// Minimum speed inside, relative to the speed outside.
const WORK_RATIO_MIN: f64 = 0.97;
/// Maximum additional time of a job in a warm container.
const WARM_EXCESS_SECONDS_MAX: f64 = 20e-3;
/// Computation that prints its duration.
const WORK: &str = "use Time::HiRes 'time'; my $t = time; my $x = 0; for my $i (1..$ARGV[0]) { $x = ($x * 31 + $i) % 65521; } printf('%.9f', time - $t);";

/// Measures every sandbox of this machine.
pub(crate) fn measure(plan: Plan, table: &mut Table) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(all(plan, table))
}

async fn all(plan: Plan, table: &mut Table) -> Result<()> {
    let (starts, rounds) = (plan.pick(200, 30), plan.pick(10, 3));
    let launcher = Launcher::own()?;
    let bubblewrap = Bubblewrap::open(Some(launcher.clone())).await;
    let landlock = LandlockBackend::open(launcher).await;
    let process = [
        ("bubblewrap", backends(bubblewrap), bare_commands::bubblewrap as fn() -> Result<Command>),
        ("landlock", backends(landlock), bare_commands::landlock),
    ];
    let mut working = None;
    for (name, found, bare) in process {
        let start = format!("{name}: a job from start to end, against the bare means");
        let inside = format!("{name}: work that only computes");
        match found {
            Ok(backends) => {
                let pairs = starting(&backends, IsolationMode::Process, bare, starts).await?;
                table.ratio_at_most(&start, Unit::Time, &pairs, START_RATIO_MAX);
                let pairs = computing(&backends, plan.pick(4_000_000, 1_000_000), rounds).await?;
                table.ratio_at_least(&inside, Unit::PerSecond, &pairs, WORK_RATIO_MIN);
                working = working.or(Some(backends));
            }
            Err(error) => {
                table.unmeasured(&start, error.to_string());
                table.unmeasured(&inside, error.to_string());
            }
        }
    }
    container(table, starts.min(60)).await?;
    let what = "a request through the egress proxy, against one without";
    match working {
        Some(backends) => egress_proxy::measure(&backends, plan, table, what).await,
        None => {
            table.unmeasured(what, "no sandbox works here");
            Ok(())
        }
    }
}

fn backends(
    backend: Result<impl SandboxBackend, IsolationError>,
) -> Result<SandboxRegistry, IsolationError> {
    let mut backends = SandboxRegistry::default();
    backends.add(Arc::new(backend?));
    Ok(backends)
}

async fn container(table: &mut Table, starts: usize) -> Result<()> {
    let cold = "container: a job that makes its own, against a bare program";
    let warm = "container: a job in one that waited, against a bare program";
    for (what, waiting) in [(cold, 0), (warm, 4)] {
        let options =
            ContainerOptions { warm: waiting, ..ContainerOptions::new("runc", RootfsSource::Host) };
        match backends(Container::open(options).await) {
            Ok(backends) => {
                let mode = IsolationMode::Container;
                let pairs = starting(&backends, mode, bare_commands::nothing, starts).await?;
                match waiting {
                    0 => table.compare_only(what, Unit::Time, &pairs),
                    _ => table.excess_at_most(what, Unit::Time, &pairs, WARM_EXCESS_SECONDS_MAX),
                }
            }
            Err(error) => table.unmeasured(what, error.to_string()),
        }
    }
    Ok(())
}

/// Measures a job that does nothing against a bare command that does the same.
async fn starting(
    backends: &SandboxRegistry,
    mode: IsolationMode,
    bare: fn() -> Result<Command>,
    starts: usize,
) -> Result<Pairs> {
    let mut pairs = Pairs::default();
    for at in 0..starts + WARM_UP {
        if mode == IsolationMode::Container {
            // Calls of an agent have pauses, in which warm containers are prepared.
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        }
        let started = Instant::now();
        let (ended, _) = run(
            backends,
            SandboxCommand::new("true", [] as [&str; 0], IsolationProfile::new(mode)),
        )
        .await?;
        let provost = started.elapsed();
        let started = Instant::now();
        let mut command = bare()?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = command.output().await?;
        let baseline = started.elapsed();
        if ended.code != 0 || !output.status.success() {
            let output = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("a sandbox or its bare means did not work: {output}").into());
        }
        if at >= WARM_UP {
            pairs.push(provost.as_secs_f64(), baseline.as_secs_f64());
        }
    }
    Ok(pairs)
}

/// Measures a computation inside and outside, in rounds per second.
async fn computing(backends: &SandboxRegistry, turns: u64, rounds: usize) -> Result<Pairs> {
    let turns = turns.to_string();
    let mut pairs = Pairs::default();
    for _ in 0..rounds {
        let profile = IsolationProfile::new(IsolationMode::Process);
        let job = SandboxCommand::new("perl", ["-e", WORK, &turns], profile);
        let inside: f64 = run(backends, job).await?.1.parse()?;
        let mut command = Command::new("perl");
        let outside = command.args(["-e", WORK, &turns]).output().await?;
        let outside: f64 = String::from_utf8_lossy(&outside.stdout).parse()?;
        pairs.push(1.0 / inside, 1.0 / outside);
    }
    Ok(pairs)
}

/// Runs a job. Returns its output.
async fn run(backends: &SandboxRegistry, job: SandboxCommand) -> Result<(ExitInfo, String)> {
    let mut output = Vec::new();
    let each = |channel, bytes: &[u8]| {
        if channel == StdStream::Out {
            output.extend_from_slice(bytes);
        }
    };
    let ended = backends.run(job, &CancellationToken::new(), each).await?;
    Ok((ended, String::from_utf8_lossy(&output).into_owned()))
}
