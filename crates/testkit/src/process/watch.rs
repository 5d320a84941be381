//! Threads that follow a process: two for its output, one for its state.

use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::thread::{self, JoinHandle};

use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitIdStatus, waitid};
use tokio::sync::watch::Sender;

/// Output stream of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Lines that a process has written so far.
#[derive(Clone, Default)]
pub(super) struct Output {
    pub(super) lines: Vec<(Stream, String)>,
    closed: usize,
}

impl Output {
    /// Returns true if both streams are closed.
    pub(super) fn is_closed(&self) -> bool {
        self.closed == 2
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (stream, line) in &self.lines {
            let stream = match stream {
                Stream::Out => "out",
                Stream::Err => "err",
            };
            writeln!(f, "  {stream}| {line}")?;
        }
        f.write_str(if self.is_closed() { "  (end)" } else { "  (still open)" })
    }
}

/// State of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Running,
    Frozen,
    Ended(ExitStatus),
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running => f.write_str("running"),
            Self::Frozen => f.write_str("frozen"),
            Self::Ended(status) => status.fmt(f),
        }
    }
}

/// Starts a thread that collects lines until the stream is closed, which may be after the exit of the process.
pub(super) fn spawn_reader<R>(source: Option<R>, stream: Stream, output: &Sender<Output>)
where
    R: Read + Send + 'static,
{
    let output = output.clone();
    thread::spawn(move || {
        let mut source = source.map(BufReader::new);
        let mut line = Vec::new();
        while source.as_mut().is_some_and(|s| s.read_until(b'\n', &mut line).is_ok_and(|n| n > 0)) {
            let end = line.len() - usize::from(line.ends_with(b"\n"));
            let text = String::from_utf8_lossy(&line[..end]).into_owned();
            output.send_modify(|output| output.lines.push((stream, text)));
            line.clear();
        }
        output.send_modify(|output| output.closed += 1);
    });
}

/// Starts a thread that follows the state of a child until the child exits. It does not reap the child.
pub(super) fn spawn_watcher(id: Pid, state: Sender<State>) -> JoinHandle<()> {
    let changes = WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED;
    let look = changes | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let take = changes | WaitIdOptions::NOHANG;
    thread::spawn(move || {
        loop {
            // `NOWAIT` leaves the exit in place. A stop must be consumed, because the next wait would return it again.
            match waitid(WaitId::Pid(id), look) {
                Ok(Some(status)) if exit_state(&status).is_some() => {
                    state.send_modify(|state| *state = exit_state(&status).unwrap_or(*state));
                    return;
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            match waitid(WaitId::Pid(id), take) {
                Ok(Some(status)) if status.stopped() => {
                    state.send_replace(State::Frozen);
                }
                Ok(Some(status)) if status.continued() => {
                    state.send_replace(State::Running);
                }
                _ => {}
            }
        }
    })
}

/// Returns the state of an exited process. `None` if the process has not exited.
fn exit_state(status: &WaitIdStatus) -> Option<State> {
    let code = status.exit_status().map(|code| code << 8);
    let raw = code.or_else(|| status.terminating_signal())?;
    Some(State::Ended(ExitStatus::from_raw(raw)))
}
