//! Executes `bwrap` with resource limits.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create, open};

use super::order::{BwrapLaunch, LaunchOrder};

/// Sets the limits and replaces this process by `bwrap`. Returns only if that fails.
pub(super) fn run(launch: &BwrapLaunch, order: &LaunchOrder) -> io::Result<ExitCode> {
    let status = inherited(&launch.status, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?;
    let filter = inherited(&launch.filter, OFlags::RDONLY)?;
    launch.rlimits.set()?;
    let (program, args) = order.program()?;
    let mut command = Command::new(program);
    command.arg("--json-status-fd").arg(status.as_raw_fd().to_string());
    command.arg("--add-seccomp-fd").arg(filter.as_raw_fd().to_string());
    let variables = variables_file(&order.env)?;
    command.arg("--args").arg(variables.as_raw_fd().to_string());
    command.args(args).env_clear().current_dir("/");
    Err(command.exec())
}

/// Returns the variables of the command as `bwrap` arguments for a file. Variables in the environment of `bwrap` would
/// affect `bwrap` itself, and every user can read its command line.
pub(crate) fn variables(env: &BTreeMap<String, String>) -> Vec<u8> {
    let words = env.iter().flat_map(|(name, value)| ["--setenv", name, value]);
    words.flat_map(|word| word.bytes().chain([0])).collect()
}

/// Writes the variables to a memory file that stays open across `exec`.
fn variables_file(env: &BTreeMap<String, String>) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("variables", MemfdFlags::empty())?);
    file.write_all(&variables(env))?;
    file.rewind()?;
    Ok(file.into())
}

/// Opens a file that stays open across `exec`. `bwrap` receives its descriptor and does not pass it on.
fn inherited(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    Ok(open(path, flags, Mode::RUSR | Mode::WUSR)?)
}
