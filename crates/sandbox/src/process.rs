//! A program that runs in a sandbox.

use std::os::fd::{AsFd as _, OwnedFd};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::command::Input;
use crate::error::IsolationError;
use crate::launcher::fork_server::receive;
use crate::limits::{CHUNK_BYTES, COMPLAINT_BYTES_MAX, DRAIN_GRACE, MOMENT, TERM_GRACE};
use crate::linux::child_process::{self, Pipes, Process, Started};
use crate::linux::process_tree;
use crate::teardown::{Held, LastCommand, Remains, abandon};

/// Which of its outputs a program has written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Channel {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Why a program is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It ended by itself.
    Exited,
    /// Its time was over.
    TimedOut,
    /// Somebody asked for its end.
    Stopped,
    /// It wrote more than it may.
    Flooded,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Why.
    pub cause: Cause,
    /// Its code; 128 and the number of a signal if one ended it.
    pub code: i32,
    /// Bytes that it wrote in all, as far as they were read.
    pub output_bytes: u64,
    /// How long it ran.
    pub took: Duration,
}

/// A program that runs in a sandbox. Dropping it ends the program and all that it has started.
#[derive(Debug)]
pub struct Running {
    parts: Option<Parts>,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    /// The line to whoever has become the program, if one waited for it.
    line: Option<OwnedFd>,
    pub(crate) backend: &'static str,
    set_up: SetUp,
    started: Instant,
    deadline: Instant,
    output_bytes_max: u64,
}

#[derive(Debug)]
struct Parts {
    process: Process,
    held: Held,
    remains: Remains,
}

/// How it is known that a sandbox was set up, and that its code is that of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetUp {
    /// There is nothing to set up.
    Always,
    /// It tells the program's code in a file.
    Told,
    /// It left a sign.
    Signed,
    /// It did not end with this code.
    Unless(i32),
}

/// How a program is told apart from its sandbox.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) backend: &'static str,
    pub(crate) set_up: SetUp,
    pub(crate) time: Duration,
    pub(crate) output_bytes_max: u64,
}

impl Running {
    pub(crate) fn new(
        process: Process,
        pipes: Pipes,
        remains: Remains,
        terms: Terms,
    ) -> Result<Self, IsolationError> {
        let held = process.held();
        let Some(held) = held else {
            remains.clear();
            return Err(IsolationError::Setup {
                backend: terms.backend,
                why: "it is gone".to_owned(),
            });
        };
        let started = Instant::now();
        Ok(Self {
            stdin: pipes.stdin,
            stdout: pipes.stdout,
            stderr: pipes.stderr,
            line: None,
            parts: Some(Parts { process, held, remains }),
            backend: terms.backend,
            set_up: terms.set_up,
            started,
            deadline: started + terms.time,
            output_bytes_max: terms.output_bytes_max,
        })
    }

    /// The program in a sandbox that was just set up. Without one, clears what is left of the sandbox.
    pub(crate) fn of_started(
        started: Result<Started, IsolationError>,
        remains: Remains,
        terms: Terms,
    ) -> Result<Self, IsolationError> {
        match started {
            Ok(Started { process, pipes }) => Self::new(process, pipes, remains, terms),
            Err(error) => {
                remains.clear();
                Err(error)
            }
        }
    }

    /// Gets the pipes of a program, and the line on which it is said if that cannot be started.
    pub(crate) fn connect(&mut self, pipes: Pipes, line: OwnedFd) {
        (self.stdin, self.stdout, self.stderr) = (pipes.stdin, pipes.stdout, pipes.stderr);
        self.line = Some(line);
    }

    /// Begins anew, for a program that takes the place of one that waited.
    pub(crate) fn begin(&mut self, terms: Terms) {
        self.set_up = terms.set_up;
        self.started = Instant::now();
        self.deadline = self.started + terms.time;
        self.output_bytes_max = terms.output_bytes_max;
    }

    pub(crate) fn stdin_mut(&mut self) -> Option<&mut ChildStdin> {
        self.stdin.as_mut()
    }

    /// True if it is over.
    pub fn has_ended(&self) -> bool {
        self.parts.as_ref().is_none_or(|parts| {
            process_tree::ended_within(&parts.held.handle, std::time::Duration::ZERO)
        })
    }

    /// Asks the program to end. Dropping this ends it.
    pub fn ask_to_end(&self) {
        if let Some(parts) = &self.parts {
            parts.remains.ask(&parts.held);
        }
    }

    /// The pipe to its standard input, once, if its job has [`Input::Piped`].
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// The pipes from its outputs, once. Whoever takes them bounds what is read.
    pub fn take_outputs(&mut self) -> Option<(ChildStdout, ChildStderr)> {
        self.stdout.take().zip(self.stderr.take())
    }

