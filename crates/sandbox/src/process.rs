//! A running sandboxed process.

use std::os::fd::{AsFd as _, OwnedFd};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::command::Stdin;
use crate::error::IsolationError;
use crate::launcher::fork_server::receive;
use crate::limits::{CHUNK_BYTES, DRAIN_GRACE, INLINE_WAIT_MAX, SETUP_ERROR_BYTES_MAX, TERM_GRACE};
use crate::linux::child_process::{self, ChildProcess, StartedProcess, StdPipes};
use crate::linux::process_tree;
use crate::teardown::{CleanupCommand, PidFd, Teardown, finish_in_background};

/// Standard output or standard error of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StdStream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Reason for the end of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitReason {
    /// The program exited by itself.
    Exited,
    /// The time limit was reached.
    TimedOut,
    /// The caller cancelled the program.
    Cancelled,
    /// The output limit was exceeded.
    OutputLimit,
}

/// Result of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExitInfo {
    /// Reason for the end.
    pub reason: ExitReason,
    /// Exit code, or 128 plus the number of the signal that ended the program.
    pub code: i32,
    /// Number of output bytes that were read.
    pub output_bytes: u64,
    /// Run time of the program.
    pub duration: Duration,
}

/// A program that runs in a sandbox. Dropping it ends the program and all its processes.
#[derive(Debug)]
pub struct SandboxedProcess {
    parts: Option<ProcessParts>,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    /// Control socket of the launcher that executed the program, if the sandbox was warm.
    control: Option<OwnedFd>,
    pub(crate) backend: &'static str,
    setup_check: SetupCheck,
    started: Instant,
    deadline: Instant,
    output_bytes_max: u64,
}

/// The process, its handle and the resources to remove at the end.
#[derive(Debug)]
struct ProcessParts {
    process: ChildProcess,
    pidfd: PidFd,
    teardown: Teardown,
}

/// How to detect that the sandbox was set up and that the exit code is the code of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetupCheck {
    /// There is no setup.
    NotNeeded,
    /// The sandbox writes the exit code of the program to the status file.
    StatusFile,
    /// The sandbox creates the ready marker.
    ReadyMarker,
    /// The exit code differs from this code.
    ExitCodeNot(i32),
}

/// Limits of a process, and how to distinguish a setup error from the result of the program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessOptions {
    pub(crate) backend: &'static str,
    pub(crate) setup_check: SetupCheck,
    pub(crate) time: Duration,
    pub(crate) output_bytes_max: u64,
}

impl SandboxedProcess {
    /// Wraps a started process. If it has already ended, removes the resources and fails.
    pub(crate) fn new(
        process: ChildProcess,
        pipes: StdPipes,
        teardown: Teardown,
        options: ProcessOptions,
    ) -> Result<Self, IsolationError> {
        let pidfd = process.pidfd();
        let Some(pidfd) = pidfd else {
            teardown.clear();
            return Err(IsolationError::Setup {
                backend: options.backend,
                reason: "the process ended during the setup".to_owned(),
            });
        };
        let started = Instant::now();
        Ok(Self {
            stdin: pipes.stdin,
            stdout: pipes.stdout,
            stderr: pipes.stderr,
            control: None,
            parts: Some(ProcessParts { process, pidfd, teardown }),
            backend: options.backend,
            setup_check: options.setup_check,
            started,
            deadline: started + options.time,
            output_bytes_max: options.output_bytes_max,
        })
    }

    /// Wraps the program of a sandbox that was just started. If the start failed, removes the resources of the sandbox.
    pub(crate) fn of_started(
        started: Result<StartedProcess, IsolationError>,
        teardown: Teardown,
        options: ProcessOptions,
    ) -> Result<Self, IsolationError> {
        match started {
            Ok(StartedProcess { process, pipes }) => Self::new(process, pipes, teardown, options),
            Err(error) => {
                teardown.clear();
                Err(error)
            }
        }
    }

    /// Connects the pipes of a program and the control socket that reports a failed start.
    pub(crate) fn connect(&mut self, pipes: StdPipes, control: OwnedFd) {
        (self.stdin, self.stdout, self.stderr) = (pipes.stdin, pipes.stdout, pipes.stderr);
        self.control = Some(control);
    }

    /// Restarts the clock and replaces the options. Called when a warm sandbox receives a command.
    pub(crate) fn begin(&mut self, options: ProcessOptions) {
        self.setup_check = options.setup_check;
        self.started = Instant::now();
        self.deadline = self.started + options.time;
        self.output_bytes_max = options.output_bytes_max;
    }

