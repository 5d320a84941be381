//! A second process of this very test binary, killed at a place.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use provost_testkit::Process;

/// Where such a process finds its database.
const DIR: &str = "PROVOST_TEST_DIR";
/// Long enough for a loaded machine; nothing waits for so long when all is well.
const LONG: Duration = Duration::from_secs(60);

/// The directory that a test was given which runs in a process of its own; nothing, if it was not started for that.
pub(crate) fn dir() -> Option<PathBuf> {
    std::env::var_os(DIR).map(PathBuf::from)
}

/// Runs a test of this binary in a process of its own, until it is killed at a place, or at the given hit of it: `place@2`.
pub(crate) async fn killed_at(test: &str, dir: &Path, place: &str) {
    let (name, hit) = place.split_once('@').unwrap_or((place, "1"));
    let status = run(test, dir, &format!("{name}=kill@{hit}")).await;
    assert_eq!(status.signal(), Some(9), "{test} did not come to {place}: {status}");
}

async fn run(test: &str, dir: &Path, failpoints: &str) -> std::process::ExitStatus {
    let mut command = Command::new(std::env::current_exe().unwrap());
    // The path of a test is that of its module, which is not the same in every binary that includes it.
    command.args(["--ignored", "--nocapture", test]);
    command.env(DIR, dir).env("PROVOST_FAILPOINTS", failpoints);
    let process = Process::start(command).unwrap();
    match process.wait(LONG).await {
        Ok(status) if status.success() || status.signal() == Some(9) => status,
        other => panic!("{other:?}\n{process:?}"),
    }
}
