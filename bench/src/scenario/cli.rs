//! The command line: the delay before its first effect.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use provost_testkit::{FakeProvider, Reply};

use crate::measure::median;
use crate::table::{Table, Unit};
use crate::{Plan, Result};

const VERSION_SECONDS_MAX: f64 = 15e-3;
const FIRST_REQUEST_SECONDS_MAX: f64 = 60e-3;
/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(10);
const BUILD_HINT: &str = "cargo build --release -p provost-cli";

/// Starts the release binary beside this one.
pub(crate) fn measure(plan: Plan, table: &mut Table) -> Result<()> {
    let binary = std::env::current_exe()?.with_file_name("provost");
    let Ok(facts) = fs::metadata(&binary) else {
        table.unmeasured("provost --version", BUILD_HINT);
        table.unmeasured("provost exec to its first request", BUILD_HINT);
        return Ok(());
    };
    let times = plan.pick(20, 5);
    let version = median_of(times, || version(&binary))?;
    table.at_most("provost --version", Unit::Time, version, VERSION_SECONDS_MAX);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let provider = runtime.block_on(FakeProvider::answering(|_| Reply::text("Hello.")));
    let first = median_of(times, || runtime.block_on(first_request(&binary, &provider)));
    match first {
        Ok(first) => table.at_most(
            "provost exec to its first request",
            Unit::Time,
            first,
            FIRST_REQUEST_SECONDS_MAX,
        ),
        Err(error) => table.unmeasured("provost exec to its first request", error.to_string()),
    }
    table.number("release binary", Unit::Bytes, facts.len() as f64);
    Ok(())
}

fn median_of(times: usize, mut measure: impl FnMut() -> Result<f64>) -> Result<f64> {
    // The first start reads the binary from disk.
    measure()?;
    let seconds = (0..times).map(|_| measure()).collect::<Result<Vec<f64>>>()?;
    Ok(median(seconds))
}

fn quiet(binary: &Path) -> Command {
    let mut command = Command::new(binary);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn version(binary: &Path) -> Result<f64> {
    let started = Instant::now();
    let status = quiet(binary).arg("--version").status()?;
    if !status.success() {
        return Err(format!("`provost --version` ended with {status}").into());
    }
    Ok(started.elapsed().as_secs_f64())
}

async fn first_request(binary: &Path, provider: &FakeProvider) -> Result<f64> {
    let expected = provider.request_count() + 1;
    let url = provider.base_url();
    let mut command = quiet(binary);
    command
        .args(["exec", "--model", "openai/fake", "--base-url", &url, "hello"])
        .env("OPENAI_API_KEY", "x");
    let started = Instant::now();
    let mut process = command.spawn()?;
    let came = tokio::time::timeout(TIMEOUT, provider.wait_for_requests(expected)).await;
    let seconds = started.elapsed().as_secs_f64();
    if came.is_err() {
        process.kill()?;
    }
    process.wait()?;
    match came {
        Ok(()) => Ok(seconds),
        Err(_) => Err("no request came".into()),
    }
}