    /// Returns the pipe to the standard input, unless it was taken.
    pub(crate) fn stdin_mut(&mut self) -> Option<&mut ChildStdin> {
        self.stdin.as_mut()
    }

    /// Returns true if the process has ended.
    pub fn has_ended(&self) -> bool {
        self.parts.as_ref().is_none_or(|parts| {
            process_tree::ended_within(&parts.pidfd.handle, std::time::Duration::ZERO)
        })
    }

    /// Sends SIGTERM to the program and its descendants. Does not wait. Dropping the process ends it unconditionally.
    pub fn terminate(&self) {
        if let Some(parts) = &self.parts {
            parts.teardown.terminate(&parts.pidfd);
        }
    }

    /// Takes the pipe to the standard input. Only for a command with [`Stdin::Piped`], and only once.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Takes the pipes of the outputs, once. The caller must limit what it reads.
    pub fn take_outputs(&mut self) -> Option<(ChildStdout, ChildStderr)> {
        self.stdout.take().zip(self.stderr.take())
    }

    /// Waits until the program exits, and removes its sandbox. `on_output` receives every output chunk as it arrives;
    /// `cancel` ends the program. Fails if the sandbox could not be set up.
    pub async fn wait_with_output(
        mut self,
        input: Stdin,
        cancel: &CancellationToken,
        mut on_output: impl FnMut(StdStream, &[u8]),
    ) -> Result<ExitInfo, IsolationError> {
        let mut setup_error = Vec::new();
        let mut collect = |stream, bytes: &[u8]| {
            if stream == StdStream::Err && setup_error.len() < SETUP_ERROR_BYTES_MAX {
                setup_error.extend_from_slice(bytes);
            }
            on_output(stream, bytes);
        };
        let (reason, output_bytes) = self.pump_io(input, cancel, &mut collect).await;
        let status = self.finish(reason).await?;
        let duration = self.started.elapsed();
        let Some(parts) = self.parts.take() else {
            return Err(IsolationError::Invalid("the process has already ended".to_owned()));
        };
        let exit_code = parts.teardown.exit_code();
        let is_set_up = reason != ExitReason::Exited
            || match self.setup_check {
                SetupCheck::NotNeeded => true,
                SetupCheck::StatusFile => {
                    exit_code.is_some() && !self.control.as_ref().is_some_and(has_exec_failed)
                }
                SetupCheck::ReadyMarker => parts.teardown.has_ready_marker(),
                SetupCheck::ExitCodeNot(code) => code_of(status) != code,
            };
        let mut teardown = parts.teardown;
        if reason == ExitReason::Exited && is_set_up {
            // A container that exits by itself usually removes itself.
            teardown.cleanup = teardown.cleanup.filter(CleanupCommand::is_needed);
        }
        // The process usually ends within microseconds. Registering it with the runtime would take longer.
        if let Some(init) = teardown.init_process()
            && !process_tree::ended_within(&init, INLINE_WAIT_MAX)
        {
            child_process::wait_until_ended(init).await;
        }
        // Most jobs leave few files. Moving the work to another thread would take longer than the removal.
        if let Some(teardown) = teardown.clear_inline()
            && tokio::task::spawn_blocking(move || teardown.clear()).await.is_err()
        {
            tracing::error!("cannot remove the resources of a sandbox");
        }
        if !is_set_up {
            let message = String::from_utf8_lossy(&setup_error).trim().to_owned();
            return Err(IsolationError::Setup { backend: self.backend, reason: message });
        }
        Ok(ExitInfo {
            reason,
            code: exit_code.unwrap_or_else(|| code_of(status)),
            output_bytes,
            duration,
        })
    }