    /// Runs it to its end. Each piece of output is handed over as it comes; `cancel` ends the program.
    pub async fn drive(
        mut self,
        input: Input,
        cancel: &CancellationToken,
        mut each: impl FnMut(Channel, &[u8]),
    ) -> Result<Ended, IsolationError> {
        let mut complaint = Vec::new();
        let mut heard = |channel, bytes: &[u8]| {
            if channel == Channel::Err && complaint.len() < COMPLAINT_BYTES_MAX {
                complaint.extend_from_slice(bytes);
            }
            each(channel, bytes);
        };
        let (cause, output_bytes) = self.listen(input, cancel, &mut heard).await;
        let status = self.finish(cause).await?;
        let took = self.started.elapsed();
        let Some(parts) = self.parts.take() else {
            return Err(IsolationError::Job("it has ended before".to_owned()));
        };
        let told = parts.remains.exit_code();
        let is_set_up = cause != Cause::Exited
            || match self.set_up {
                SetUp::Always => true,
                SetUp::Told => told.is_some() && !self.line.as_ref().is_some_and(is_refused),
                SetUp::Signed => parts.remains.is_signed(),
                SetUp::Unless(code) => code_of(status) != code,
            };
        let mut remains = parts.remains;
        if cause == Cause::Exited && is_set_up {
            // What ended by itself has taken itself away, if nothing was in its way.
            remains.last = remains.last.filter(LastCommand::is_needed);
        }
        // It is about to end: to have the runtime look at it would mostly take longer.
        if let Some(inner) = remains.inner()
            && !process_tree::ended_within(&inner, MOMENT)
        {
            child_process::ended(inner).await;
        }
        // Most jobs leave next to nothing: to hand that to another thread would take longer than to take it away.
        if let Some(remains) = remains.clear_at_once()
            && tokio::task::spawn_blocking(move || remains.clear()).await.is_err()
        {
            tracing::error!("what a sandbox has left could not be taken away");
        }
        if !is_set_up {
            let why = String::from_utf8_lossy(&complaint).trim().to_owned();
            return Err(IsolationError::Setup { backend: self.backend, why });
        }
        Ok(Ended { cause, code: told.unwrap_or_else(|| code_of(status)), output_bytes, took })
    }

    async fn listen(
        &mut self,
        input: Input,
        cancel: &CancellationToken,
        each: &mut (impl FnMut(Channel, &[u8]) + ?Sized),
    ) -> (Cause, u64) {
        let feeding = feed(self.stdin.take(), input);
        tokio::pin!(feeding);
        // The pipes stay open when this returns: who is asked to end may still say something.
        let Self { parts, stdout: out, stderr: err, deadline, output_bytes_max, .. } = self;
        let (mut out_chunk, mut err_chunk) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
        let (mut total, mut is_fed, mut exited) = (0_u64, false, false);
        let mut drained_by: Option<Instant> = None;
        let Some(parts) = parts else { return (Cause::Stopped, 0) };
        loop {
            if exited && out.is_none() && err.is_none() {
                return (Cause::Exited, total);
            }
            let until = drained_by.unwrap_or(*deadline);
            let (channel, read) = tokio::select! {
                biased;
                () = cancel.cancelled() => return (Cause::Stopped, total),
                () = sleep_until(until) => {
                    let cause = if exited { Cause::Exited } else { Cause::TimedOut };
                    return (cause, total);
                }
                read = read(out, &mut out_chunk), if out.is_some() => (Channel::Out, read),
                read = read(err, &mut err_chunk), if err.is_some() => (Channel::Err, read),
                () = &mut feeding, if !is_fed => { is_fed = true; continue }
                _ = parts.process.wait(), if !exited => {
                    exited = true;
                    // A process that was left behind may hold a pipe open for ever.
                    drained_by = Some(Instant::now() + DRAIN_GRACE);
                    continue;
                }
            };
            if read == 0 {
                match channel {
                    Channel::Out => *out = None,
                    Channel::Err => *err = None,
                }
                continue;
            }
            let chunk = match channel {
                Channel::Out => &out_chunk[..read],
                Channel::Err => &err_chunk[..read],
            };
            let room = output_bytes_max.saturating_sub(total);
            let kept = usize::try_from(room).unwrap_or(usize::MAX).min(chunk.len());
            total += read as u64;
            each(channel, &chunk[..kept]);
            if kept < chunk.len() {
                return (Cause::Flooded, total);
            }
        }
    }

    /// Sees to it that the program has ended.
    async fn finish(&mut self, cause: Cause) -> Result<ExitStatus, IsolationError> {
        let Some(parts) = &mut self.parts else {
            return Err(IsolationError::Job("it has ended before".to_owned()));
        };
        let waited = IsolationError::io("the end of a program is not known");
        if cause == Cause::Exited {
            return parts.process.wait().await.map_err(waited);
        }
        parts.remains.ask(&parts.held);
        if timeout(TERM_GRACE, parts.process.wait()).await.is_err() {
            // Blocks for as long as the kernel needs to end what was killed.
            let Some(Parts { process, held, remains }) = self.parts.take() else {
                return Err(IsolationError::Job("it has ended before".to_owned()));
            };
            let ended = tokio::task::spawn_blocking(move || {
                remains.end(&held);
                Parts { process, held, remains }
            });
            match ended.await {
                Ok(parts) => self.parts = Some(parts),
                Err(_) => return Err(IsolationError::Job("its end was cut off".to_owned())),
            }
        }
        let Some(parts) = &mut self.parts else {
            return Err(IsolationError::Job("it has ended before".to_owned()));
        };
        parts.process.wait().await.map_err(waited)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(Parts { process, held, remains }) = self.parts.take() {
            abandon(remains, held, process);
        }
    }
}

/// True if whoever waited has said that it could not become the program. It has ended, so what it said is there.
fn is_refused(line: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(line, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
        && receive(line.as_fd()).is_ok_and(|said| said.is_some())
}

async fn read<R: tokio::io::AsyncRead + Unpin>(pipe: &mut Option<R>, chunk: &mut [u8]) -> usize {
    match pipe {
        // What cannot be read any more is at its end.
        Some(pipe) => pipe.read(chunk).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

async fn feed(stdin: Option<ChildStdin>, input: Input) {
    if let (Some(mut stdin), Input::Bytes(bytes)) = (stdin, input) {
        // A program need not read what it is given.
        if let Err(error) = stdin.write_all(&bytes).await {
            tracing::trace!(%error, "a program did not read its input");
        }
    }
}

fn code_of(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}
