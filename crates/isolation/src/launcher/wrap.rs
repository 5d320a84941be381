//! Becoming `bwrap`, with bounds.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use rustix::fs::{Mode, OFlags, open};

use super::order::{Order, Wrap};

pub(super) fn run(wrap: &Wrap, order: &Order) -> io::Result<ExitCode> {
    let status = inherited(&wrap.status, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?;
    let filter = inherited(&wrap.filter, OFlags::RDONLY)?;
    wrap.bounds.set()?;
    let (program, args) = order.program()?;
    let mut command = Command::new(program);
    command.arg("--json-status-fd").arg(status.as_raw_fd().to_string());
    command.arg("--add-seccomp-fd").arg(filter.as_raw_fd().to_string());
    command.args(args).env_clear().envs(&order.env).current_dir("/");
    Err(command.exec())
}

/// Opens a file that is still open after an `exec`: `bwrap` knows it by its number, and hands none of them on.
fn inherited(path: &Path, how: OFlags) -> io::Result<OwnedFd> {
    Ok(open(path, how, Mode::RUSR | Mode::WUSR)?)
}
