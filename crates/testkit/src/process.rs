//! A real process under test: its output, signals and exit.
//!
//! Nothing polls: threads wait for lines and state changes. A timeout only ends a wait that would never end. Waits use
//! tokio's clock, which must not be paused.

#[cfg(target_os = "linux")]
mod descendants;
mod watch;

use std::fmt;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::sync::watch::{Receiver, Sender};

pub use watch::Stream;
use watch::{Output, State};

/// Maximum time until a signal takes effect.
const SIGNAL_TIMEOUT: Duration = Duration::from_secs(30);

/// Environment variable that identifies the descendants of a process under test.
const TAG_VARIABLE: &str = "PROVOST_TESTKIT_PROCESS";

/// A process that a test has started.
///
/// It leads its own process group. Dropping it kills the group and all descendants and waits for the exit.
pub struct Process {
    name: String,
    tag: String,
    id: Pid,
    child: Child,
    stdin: Option<ChildStdin>,
    output: Sender<Output>,
    state: Sender<State>,
    watcher: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts a program with a closed input. Replaces the input, output and process group of the command.
    pub fn start(command: Command) -> Result<Self, ProcessError> {
        Self::spawn(command, Stdio::null())
    }

    /// Starts a program with an open input, which [`send`](Self::send) writes. Replaces the input, output and process
    /// group of the command.
    pub fn start_with_input(command: Command) -> Result<Self, ProcessError> {
        Self::spawn(command, Stdio::piped())
    }

