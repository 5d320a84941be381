//! Transport over the pipes of a server program, and the lifetime of its process.

mod process_group;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use provost_redact::RedactStream;
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::connection::monitor::{ConnectionMonitor, locked};
use crate::limits::{
    EXIT_GRACE, MESSAGE_BYTES_MAX, NOISE_LINES_MAX, SIGNAL_GRACE, STDERR_BYTES_MAX, WRITE_TIMEOUT,
};
use crate::server::StdioConfig;
use crate::transport::launcher::{ExitKind, LaunchError, LaunchRequest, ServerProcessHandle};

/// Environment variables that a program inherits.
const INHERITED: [&str; 3] = ["PATH", "HOME", "LANG"];
/// Size up to which a line buffer is reused.
const LINE_BUFFER_BYTES: usize = 256 * 1024;
/// Maximum time to wait for the standard error of an exited program.
const STDERR_TIMEOUT: Duration = Duration::from_millis(200);
/// Interval for checking whether a program has exited.
const EXIT_POLL: Duration = Duration::from_millis(5);

/// A server process with its children, its input and the end of its standard error.
pub(crate) struct ServerProcess {
    handle: Box<dyn ServerProcessHandle>,
    input: Arc<tokio::sync::Mutex<Option<ChildStdin>>>,
    stderr_tail: Arc<StderrTail>,
}

/// The last bytes of the standard error of a program.
#[derive(Default)]
struct StderrTail {
    tail: Mutex<Vec<u8>>,
    complete: CancellationToken,
}

/// Starts a program with its launcher, or as a child of this process. Also starts a task that collects its standard
/// error.
pub(crate) async fn start(
    stdio: &StdioConfig,
    monitor: Arc<ConnectionMonitor>,
    redact: Option<RedactStream>,
) -> Result<(Arc<ServerProcess>, StdioTransport), LaunchError> {
    let launched = match &stdio.launcher {
        Some(launcher) => launcher.0.launch(stdio.launch_request()).await?,
        None => process_group::start(stdio.local_command())?,
    };
    let stderr_tail = Arc::new(StderrTail::default());
    tokio::spawn(collect_stderr(launched.stderr, Arc::clone(&stderr_tail), redact));
    let input = Arc::new(tokio::sync::Mutex::new(Some(launched.stdin)));
    let process = ServerProcess { handle: launched.handle, input: Arc::clone(&input), stderr_tail };
    Ok((
        Arc::new(process),
        StdioTransport { lines: BoundedLines::new(launched.stdout), input, noise: 0, monitor },
    ))
}

impl StdioConfig {
    /// Returns the request to the launcher. It does not contain variables of this process.
    fn launch_request(&self) -> LaunchRequest {
        let public_env = self.public_env.iter().cloned();
        let secrets = self.env.iter().map(|(name, value)| (name.clone(), value.expose().clone()));
        let env = public_env.chain(secrets).collect();
        LaunchRequest { command: self.command.clone(), args: self.args.clone(), env }
    }

    /// Returns the command of a child process, with the inherited variables.
    fn local_command(&self) -> Command {
        let LaunchRequest { command, args, env } = self.launch_request();
        let mut command = Command::new(command);
        command.args(args).env_clear();
        command.envs(INHERITED.iter().filter_map(|name| Some((*name, std::env::var_os(name)?))));
        command.envs(env);
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        command
    }
}

/// Reads the standard error of a program and keeps its end, so that the program never blocks on a full pipe. It is
/// redacted before the beginning is dropped, because a truncated secret would not be recognized.
async fn collect_stderr(
    mut stderr: ChildStderr,
    stderr_tail: Arc<StderrTail>,
    mut redact: Option<RedactStream>,
) {
    let mut chunk = vec![0; STDERR_BYTES_MAX];
    while let Ok(size) = stderr.read(&mut chunk).await {
        if size == 0 {
            break;
        }
        match &mut redact {
            Some(redact) => stderr_tail.add(&redact.push(&chunk[..size])),
            None => stderr_tail.add(&chunk[..size]),
        }
    }
    if let Some(redact) = redact {
        stderr_tail.add(&redact.finish());
    }
    stderr_tail.complete.cancel();
}

impl StderrTail {
    /// Appends bytes, and drops the oldest bytes beyond the limit.
    fn add(&self, chunk: &[u8]) {
        let mut tail = locked(&self.tail);
        tail.extend_from_slice(chunk);
        let excess = tail.len().saturating_sub(STDERR_BYTES_MAX);
        tail.drain(..excess);
    }
}

impl ServerProcess {
    /// Returns the exit status and the end of the standard error, as a suffix of an error message.
    pub(crate) async fn exit_description(&self) -> String {
        // A program that closes its pipes is about to exit, and its last output may still be in the pipe. A child
        // process may hold the pipe open forever.
        if self.exits_within(STDERR_TIMEOUT).await {
            let result = timeout(STDERR_TIMEOUT, self.stderr_tail.complete.cancelled()).await;
            drop(result);
        }
        let mut description = match self.handle.exit() {
            Some(ExitKind::Code(code)) => format!("; exit code {code}"),
            Some(ExitKind::Signal) => "; terminated by a signal".to_owned(),
            Some(ExitKind::Unknown) => "; exited".to_owned(),
            None => String::new(),
        };
        let tail = locked(&self.stderr_tail.tail);
        let tail = String::from_utf8_lossy(&tail);
        if !tail.trim().is_empty() {
            description.push_str("; stderr: ");
            description.push_str(tail.trim());
        }
        description
    }

