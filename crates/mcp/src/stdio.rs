//! A server that is a program: its pipes, and its process with everything it starts.
//!
//! Invariant: the process group is killed before its leader is reaped, so a number that somebody else has got meanwhile is
//! never signalled.

use std::io;
use std::process::Stdio as Pipe;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use provost_redact::RedactStream;
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::limits::{
    EXIT_GRACE, KILL_GRACE, MESSAGE_BYTES_MAX, NOISE_LINES_MAX, SIGNAL_GRACE, STDERR_BYTES_MAX,
    WRITE_TIMEOUT,
};
use crate::server::Stdio;
use crate::wire::{Wire, locked};

/// What a program gets of our own environment.
const INHERITED: [&str; 3] = ["PATH", "HOME", "LANG"];
/// Bytes of a line buffer that are kept for the next line.
const LINE_KEPT_BYTES: usize = 256 * 1024;
/// How long the last words of a program that ended are waited for.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_millis(200);
/// How often it is looked whether a program has ended.
const EXIT_POLL: Duration = Duration::from_millis(5);

/// A running program with its whole process group.
pub(crate) struct Process {
    group: Pid,
    child: Mutex<Option<Child>>,
    input: Arc<tokio::sync::Mutex<Option<ChildStdin>>>,
    words: Arc<Words>,
    status: OnceLock<Option<i32>>,
}

/// The end of what a program wrote to its standard error.
#[derive(Default)]
struct Words {
    tail: Mutex<Vec<u8>>,
    whole: CancellationToken,
}

