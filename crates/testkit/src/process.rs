//! A real process under test: its output, its signals, its end.
//!
//! Nothing here sleeps: threads wait for lines and for changes of state, a timeout only ends a wait that would last
//! for ever. Waits use tokio's clock, which must not be paused.

#[cfg(target_os = "linux")]
mod family;
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

/// How long a signal may take to have its effect.
const SIGNAL_PATIENCE: Duration = Duration::from_secs(30);

/// The environment variable by which processes that were started by a process under test are found.
const MARK_VARIABLE: &str = "PROVOST_TESTKIT_PROCESS";

/// A process that was started for a test.
///
/// It leads a process group of its own. Dropping it kills the group and all its descendants and waits for its end.
pub struct Process {
    name: String,
    mark: String,
    id: Pid,
    child: Child,
    stdin: Option<ChildStdin>,
    output: Sender<Output>,
    state: Sender<State>,
    watcher: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts a program without input; what the command says of its input, output and process group is replaced.
    pub fn start(command: Command) -> Result<Self, ProcessError> {
        Self::spawn(command, Stdio::null())
    }

    /// Starts a program whose input is written by [`send`](Self::send).
    pub fn start_with_input(command: Command) -> Result<Self, ProcessError> {
        Self::spawn(command, Stdio::piped())
    }

    fn spawn(mut command: Command, stdin: Stdio) -> Result<Self, ProcessError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = command.get_program().to_string_lossy().into_owned();
        let mark = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        command.env(MARK_VARIABLE, &mark).process_group(0);
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = command.spawn();
        let mut child =
            started.map_err(|e| ProcessError { what: format!("{name}: {e}"), said: None })?;
        let output = Sender::new(Output::default());
        watch::read(child.stdout.take(), Stream::Out, &output);
        watch::read(child.stderr.take(), Stream::Err, &output);
        let id = Pid::from_child(&child);
        let state = Sender::new(State::Running);
        let watcher = Some(watch::follow(id, state.clone()));
        Ok(Self { name, mark, id, stdin: child.stdin.take(), child, output, state, watcher })
    }

    /// Its id, which stays its own until it is dropped.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// All lines so far.
    pub fn lines(&self) -> Vec<String> {
        self.output.borrow().lines.iter().map(|(_, line)| line.clone()).collect()
    }

    /// The lines of one stream so far.
    pub fn lines_of(&self, stream: Stream) -> Vec<String> {
        let output = self.output.borrow();
        let lines = output.lines.iter().filter(|(from, _)| *from == stream);
        lines.map(|(_, line)| line.clone()).collect()
    }

    /// Waits for a line that contains a text, and gives it back; lines that were printed before count too.
    ///
    /// A line is seen when it is complete, or when the program has closed its output.
    pub async fn wait_for_line(&self, text: &str, wait: Duration) -> Result<String, ProcessError> {
        let mut lines = self.wait_for_lines(text, 1, wait).await?;
        Ok(lines.swap_remove(0))
    }

    /// Waits for so many lines that contain a text.
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

    /// Waits until it ends by itself.
    pub async fn wait(&self, wait: Duration) -> Result<ExitStatus, ProcessError> {
        self.wait_for_state(wait, "no end", |state| match state {
            State::Ended(status) => Some(status),
            _ => None,
        })
        .await
    }

    /// Waits until it is frozen, by itself or by another.
    pub async fn wait_until_frozen(&self, wait: Duration) -> Result<(), ProcessError> {
        self.wait_for_state(wait, "not frozen", |state| (state == State::Frozen).then_some(()))
            .await
    }

    /// Kills it as `kill -9` does, and waits until it is dead; what it has started lives on.
    pub async fn kill(&self) -> Result<ExitStatus, ProcessError> {
        self.signal(Signal::KILL)?;
        self.wait(SIGNAL_PATIENCE).await
    }

    /// Stops it in the middle of whatever it does, and waits until it stands still.
    pub async fn freeze(&self) -> Result<(), ProcessError> {
        self.signal(Signal::STOP)?;
        self.wait_until_frozen(SIGNAL_PATIENCE).await
    }

    /// Lets it go on after it was frozen.
    pub fn thaw(&self) -> Result<(), ProcessError> {
        // Written before the signal: if it freezes itself again at once, that is seen as a new state.
        self.state.send_if_modified(|state| {
            let is_frozen = *state == State::Frozen;
            if is_frozen {
                *state = State::Running;
            }
            is_frozen
        });
        self.signal(Signal::CONT)
    }

    /// Asks it to end (SIGTERM).
    pub fn terminate(&self) -> Result<(), ProcessError> {
        self.signal(Signal::TERM)
    }

    /// Interrupts it as Ctrl-C does (SIGINT).
    pub fn interrupt(&self) -> Result<(), ProcessError> {
        self.signal(Signal::INT)
    }

    /// Tells it that its terminal was closed (SIGHUP).
    pub fn hang_up(&self) -> Result<(), ProcessError> {
        self.signal(Signal::HUP)
    }

    /// Writes to its input.
    pub fn send(&mut self, text: &str) -> Result<(), ProcessError> {
        let Some(stdin) = &mut self.stdin else {
            return Err(self.error("has no open input; start it with start_with_input".to_owned()));
        };
        let sent = stdin.write_all(text.as_bytes());
        sent.map_err(|e| self.error(format!("does not read its input: {e}")))
    }

    /// Closes its input.
    pub fn close_input(&mut self) {
        self.stdin = None;
    }

    /// An id that ended is not given to another process before the drop, so the signal cannot go astray.
    fn signal(&self, signal: Signal) -> Result<(), ProcessError> {
        let sent = kill_process(self.id, signal);
        sent.map_err(|e| self.error(format!("signal {}: {e}", signal.as_raw())))
    }

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

    fn error(&self, what: String) -> ProcessError {
        let said = Some(self.output.borrow().to_string());
        ProcessError { what: format!("{} ({}): {what}", self.name, self.id()), said }
    }
}

/// Waits until a value is decided and gives it back; none if that takes too long.
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
        // The leader was not waited for yet, so its id and that of the group still belong to it.
        let _group_gone = kill_process_group(self.id, Signal::KILL).is_err();
        #[cfg(target_os = "linux")]
        family::kill(self.id, &self.mark);
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

/// What went wrong with a process, together with all it has said.
pub struct ProcessError {
    what: String,
    said: Option<String>,
}

impl fmt::Display for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.said {
            Some(said) => write!(f, "; it said so far:\n{said}"),
            None => Ok(()),
        }
    }
}

/// The same as its text, so that `unwrap` shows lines and not escapes.
impl fmt::Debug for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ProcessError {}
