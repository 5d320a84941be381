//! A server that is a program: its pipes, what it says last, and its end.

mod process_group;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use provost_redact::RedactStream;
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::connection::monitor::{Wire, locked};
use crate::limits::{
    EXIT_GRACE, MESSAGE_BYTES_MAX, NOISE_LINES_MAX, SIGNAL_GRACE, STDERR_BYTES_MAX, WRITE_TIMEOUT,
};
use crate::server::Stdio;
use crate::transport::launcher::{Ending, Life, Start, StartError};

/// What a program gets of our own environment.
const INHERITED: [&str; 3] = ["PATH", "HOME", "LANG"];
/// Bytes of a line buffer that are kept for the next line.
const LINE_KEPT_BYTES: usize = 256 * 1024;
/// How long the last words of a program that ended are waited for.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_millis(200);
/// How often it is looked whether a program has ended.
const EXIT_POLL: Duration = Duration::from_millis(5);

/// A running program with everything that it has started.
pub(crate) struct Process {
    life: Box<dyn Life>,
    input: Arc<tokio::sync::Mutex<Option<ChildStdin>>>,
    words: Arc<Words>,
}

/// The end of what a program wrote to its standard error.
#[derive(Default)]
struct Words {
    tail: Mutex<Vec<u8>>,
    whole: CancellationToken,
}

/// Starts a program: here, or wherever its definition says.
pub(crate) async fn start(
    stdio: &Stdio,
    wire: Arc<Wire>,
    redact: Option<RedactStream>,
) -> Result<(Arc<Process>, Pipes), StartError> {
    let started = match &stdio.by {
        Some(by) => by.0.start(stdio.program()).await?,
        None => process_group::start(stdio.own_command())?,
    };
    let words = Arc::new(Words::default());
    tokio::spawn(listen(started.errors, Arc::clone(&words), redact));
    let input = Arc::new(tokio::sync::Mutex::new(Some(started.input)));
    let process = Process { life: started.life, input: Arc::clone(&input), words };
    Ok((Arc::new(process), Pipes { lines: Lines::new(started.output), input, noise: 0, wire }))
}

impl Stdio {
    /// What somebody else starts. Nothing of our own environment is in it.
    fn program(&self) -> Start {
        let settings = self.settings.iter().cloned();
        let secrets = self.env.iter().map(|(name, value)| (name.clone(), value.expose().clone()));
        let env = settings.chain(secrets).collect();
        Start { command: self.command.clone(), args: self.args.clone(), env }
    }

    fn own_command(&self) -> Command {
        let Start { command, args, env } = self.program();
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
        let mut words = match self.life.ended() {
            Some(Ending::Code(code)) => format!("; it ended with code {code}"),
            Some(Ending::Signal) => "; it was ended by a signal".to_owned(),
            Some(Ending::Unknown) => "; it ended".to_owned(),
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

    /// True once the program itself has ended, whatever it has left behind.
    pub(crate) fn has_ended(&self) -> bool {
        self.life.ended().is_some()
    }

    /// Kills everything now, without waiting.
    pub(crate) fn kill(&self) {
        self.life.kill();
    }

    async fn ended_within(&self, grace: Duration) -> bool {
        let ended = async {
            while !self.has_ended() {
                tokio::time::sleep(EXIT_POLL).await;
            }
        };
        timeout(grace, ended).await.is_ok()
    }

    /// Ends the program: politely, then not. Afterwards nothing that it has started is left.
    pub(crate) async fn end(&self) {
        // A writer that is stuck holds the pipe; the program is killed all the same.
        if let Ok(mut input) = self.input.try_lock() {
            input.take();
        }
        if !self.ended_within(EXIT_GRACE).await {
            self.life.ask();
            self.ended_within(SIGNAL_GRACE).await;
        }
        self.life.end().await;
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