/// Starts a program.
pub(crate) fn start(
    stdio: &Stdio,
    wire: Arc<Wire>,
    redact: Option<RedactStream>,
) -> io::Result<(Arc<Process>, Pipes)> {
    let mut command = Command::new(&stdio.command);
    command.args(&stdio.args).env_clear();
    for name in INHERITED {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    for (name, value) in &stdio.settings {
        command.env(name, value);
    }
    for (name, value) in &stdio.env {
        command.env(name, value.expose());
    }
    if let Some(dir) = &stdio.dir {
        command.current_dir(dir);
    }
    command.stdin(Pipe::piped()).stdout(Pipe::piped()).stderr(Pipe::piped());
    command.process_group(0).kill_on_drop(true);
    let mut child = command.spawn()?;
    let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let (Some(group), Some(input), Some(output), Some(errors)) =
        (group, child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(io::Error::other("the program has no pipes"));
    };
    let words = Arc::new(Words::default());
    tokio::spawn(listen(errors, Arc::clone(&words), redact));
    let input = Arc::new(tokio::sync::Mutex::new(Some(input)));
    let process = Arc::new(Process {
        group,
        child: Mutex::new(Some(child)),
        input: Arc::clone(&input),
        words,
        status: OnceLock::new(),
    });
    Ok((process, Pipes { lines: Lines::new(output), input, noise: 0, wire }))
}

/// Keeps the end of what comes, and takes everything so that the program is never blocked by it.
///
/// Secrets go before the beginning is cut off: of one that is cut nobody would know the rest.
async fn listen(mut errors: ChildStderr, words: Arc<Words>, mut redact: Option<RedactStream>) {
    let mut chunk = vec![0; STDERR_BYTES_MAX];
    while let Ok(size) = errors.read(&mut chunk).await {
        if size == 0 {
            break;
        }
        match &mut redact {
            Some(redact) => words.add(&redact.push(&chunk[..size])),
            None => words.add(&chunk[..size]),
        }
    }
    if let Some(redact) = redact {
        words.add(&redact.finish());
    }
    words.whole.cancel();
}

impl Words {
    fn add(&self, chunk: &[u8]) {
        let mut tail = locked(&self.tail);
        tail.extend_from_slice(chunk);
        let excess = tail.len().saturating_sub(STDERR_BYTES_MAX);
        tail.drain(..excess);
    }
}

impl Process {
    /// What the program wrote last, and how it ended if it did.
    pub(crate) async fn last_words(&self) -> String {
        // A program that closes its pipes is about to end, and what it wrote may still be in one. A child of it may hold the
        // pipe open for ever.
        if self.ended_within(LAST_WORDS_TIMEOUT).await {
            let whole = timeout(LAST_WORDS_TIMEOUT, self.words.whole.cancelled()).await;
            drop(whole);
        }
        let mut words = match self.exit_status() {
            Some(Some(code)) => format!("; it ended with code {code}"),
            Some(None) => "; it was ended by a signal".to_owned(),
            None => String::new(),
        };
        let tail = locked(&self.words.tail);
        let tail = String::from_utf8_lossy(&tail);
        if !tail.trim().is_empty() {
            words.push_str("; its last words: ");
            words.push_str(tail.trim());
        }
        words
    }

    /// Whether the leader has ended, and with which code. It is not reaped by this.
    fn exit_status(&self) -> Option<Option<i32>> {
        if let Some(status) = self.status.get() {
            return Some(*status);
        }
        let child = locked(&self.child);
        child.as_ref()?;
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(self.group), options).ok().flatten()?;
        Some(*self.status.get_or_init(|| status.exit_status()))
    }

    /// True once the program itself has ended, whatever it has left behind.
    pub(crate) fn has_ended(&self) -> bool {
        self.exit_status().is_some()
    }

    /// Kills the whole group now, without waiting.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        let child = locked(&self.child);
        if child.is_some()
            && let Err(error) = kill_process_group(self.group, signal)
        {
            tracing::debug!(%error, "an MCP server's process group is gone already");
        }
    }

    async fn ended_within(&self, grace: Duration) -> bool {
        let ended = async {
            while self.exit_status().is_none() && locked(&self.child).is_some() {
                tokio::time::sleep(EXIT_POLL).await;
            }
        };
        timeout(grace, ended).await.is_ok()
    }

    /// Ends the program: politely, then not. Afterwards nothing of its group is left.
    pub(crate) async fn end(&self) {
        // A writer that is stuck holds the pipe; the program is killed all the same.
        if let Ok(mut input) = self.input.try_lock() {
            input.take();
        }
        if !self.ended_within(EXIT_GRACE).await {
            self.signal(Signal::TERM);
            self.ended_within(SIGNAL_GRACE).await;
        }
        self.kill();
        let child = locked(&self.child).take();
        if let Some(mut child) = child
            && !matches!(timeout(KILL_GRACE, child.wait()).await, Ok(Ok(_)))
        {
            tracing::warn!(pid = self.group.as_raw_nonzero(), "an MCP server does not end");
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The pipes of a program as a transport: one message on each line.
pub(crate) struct Pipes {
    lines: Lines<ChildStdout>,
    input: Arc<tokio::sync::Mutex<Option<ChildStdin>>>,
    noise: u32,
    wire: Arc<Wire>,
}

impl Transport<RoleClient> for Pipes {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let input = Arc::clone(&self.input);
        let wire = Arc::clone(&self.wire);
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
                .unwrap_or_else(|_| Err(io::Error::other("it does not read its input")));
            if let Err(error) = &result {
                // Half a message may be out: nothing can follow it.
                input.take();
                wire.die(format!("the server cannot be written to: {error}"));
            }
            result
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            match self.lines.next(MESSAGE_BYTES_MAX).await {
                Ok(true) => {}
                Ok(false) => {
                    self.wire.die("the server closed its output");
                    return None;
                }
                Err(error) => {
                    self.wire.die(format!("the server cannot be read from: {error}"));
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
                // Programs print banners and logs where they should not.
                Err(error) => tracing::debug!(%error, "a line of an MCP server is no message"),
            }
            self.noise += 1;
            if self.noise >= NOISE_LINES_MAX {
                self.wire.die("the server writes something else than messages to its output");
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

/// Lines of bounded length. Dropping a read in the middle loses nothing.
struct Lines<R> {
    source: BufReader<R>,
    line: Vec<u8>,
    whole: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    fn new(source: R) -> Self {
        Self { source: BufReader::new(source), line: Vec::new(), whole: false }
    }

    /// Reads a line; false at the end.
    async fn next(&mut self, bytes_max: usize) -> io::Result<bool> {
        if self.whole {
            self.whole = false;
            self.line.clear();
            if self.line.capacity() > LINE_KEPT_BYTES {
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
                    "it sent a message of more than {bytes_max} bytes"
                )));
            }
            self.line.extend_from_slice(&chunk[..size]);
            self.source.consume(size);
            if end.is_some() {
                self.whole = true;
                return Ok(true);
            }
        }
    }

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
        let mut lines = Lines::new(reader);
        writer.write_all(b"ab").await.unwrap();
        assert!(futures::FutureExt::now_or_never(lines.next(10)).is_none());
        writer.write_all(b"c\r\nd\n").await.unwrap();
        assert!(lines.next(10).await.unwrap());
        assert_eq!(lines.line(), b"abc");
        assert!(lines.next(10).await.unwrap());
        assert_eq!(lines.line(), b"d");
        writer.write_all(b"0123456789x").await.unwrap();
        assert!(lines.next(10).await.is_err());
    }
}
