//! Becoming `bwrap`, with bounds.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create, open};

use super::order::{Order, Wrap};

pub(super) fn run(wrap: &Wrap, order: &Order) -> io::Result<ExitCode> {
    let status = inherited(&wrap.status, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?;
    let filter = inherited(&wrap.filter, OFlags::RDONLY)?;
    wrap.bounds.set()?;
    let (program, args) = order.program()?;
    let mut command = Command::new(program);
    command.arg("--json-status-fd").arg(status.as_raw_fd().to_string());
    command.arg("--add-seccomp-fd").arg(filter.as_raw_fd().to_string());
    let told = told(&order.env)?;
    command.arg("--args").arg(told.as_raw_fd().to_string());
    command.args(args).env_clear().current_dir("/");
    Err(command.exec())
}

/// The variables of a program, as arguments of `bwrap` that stand in a file. In its environment they would count for itself,
/// and everybody can read its command line.
pub(crate) fn variables(env: &BTreeMap<String, String>) -> Vec<u8> {
    let words = env.iter().flat_map(|(name, value)| ["--setenv", name, value]);
    words.flat_map(|word| word.bytes().chain([0])).collect()
}

/// The same in a file that is nowhere but in memory, and still open after an `exec`.
fn told(env: &BTreeMap<String, String>) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("variables", MemfdFlags::empty())?);
    file.write_all(&variables(env))?;
    file.rewind()?;
    Ok(file.into())
}

/// Opens a file that is still open after an `exec`: `bwrap` knows it by its number, and hands none of them on.
fn inherited(path: &Path, how: OFlags) -> io::Result<OwnedFd> {
    Ok(open(path, how, Mode::RUSR | Mode::WUSR)?)
}
