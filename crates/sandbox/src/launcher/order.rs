//! What a launcher is told: what to do, a command line, and an environment.
//!
//! Whoever orders writes it to a file in memory, of any length, and hands that over with the standard files of the program.

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
use super::rlimits::Bounds;

/// What comes between two parts. No word of a command line has it in it.
const BETWEEN: u8 = 0;

/// What to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Work {
    /// Become `bwrap`.
    Wrap(Wrap),
    /// Keep a program in with Landlock.
    Landlock(Box<Orders>),
    /// Become the program: everything else is done.
    Program,
}

/// How to become `bwrap`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Wrap {
    /// What holds for everything that is started.
    pub(crate) bounds: Bounds,
    /// Where it tells about itself.
    pub(crate) status: PathBuf,
    /// The filter for calls.
    pub(crate) filter: PathBuf,
}

/// How to keep a program in with Landlock.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Orders {
    /// Where it tells how it went.
    pub(crate) dir: PathBuf,
    /// Where the program starts.
    pub(crate) start: PathBuf,
    /// What it may read, and execute.
    pub(crate) read: Vec<PathBuf>,
    /// What it may change.
    pub(crate) write: Vec<PathBuf>,
    /// Devices that it may use.
    pub(crate) devices: Vec<PathBuf>,
    /// Whether the user outside is root.
    pub(crate) is_root: bool,
    /// Whether it has name spaces.
    pub(crate) has_namespaces: bool,
    /// The entrance to the proxy, for a network of its own.
    pub(crate) entrance: Option<PathBuf>,
    /// What holds for everything that is started.
    pub(crate) bounds: Bounds,
    /// Processes of the user.
    pub(crate) pids: Option<u64>,
}

/// What a launcher is told.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) work: Work,
    /// A program and its arguments.
    pub(crate) line: Vec<OsString>,
    /// The environment of the program.
    pub(crate) env: BTreeMap<String, String>,
}

/// All of it that is known to be text.
#[derive(Serialize, Deserialize)]
struct Told<W, E> {
    work: W,
    env: E,
}

impl Order {
    /// Writes it to a file that is nowhere but in memory.
    pub(crate) fn write(&self) -> io::Result<File> {
        let mut bytes = serde_json::to_vec(&Told { work: &self.work, env: &self.env })?;
        for word in &self.line {
            bytes.push(BETWEEN);
            bytes.extend_from_slice(word.as_encoded_bytes());
        }
        let mut file = File::from(memfd_create("order", MemfdFlags::CLOEXEC)?);
        file.write_all(&bytes)?;
        Ok(file)
    }

    /// Hands it over, with the standard files of the program.
    pub(crate) fn send(&self, line: BorrowedFd<'_>, files: &[OwnedFd; 3]) -> io::Result<()> {
        let order = OwnedFd::from(self.write()?);
        let [stdin, stdout, stderr] = files;
        let files = [&order, stdin, stdout, stderr].map(|file| file.as_fd());
        fork_server::send(line, b"go", &files)
    }

    /// Becomes the program; gives back why not.
    pub(super) fn exec(&self) -> io::Result<ExitCode> {
        let (program, args) = self.program()?;
        Err(Command::new(program).args(args).env_clear().envs(&self.env).exec())
    }

    /// Writes and reads one that nobody has ordered: what that needs of this program and of memory is then at hand.
    pub(super) fn rehearse() -> io::Result<()> {
        let wrap = Wrap { bounds: Bounds::default(), status: "/".into(), filter: "/".into() };
        let env = BTreeMap::from([(String::new(), String::new())]);
        let order = Self { work: Work::Wrap(wrap), line: vec!["/".into(); 64], env };
        let read = Self::read(order.write()?)?;
        // No directory is a program, but the way to find that out is the way to start one.
        drop(read.exec());
        Ok(())
    }

    pub(super) fn read(mut file: File) -> io::Result<Self> {
        let mut bytes = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut bytes)?;
        let mut parts = bytes.split(|byte| *byte == BETWEEN);
        let told: Told<Work, _> = serde_json::from_slice(parts.next().unwrap_or_default())?;
        let line = parts.map(|word| OsString::from_vec(word.to_vec())).collect();
        Ok(Self { work: told.work, line, env: told.env })
    }

    /// The program and its arguments.
    pub(super) fn program(&self) -> io::Result<(&OsStr, &[OsString])> {
        match self.line.as_slice() {
            [program, args @ ..] => Ok((program, args)),
            [] => Err(io::Error::other("there is no program to start")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_also_what_is_no_text() {
        let wrap = Wrap { bounds: Bounds::default(), status: "/s".into(), filter: "/f".into() };
        let line =
            vec![OsString::from("sh"), OsString::new(), OsString::from_vec(vec![0xff, b'\n'])];
        let env = BTreeMap::from([("A".to_owned(), "b=\nc\u{1}".to_owned())]);
        let order = Order { work: Work::Wrap(wrap), line, env };
        let read = Order::read(order.write().unwrap()).unwrap();
        assert_eq!((&read.line, &read.env), (&order.line, &order.env));
        assert!(matches!(&read.work, Work::Wrap(wrap) if wrap.status.as_os_str() == "/s"));
        assert_eq!(read.program().unwrap().1.len(), 2);
    }
}
