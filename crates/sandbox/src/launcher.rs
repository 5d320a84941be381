//! The part of a sandbox that runs inside the sandboxed process.
//!
//! A program with a launcher starts its own executable again with [`LAUNCHER_ARG`] as the first argument; its `main`
//! calls [`run_if_launcher`] before anything else. Each backend starts one such process, the fork server, which creates
//! a process for each job in advance. In a warm sandbox of `bwrap`, another launcher process waits inside. A launcher
//! process has one thread and initially all rights of its user. It drops them step by step: it joins the control groups
//! of its job and sets resource limits. Then it executes `bwrap`; or it enters namespaces if the kernel permits them,
//! sets `no_new_privs`, restricts files and system calls, and executes the program.
//!
//! Without `bwrap`, two launcher processes are ancestors of the program: the supervisor outside, which ends everything
//! when its parent ends, and the first process of the namespace, which reaps orphaned processes.

mod bwrap;
mod confine;
mod fork;
pub(crate) mod fork_server;
pub(crate) mod order;
pub(crate) mod rlimits;
mod supervisor;

pub(crate) use self::bwrap::variables;

use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

use crate::egress;

/// First argument that makes a program a launcher.
pub const LAUNCHER_ARG: &str = "__sandbox";
/// Second argument: run the fork server, wait for a program inside a sandbox, or forward connections beside a program.
pub(crate) const FORK_SERVER_ARG: &str = "starter";
pub(crate) const WAIT_INSIDE_ARG: &str = "inside";
pub(crate) const RELAY_ARG: &str = "relay";
/// Exit code of a launcher that failed.
const FAILED: u8 = 125;

/// Command that starts the launcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launcher {
    /// Path of the program.
    pub program: PathBuf,
    /// First arguments of the program.
    pub args: Vec<String>,
}

impl Launcher {
    /// Returns the current executable. Its `main` must call [`run_if_launcher`] first.
    pub fn own() -> io::Result<Self> {
        Ok(Self::at(std::env::current_exe()?))
    }

    /// Returns another executable that is a launcher.
    pub fn at(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), args: vec![LAUNCHER_ARG.to_owned()] }
    }
}

/// File that the confined process writes when it is ready.
pub(crate) const READY_FILE: &str = "ready";

/// Executes the launcher if this process was started as one, and returns its exit code. Returns `None` for a regular
/// start.
pub fn run_if_launcher() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    if args.next()? != LAUNCHER_ARG {
        return None;
    }
    let kind = args.next().unwrap_or_default();
    let result = match kind.to_str() {
        Some(RELAY_ARG) => relay(args),
        Some(FORK_SERVER_ARG) => fork_server::run(),
        Some(WAIT_INSIDE_ARG) => fork_server::wait_inside(),
        _ => Err(io::Error::other("unknown launcher argument")),
    };
    Some(result.unwrap_or_else(|error| {
        print_error(&error);
        ExitCode::from(FAILED)
    }))
}

/// Writes an error to the standard error.
fn print_error(error: &io::Error) {
    use io::Write as _;
    // Standard error is the only output here. If it is closed, the message is lost.
    writeln!(io::stderr(), "sandbox: {error}").unwrap_or_default();
}

/// Runs a program and forwards connections from the sandbox to the proxy until it exits. Returns its exit code.
fn relay(mut args: impl Iterator<Item = OsString>) -> io::Result<ExitCode> {
    let port = args.next().and_then(|port| port.to_str()?.parse().ok());
    let port: u16 = port.ok_or_else(|| io::Error::other("the port argument is missing"))?;
    let proxy_socket = PathBuf::from(args.next().unwrap_or_default());
    let program = args.next().ok_or_else(|| io::Error::other("the program argument is missing"))?;
    listen(port, &proxy_socket)?;
    let status = Command::new(program).args(args).status()?;
    Ok(code_of(status))
}

/// Starts a thread that forwards connections from this port of the sandbox to the proxy socket.
fn listen(port: u16, proxy_socket: &Path) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let proxy_socket = proxy_socket.to_owned();
    std::thread::Builder::new().spawn(move || egress::relay(&listener, &proxy_socket))?;
    Ok(())
}

/// Returns the exit code of a program. A signal counts as 128 plus its number.
fn code_of(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt as _;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(u8::try_from(code.unwrap_or(-1)).unwrap_or(FAILED))
}
