//! Launch orders: an action, a command line and an environment.
//!
//! The sender writes the order to a memory file of any length and sends its descriptor together with the standard files
//! of the program.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};

use super::fork_server;
use super::rlimits::Rlimits;

/// Separates the parts of an order. Command-line arguments cannot contain it.
const SEPARATOR: u8 = 0;

/// Action of a launcher.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LaunchKind {
    /// Execute `bwrap`.
    #[serde(rename = "wrap")]
    Bwrap(BwrapLaunch),
    /// Confine a program with Landlock.
    Landlock(Box<LandlockLaunch>),
    /// Execute the program. The sandbox is already set up.
    Program,
}

/// Files and limits of `bwrap`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct BwrapLaunch {
    /// Resource limits of the process and its descendants.
    #[serde(rename = "bounds")]
    pub(crate) rlimits: Rlimits,
    /// File to which `bwrap` writes its status.
    pub(crate) status: PathBuf,
    /// File with the seccomp filter.
    pub(crate) filter: PathBuf,
}

/// Restrictions of a program that runs with Landlock.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LandlockLaunch {
    /// Directory for the status files.
    pub(crate) dir: PathBuf,
    /// Working directory of the program.
    pub(crate) start: PathBuf,
    /// Paths that the program may read and execute.
    pub(crate) read: Vec<PathBuf>,
    /// Paths that the program may change.
    pub(crate) write: Vec<PathBuf>,
    /// Devices that the program may use.
    pub(crate) devices: Vec<PathBuf>,
    /// True if the user outside is root.
    pub(crate) is_root: bool,
    /// True if the program runs in new namespaces.
    pub(crate) has_namespaces: bool,
    /// Socket of the proxy. `None` without network access.
    #[serde(rename = "entrance")]
    pub(crate) proxy_socket: Option<PathBuf>,
    /// Resource limits of the process and its descendants.
    #[serde(rename = "bounds")]
    pub(crate) rlimits: Rlimits,
    /// Process limit of the user. `None` if a control group enforces the limit.
    pub(crate) pids: Option<u64>,
}

/// An order to a launcher.
#[derive(Debug)]
pub(crate) struct LaunchOrder {
    pub(crate) kind: LaunchKind,
    /// Program and its arguments.
    pub(crate) command_line: Vec<OsString>,
    /// Environment of the program.
    pub(crate) env: BTreeMap<String, String>,
}

/// The parts of an order that are valid UTF-8, serialized as JSON.
#[derive(Serialize, Deserialize)]
struct OrderText<W, E> {
    #[serde(rename = "work")]
    kind: W,
    env: E,
}

impl LaunchOrder {
    /// Writes the order to a memory file.
    pub(crate) fn write(&self) -> io::Result<File> {
        let mut bytes = serde_json::to_vec(&OrderText { kind: &self.kind, env: &self.env })?;
        for word in &self.command_line {
            bytes.push(SEPARATOR);
            bytes.extend_from_slice(word.as_encoded_bytes());
        }
        let mut file = File::from(memfd_create("order", MemfdFlags::CLOEXEC)?);
        file.write_all(&bytes)?;
        Ok(file)
    }

    /// Sends the order with the standard files of the program.
    pub(crate) fn send(&self, control: BorrowedFd<'_>, files: &[OwnedFd; 3]) -> io::Result<()> {
        let order = OwnedFd::from(self.write()?);
        let [stdin, stdout, stderr] = files;
        let files = [&order, stdin, stdout, stderr].map(|file| file.as_fd());
        fork_server::send(control, b"go", &files)
    }

    /// Replaces this process by the program. Returns only if that fails.
    pub(super) fn exec(&self) -> io::Result<ExitCode> {
        let (program, args) = self.program()?;
        Err(Command::new(program).args(args).env_clear().envs(&self.env).exec())
    }

    /// Writes, reads and executes a dummy order, so that the code and memory pages of this path are loaded before a
    /// real order arrives.
    pub(super) fn warm_up() -> io::Result<()> {
        let launch =
            BwrapLaunch { rlimits: Rlimits::default(), status: "/".into(), filter: "/".into() };
        let env = BTreeMap::from([(String::new(), String::new())]);
        let order =
            Self { kind: LaunchKind::Bwrap(launch), command_line: vec!["/".into(); 64], env };
        let read = Self::read(order.write()?)?;
        // The kernel cannot execute a directory, but the attempt runs the same code as a real start.
        drop(read.exec());
        Ok(())
    }

    /// Reads an order from a memory file.
    pub(super) fn read(mut file: File) -> io::Result<Self> {
        let mut bytes = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut bytes)?;
        let mut parts = bytes.split(|byte| *byte == SEPARATOR);
        let text: OrderText<LaunchKind, _> =
            serde_json::from_slice(parts.next().unwrap_or_default())?;
        let command_line = parts.map(|word| OsString::from_vec(word.to_vec())).collect();
        Ok(Self { kind: text.kind, command_line, env: text.env })
    }

    /// Returns the program and its arguments.
    pub(super) fn program(&self) -> io::Result<(&OsStr, &[OsString])> {
        match self.command_line.as_slice() {
            [program, args @ ..] => Ok((program, args)),
            [] => Err(io::Error::other("the order names no program")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_also_what_is_no_text() {
        let launch =
            BwrapLaunch { rlimits: Rlimits::default(), status: "/s".into(), filter: "/f".into() };
        let command_line =
            vec![OsString::from("sh"), OsString::new(), OsString::from_vec(vec![0xff, b'\n'])];
        let env = BTreeMap::from([("A".to_owned(), "b=\nc\u{1}".to_owned())]);
        let order = LaunchOrder { kind: LaunchKind::Bwrap(launch), command_line, env };
        let read = LaunchOrder::read(order.write().unwrap()).unwrap();
        assert_eq!((&read.command_line, &read.env), (&order.command_line, &order.env));
        assert!(
            matches!(&read.kind, LaunchKind::Bwrap(launch) if launch.status.as_os_str() == "/s")
        );
        assert_eq!(read.program().unwrap().1.len(), 2);
    }
}