    /// Writes the input and reads both outputs until the program exits, is cancelled or exceeds a limit. Returns the
    /// reason and the number of output bytes. After the exit, waits a bounded time for remaining output.
    async fn pump_io(
        &mut self,
        input: Stdin,
        cancel: &CancellationToken,
        on_output: &mut (impl FnMut(StdStream, &[u8]) + ?Sized),
    ) -> (ExitReason, u64) {
        let input_task = feed(self.stdin.take(), input);
        tokio::pin!(input_task);
        // The pipes stay open when this function returns, because a program may still write after SIGTERM.
        let Self { parts, stdout: out, stderr: err, deadline, output_bytes_max, .. } = self;
        let (mut out_chunk, mut err_chunk) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
        let (mut total, mut is_input_done, mut exited) = (0_u64, false, false);
        let mut drained_by: Option<Instant> = None;
        let Some(parts) = parts else { return (ExitReason::Cancelled, 0) };
        loop {
            if exited && out.is_none() && err.is_none() {
                return (ExitReason::Exited, total);
            }
            let until = drained_by.unwrap_or(*deadline);
            let (stream, read) = tokio::select! {
                biased;
                () = cancel.cancelled() => return (ExitReason::Cancelled, total),
                () = sleep_until(until) => {
                    let reason = if exited { ExitReason::Exited } else { ExitReason::TimedOut };
                    return (reason, total);
                }
                read = read(out, &mut out_chunk), if out.is_some() => (StdStream::Out, read),
                read = read(err, &mut err_chunk), if err.is_some() => (StdStream::Err, read),
                () = &mut input_task, if !is_input_done => { is_input_done = true; continue }
                _ = parts.process.wait(), if !exited => {
                    exited = true;
                    // An orphaned process can hold a pipe open indefinitely.
                    drained_by = Some(Instant::now() + DRAIN_GRACE);
                    continue;
                }
            };
            if read == 0 {
                match stream {
                    StdStream::Out => *out = None,
                    StdStream::Err => *err = None,
                }
                continue;
            }
            let chunk = match stream {
                StdStream::Out => &out_chunk[..read],
                StdStream::Err => &err_chunk[..read],
            };
            let remaining = output_bytes_max.saturating_sub(total);
            let taken = usize::try_from(remaining).unwrap_or(usize::MAX).min(chunk.len());
            total += read as u64;
            on_output(stream, &chunk[..taken]);
            if taken < chunk.len() {
                return (ExitReason::OutputLimit, total);
            }
        }
    }

    /// Ends the program, if it is still running, and returns its exit status. Sends SIGTERM first, and kills all
    /// processes after a grace period.
    async fn finish(&mut self, reason: ExitReason) -> Result<ExitStatus, IsolationError> {
        let Some(parts) = &mut self.parts else {
            return Err(IsolationError::Invalid("the process has already ended".to_owned()));
        };
        let waited = IsolationError::io("cannot determine the exit status of a program");
        if reason == ExitReason::Exited {
            return parts.process.wait().await.map_err(waited);
        }
        parts.teardown.terminate(&parts.pidfd);
        if timeout(TERM_GRACE, parts.process.wait()).await.is_err() {
            // Blocks until the kernel has ended the killed processes.
            let Some(ProcessParts { process, pidfd, teardown }) = self.parts.take() else {
                return Err(IsolationError::Invalid("the process has already ended".to_owned()));
            };
            let ended = tokio::task::spawn_blocking(move || {
                teardown.kill(&pidfd);
                ProcessParts { process, pidfd, teardown }
            });
            match ended.await {
                Ok(parts) => self.parts = Some(parts),
                Err(_) => {
                    return Err(IsolationError::Invalid(
                        "the thread that ends the process failed".to_owned(),
                    ));
                }
            }
        }
        let Some(parts) = &mut self.parts else {
            return Err(IsolationError::Invalid("the process has already ended".to_owned()));
        };
        parts.process.wait().await.map_err(waited)
    }
}

impl Drop for SandboxedProcess {
    fn drop(&mut self) {
        if let Some(ProcessParts { process, pidfd, teardown }) = self.parts.take() {
            finish_in_background(teardown, pidfd, process);
        }
    }
}

/// Returns true if the launcher reported that it could not execute the program. Call it after the launcher has ended,
/// because its message has arrived by then.
fn has_exec_failed(control: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(control, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
        && receive(control.as_fd()).is_ok_and(|message| message.is_some())
}

/// Reads from a pipe. Returns 0 at its end or after an error. Never returns for a missing pipe.
async fn read<R: tokio::io::AsyncRead + Unpin>(pipe: &mut Option<R>, chunk: &mut [u8]) -> usize {
    match pipe {
        // A read error counts as the end of the output.
        Some(pipe) => pipe.read(chunk).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

/// Writes the input to the program and closes the pipe. An error is ignored, because a program may exit without
/// reading.
async fn feed(stdin: Option<ChildStdin>, input: Stdin) {
    if let (Some(mut stdin), Stdin::Bytes(bytes)) = (stdin, input) {
        // A program may exit without reading its input.
        if let Err(error) = stdin.write_all(&bytes).await {
            tracing::trace!(%error, "a program did not read its complete input");
        }
    }
}

/// Returns the exit code of a program. A signal counts as 128 plus its number.
fn code_of(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}