    /// Returns true if the program has exited. Its children may still run.
    pub(crate) fn has_ended(&self) -> bool {
        self.handle.exit().is_some()
    }

    /// Kills the program and its children without waiting.
    pub(crate) fn kill(&self) {
        self.handle.kill();
    }

    /// Waits until the program exits. Returns false after the time.
    async fn exits_within(&self, grace: Duration) -> bool {
        let ended = async {
            while !self.has_ended() {
                tokio::time::sleep(EXIT_POLL).await;
            }
        };
        timeout(grace, ended).await.is_ok()
    }

    /// Ends the program: closes its input, then sends a signal, then kills it with its children, and waits until they
    /// have exited.
    pub(crate) async fn end(&self) {
        // A blocked writer holds the input. The program is killed in any case.
        if let Ok(mut input) = self.input.try_lock() {
            input.take();
        }
        if !self.exits_within(EXIT_GRACE).await {
            self.handle.terminate();
            self.exits_within(SIGNAL_GRACE).await;
        }
        self.handle.kill_and_wait().await;
    }
}

/// Transport over the pipes of a program, with one message per line.
pub(crate) struct StdioTransport {
    lines: BoundedLines<ChildStdout>,
    input: Arc<tokio::sync::Mutex<Option<ChildStdin>>>,
    noise: u32,
    monitor: Arc<ConnectionMonitor>,
}

impl Transport<RoleClient> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let input = Arc::clone(&self.input);
        let monitor = Arc::clone(&self.monitor);
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let mut input = input.lock().await;
            let Some(pipe) = input.as_mut() else {
                return Err(io::ErrorKind::NotConnected.into());
            };
            let write = async {
                pipe.write_all(&line).await?;
                pipe.flush().await
            };
            let result = timeout(WRITE_TIMEOUT, write)
                .await
                .unwrap_or_else(|_| Err(io::Error::other("the server does not read its input")));
            if let Err(error) = &result {
                // A partial message may have been written, so no further message can follow.
                input.take();
                monitor.mark_dead(format!("cannot write to the server: {error}"));
            }
            result
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            match self.lines.read_line(MESSAGE_BYTES_MAX).await {
                Ok(true) => {}
                Ok(false) => {
                    self.monitor.mark_dead("the server closed its output");
                    return None;
                }
                Err(error) => {
                    self.monitor.mark_dead(format!("cannot read from the server: {error}"));
                    return None;
                }
            }
            let line = self.lines.line();
            if line.is_empty() {
                continue;
            }
            match serde_json::from_slice(line) {
                Ok(message) => {
                    self.noise = 0;
                    return Some(message);
                }
                // Some programs print banners and logs to their standard output.
                Err(error) => {
                    tracing::debug!(%error, "skipped a line of an MCP server that is not a message")
                }
            }
            self.noise += 1;
            if self.noise >= NOISE_LINES_MAX {
                self.monitor.mark_dead("the server writes other text than messages to its output");
                return None;
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        if let Ok(mut input) = self.input.try_lock() {
            input.take();
        }
        Ok(())
    }
}

/// Reader for lines of limited length. It is cancellation safe.
struct BoundedLines<R> {
    source: BufReader<R>,
    line: Vec<u8>,
    complete: bool,
}

impl<R: AsyncRead + Unpin> BoundedLines<R> {
    fn new(source: R) -> Self {
        Self { source: BufReader::new(source), line: Vec::new(), complete: false }
    }

    /// Reads the next line. Returns false at the end of the input, and an error if the line has more than `bytes_max`
    /// bytes.
    async fn read_line(&mut self, bytes_max: usize) -> io::Result<bool> {
        if self.complete {
            self.complete = false;
            self.line.clear();
            if self.line.capacity() > LINE_BUFFER_BYTES {
                self.line = Vec::new();
            }
        }
        loop {
            let chunk = self.source.fill_buf().await?;
            if chunk.is_empty() {
                return Ok(false);
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let size = end.map_or(chunk.len(), |end| end + 1);
            if self.line.len() + size > bytes_max {
                return Err(io::Error::other(format!(
                    "the server sent a message of more than {bytes_max} bytes"
                )));
            }
            self.line.extend_from_slice(&chunk[..size]);
            self.source.consume(size);
            if end.is_some() {
                self.complete = true;
                return Ok(true);
            }
        }
    }

    /// Returns the last read line without surrounding white space.
    fn line(&self) -> &[u8] {
        self.line.trim_ascii()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_bounded_and_survive_being_dropped_half_read() {
        let (mut writer, reader) = tokio::io::duplex(64);
        let mut lines = BoundedLines::new(reader);
        writer.write_all(b"ab").await.unwrap();
        assert!(futures::FutureExt::now_or_never(lines.read_line(10)).is_none());
        writer.write_all(b"c\r\nd\n").await.unwrap();
        assert!(lines.read_line(10).await.unwrap());
        assert_eq!(lines.line(), b"abc");
        assert!(lines.read_line(10).await.unwrap());
        assert_eq!(lines.line(), b"d");
        writer.write_all(b"0123456789x").await.unwrap();
        assert!(lines.read_line(10).await.is_err());
    }
}
