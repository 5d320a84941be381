//! The part of a sandbox that runs in the sandboxed process itself.
//!
//! A program that has a launcher starts itself again with [`WORD`] as its first argument; its `main` asks [`run_if_asked`]
//! before anything else. Once for each backend it does so, and what runs then makes a process for each job, before there is
//! one. In a sandbox of `bwrap` that is set up before there is a job it waits once more, inside. That process has one
//! thread and our rights, and gives them up one after the other: it is in a control group and has bounds. Then it becomes
//! `bwrap`; or it has name spaces where the kernel gives them, no new privileges, no files but those that it was told, no calls
//! but those that a tool needs, and becomes the program.
//!
//! Without `bwrap` two of our processes stand above the program: one outside that ends everything when its parent ends, and, in
//! a name space, one that is the first process there and fetches those that nobody waits for.

mod bwrap;
mod fork;
pub(crate) mod fork_server;
mod inner;
pub(crate) mod order;
mod outer;
pub(crate) mod rlimits;

pub(crate) use self::bwrap::variables;

use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

use crate::egress;

/// The first argument that makes a program a launcher.
pub const WORD: &str = "__sandbox";
/// What comes behind it: have processes ready, wait for a program in its sandbox, or stand beside one in its network.
pub(crate) const STARTER: &str = "starter";
pub(crate) const INSIDE: &str = "inside";
pub(crate) const RELAY: &str = "relay";
/// The code of a launcher that could not do its work.
const FAILED: u8 = 125;

/// How a program starts its launcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launcher {
    /// The program.
    pub program: PathBuf,
    /// What it is told first.
    pub args: Vec<String>,
}

impl Launcher {
    /// This program itself. Its `main` must ask [`run_if_asked`] first.
    pub fn own() -> io::Result<Self> {
        Ok(Self::at(std::env::current_exe()?))
    }

    /// Another program that is a launcher.
    pub fn at(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), args: vec![WORD.to_owned()] }
    }
}

/// The file in which the inner process says that it is ready.
pub(crate) const READY_FILE: &str = "ready";

/// Does a launcher's work if this process was started as one.
pub fn run_if_asked() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    if args.next()? != WORD {
        return None;
    }
    let kind = args.next().unwrap_or_default();
    let done = match kind.to_str() {
        Some(RELAY) => relay(args),
        Some(STARTER) => fork_server::run(),
        Some(INSIDE) => fork_server::wait_inside(),
        _ => Err(io::Error::other("it is not known what to launch")),
    };
    Some(done.unwrap_or_else(|error| {
        complain(&error);
        ExitCode::from(FAILED)
    }))
}

fn complain(error: &io::Error) {
    use io::Write as _;
    // Standard error is all there is here; where it is closed nobody listens.
    writeln!(io::stderr(), "sandbox: {error}").unwrap_or_default();
}

/// Stands beside a program in its network and carries its words to the proxy.
fn relay(mut args: impl Iterator<Item = OsString>) -> io::Result<ExitCode> {
    let port = args.next().and_then(|port| port.to_str()?.parse().ok());
    let port: u16 = port.ok_or_else(|| io::Error::other("there is no port to listen to"))?;
    let entrance = PathBuf::from(args.next().unwrap_or_default());
    let program = args.next().ok_or_else(|| io::Error::other("there is no program to start"))?;
    listen(port, &entrance)?;
    let status = Command::new(program).args(args).status()?;
    Ok(code_of(status))
}

fn listen(port: u16, entrance: &Path) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let entrance = entrance.to_owned();
    std::thread::Builder::new().spawn(move || egress::relay(&listener, &entrance))?;
    Ok(())
}

fn code_of(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt as _;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(u8::try_from(code.unwrap_or(-1)).unwrap_or(FAILED))
}