    fn spawn(mut command: Command, stdin: Stdio) -> Result<Self, ProcessError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = command.get_program().to_string_lossy().into_owned();
        let tag = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        command.env(TAG_VARIABLE, &tag).process_group(0);
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = command.spawn();
        let mut child =
            started.map_err(|e| ProcessError { what: format!("{name}: {e}"), output: None })?;
        let output = Sender::new(Output::default());
        watch::spawn_reader(child.stdout.take(), Stream::Out, &output);
        watch::spawn_reader(child.stderr.take(), Stream::Err, &output);
        let id = Pid::from_child(&child);
        let state = Sender::new(State::Running);
        let watcher = Some(watch::spawn_watcher(id, state.clone()));
        Ok(Self { name, tag, id, stdin: child.stdin.take(), child, output, state, watcher })
    }

    /// Returns the process id. The system does not reuse it before the drop.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns all complete lines that the process has written so far to both streams.
    pub fn lines(&self) -> Vec<String> {
        self.output.borrow().lines.iter().map(|(_, line)| line.clone()).collect()
    }

    /// Returns the lines of one stream so far.
    pub fn lines_of(&self, stream: Stream) -> Vec<String> {
        let output = self.output.borrow();
        let lines = output.lines.iter().filter(|(from, _)| *from == stream);
        lines.map(|(_, line)| line.clone()).collect()
    }

    /// Waits for a line that contains a text, and returns it. Earlier lines count too.
    ///
    /// A line is visible when it is complete, or when the program has closed its output.
    pub async fn wait_for_line(&self, text: &str, wait: Duration) -> Result<String, ProcessError> {
        let mut lines = self.wait_for_lines(text, 1, wait).await?;
        Ok(lines.swap_remove(0))
    }

    /// Waits for `count` lines that contain a text, and returns them. Returns an error after the timeout.
    pub async fn wait_for_lines(
        &self,
        text: &str,
        count: usize,
        wait: Duration,
    ) -> Result<Vec<String>, ProcessError> {
        let count = count.max(1);
        let find = |output: &Output| {
            let lines = output.lines.iter().map(|(_, line)| line);
            lines.filter(|line| line.contains(text)).take(count).cloned().collect::<Vec<_>>()
        };
        let is_decided = |output: &Output| output.is_closed() || find(output).len() == count;
        let found = await_value(self.output.subscribe(), is_decided, wait).await;
        let found = found.map(|output| find(&output));
        match found {
            Some(lines) if lines.len() == count => Ok(lines),
            Some(_) => Err(self.error(format!("closed its output without the line {text:?}"))),
            None => Err(self.error(format!("no line {text:?} within {wait:?}"))),
        }
    }

    /// Waits until the process exits, and returns its status. Returns an error after the timeout.
    pub async fn wait(&self, wait: Duration) -> Result<ExitStatus, ProcessError> {
        self.wait_for_state(wait, "no end", |state| match state {
            State::Ended(status) => Some(status),
            _ => None,
        })
        .await
    }

    /// Waits until the process is frozen, by itself or by another process. Returns an error if it exits, or after the
    /// timeout.
    pub async fn wait_until_frozen(&self, wait: Duration) -> Result<(), ProcessError> {
        self.wait_for_state(wait, "not frozen", |state| (state == State::Frozen).then_some(()))
            .await
    }

    /// Kills the process like `kill -9`, and waits for its exit. Its descendants continue.
    pub async fn kill(&self) -> Result<ExitStatus, ProcessError> {
        self.send_signal(Signal::KILL)?;
        self.wait(SIGNAL_TIMEOUT).await
    }

    /// Stops the process with SIGSTOP, and waits until it has stopped.
    pub async fn freeze(&self) -> Result<(), ProcessError> {
        self.send_signal(Signal::STOP)?;
        self.wait_until_frozen(SIGNAL_TIMEOUT).await
    }

    /// Continues a frozen process with SIGCONT.
    pub fn thaw(&self) -> Result<(), ProcessError> {
        // Set before the signal, so that an immediate second freeze is visible as a new state.
        self.state.send_if_modified(|state| {
            let is_frozen = *state == State::Frozen;
            if is_frozen {
                *state = State::Running;
            }
            is_frozen
        });
        self.send_signal(Signal::CONT)
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) -> Result<(), ProcessError> {
        self.send_signal(Signal::TERM)
    }

    /// Sends SIGINT, like Ctrl-C.
    pub fn interrupt(&self) -> Result<(), ProcessError> {
        self.send_signal(Signal::INT)
    }

    /// Sends SIGHUP, like a closed terminal.
    pub fn hang_up(&self) -> Result<(), ProcessError> {
        self.send_signal(Signal::HUP)
    }

    /// Writes text to the input of the process.
    pub fn send(&mut self, text: &str) -> Result<(), ProcessError> {
        let Some(stdin) = &mut self.stdin else {
            return Err(self.error("has no open input; start it with start_with_input".to_owned()));
        };
        let sent = stdin.write_all(text.as_bytes());
        sent.map_err(|e| self.error(format!("does not read its input: {e}")))
    }

    /// Closes the input of the process, if it is open.
    pub fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Sends a signal to the process. The system does not reuse the id before the drop, so the signal cannot reach
    /// another process.
    fn send_signal(&self, signal: Signal) -> Result<(), ProcessError> {
        let sent = kill_process(self.id, signal);
        sent.map_err(|e| self.error(format!("signal {}: {e}", signal.as_raw())))
    }

    /// Waits until `wanted` returns a value for the state. Returns an error that starts with `missing` if the process
    /// exits first, or after the timeout.
    async fn wait_for_state<T>(
        &self,
        wait: Duration,
        missing: &str,
        wanted: impl Fn(State) -> Option<T>,
    ) -> Result<T, ProcessError> {
        let is_decided =
            |state: &State| matches!(state, State::Ended(_)) || wanted(*state).is_some();
        match await_value(self.state.subscribe(), is_decided, wait).await {
            Some(state) => {
                wanted(state).ok_or_else(|| self.error(format!("{missing}, it has ended: {state}")))
            }
            None => Err(self.error(format!("{missing} within {wait:?}"))),
        }
    }

    /// Creates an error with the name, the id and the output of the process.
    fn error(&self, what: String) -> ProcessError {
        let output = Some(self.output.borrow().to_string());
        ProcessError { what: format!("{} ({}): {what}", self.name, self.id()), output }
    }
}

/// Waits until `is_decided` accepts the value, and returns it. `None` after the timeout, or if the sender is dropped.
async fn await_value<T: Clone>(
    mut values: Receiver<T>,
    is_decided: impl Fn(&T) -> bool,
    wait: Duration,
) -> Option<T> {
    let decided = values.wait_for(|value| is_decided(value));
    let decided = tokio::time::timeout(wait, decided).await.ok()?;
    decided.ok().map(|value| value.clone())
}

impl Drop for Process {
    fn drop(&mut self) {
        // The leader was not reaped yet, so its id and the id of the group are still valid.
        let _group_gone = kill_process_group(self.id, Signal::KILL).is_err();
        #[cfg(target_os = "linux")]
        descendants::kill(self.id, &self.tag);
        let _watcher_panicked = self.watcher.take().is_some_and(|watcher| watcher.join().is_err());
        let _not_ours = self.child.wait().is_err();
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = *self.state.borrow();
        write!(f, "{} ({}), {state}\n{}", self.name, self.id(), *self.output.borrow())
    }
}

/// Error of a process, with its output.
pub struct ProcessError {
    what: String,
    output: Option<String>,
}

impl fmt::Display for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.output {
            Some(output) => write!(f, "; it said so far:\n{output}"),
            None => Ok(()),
        }
    }
}

/// Formats like `Display`, so that `unwrap` prints lines without escapes.
impl fmt::Debug for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ProcessError {}
