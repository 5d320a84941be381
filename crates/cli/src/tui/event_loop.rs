//! The event loop of the chat: passes keys and events to the state machine, performs its effects and draws frames.
//!
//! Only this module accesses the terminal, the agent and files.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use provost_core::{Env, ErrorKind, Event, EventKind};
use ratatui::crossterm::event::{self, Event as TermEvent, MouseEventKind};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::app::{App, Effect, KeyAction, StatusInfo};
use super::terminal::Screen;
use super::theme::Theme;
use super::view::View;
use crate::chat::conversation::{AddedInput, History};
use crate::chat::line_mode::DETACHED_MAX;
use crate::chat::run_stream::RunStream;
use crate::chat::setup::Chat;
use crate::command::SHUTDOWN_TIMEOUT;
use crate::error::CliError;
use crate::signal::{Signal, Signals};

/// Minimum time between two frames of an active run.
const FRAME: Duration = Duration::from_millis(33);
/// Maximum number of events that are applied before the next frame.
const EVENTS_PER_FRAME_MAX: usize = 512;
/// Maximum number of keys that wait while a frame is drawn.
const PENDING_KEYS_MAX: usize = 256;
/// Time between two requests of an idle chat for runs of other clients.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Number of rows that one step of the mouse wheel scrolls.
const WHEEL_ROWS: isize = 3;

/// Options of the terminal interface.
pub(crate) struct ChatOptions {
    /// Styles.
    pub(crate) theme: Theme,
    /// True if the mouse wheel scrolls.
    pub(crate) has_mouse: bool,
    /// True if every tool call is approved automatically.
    pub(crate) approves_all: bool,
}

/// Reason why a chat ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExitReason {
    /// The user left.
    Quit,
    /// A signal ended the program.
    Terminated,
    /// The terminal was closed.
    TerminalClosed,
}

/// Handles keys, events of the run and signals until the user exits.
pub(crate) async fn run(mut chat: Chat, options: ChatOptions) -> Result<u8, CliError> {
    let history = chat.conversation.history().await?;
    let terminal = |error: std::io::Error| CliError::io("the terminal", &error);
    let mut signals = Signals::listen().map_err(terminal)?;
    let screen = Screen::open(options.has_mouse).map_err(terminal)?;
    let mut session = TuiSession::new(chat, options, screen);
    session.load_history(history).await;
    let end = session.run(&mut signals).await;
    let (chat, hint) = session.close(end.as_ref().copied().unwrap_or(ExitReason::Quit)).await;
    chat.close(if hint.is_some() { SHUTDOWN_TIMEOUT } else { Duration::ZERO }).await;
    if let Some(hint) = hint {
        writeln!(std::io::stderr(), "{hint}").ok();
    }
    match end.map_err(terminal)? {
        ExitReason::Quit => Ok(0),
        ExitReason::Terminated | ExitReason::TerminalClosed => Ok(ErrorKind::Cancelled.exit_code()),
    }
}

/// Reads terminal events on a separate thread, because reading blocks.
fn read_keys() -> mpsc::Receiver<TermEvent> {
    let (sender, receiver) = mpsc::channel(PENDING_KEYS_MAX);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Waits for the next event of the run. Never returns without a run.
async fn next_event(run: &mut Option<RunStream>) -> Result<Option<Event>, CliError> {
    match run {
        Some(run) => run.next().await,
        None => std::future::pending().await,
    }
}

/// State of a running chat.
struct TuiSession {
    app: App,
    view: View,
    screen: Screen,
    chat: Chat,
    run: Option<RunStream>,
    /// Messages that were added to the run, and that it may not have read yet.
    added: Vec<AddedInput>,
    started: Instant,
    /// True if the state changed since the last frame.
    is_stale: bool,
    has_quit: bool,
}

impl TuiSession {
    fn new(mut chat: Chat, options: ChatOptions, screen: Screen) -> Self {
        let tools = std::mem::take(&mut chat.tools);
        let status =
            StatusInfo { model: chat.name.clone(), tools, approves_all: options.approves_all };
        let version = env!("CARGO_PKG_VERSION");
        let welcome = format!(
            "**provost {version}** · `{}`: {}\n\nSession `{}`. Type a message, or `/help`.",
            chat.name,
            chat.reason,
            chat.conversation.name().unwrap_or_default()
        );
        Self {
            app: App::new(status, welcome),
            view: View::new(options.theme),
            screen,
            chat,
            run: None,
            added: Vec::new(),
            started: Instant::now(),
            is_stale: true,
            has_quit: false,
        }
    }

    /// Shows the stored messages and follows an unfinished run.
    async fn load_history(&mut self, history: History) {
        if !history.messages.is_empty() {
            self.act(KeyAction::History(history.messages)).await;
        }
        if let Some(run) = history.unfinished {
            self.run = Some(run);
            self.act(KeyAction::Follow).await;
        }
    }

    async fn run(&mut self, signals: &mut Signals) -> std::io::Result<ExitReason> {
        let mut keys = read_keys();
        let mut frames = interval(FRAME);
        frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut polls = interval(POLL_INTERVAL);
        polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.draw()?;
        while !self.has_quit {
            let is_running = self.run.is_some();
            tokio::select! {
                key = keys.recv() => match key {
                    Some(key) => {
                        self.terminal_event(key).await;
                        self.draw()?;
                    }
                    // The terminal was closed. The signal may arrive later.
                    None => return Ok(ExitReason::TerminalClosed),
                },
                signal = signals.next() => match signal {
                    Signal::Interrupt | Signal::Terminate => return Ok(ExitReason::Terminated),
                    Signal::HangUp => return Ok(ExitReason::TerminalClosed),
                },
                event = next_event(&mut self.run) => self.run_event(event).await,
                _ = frames.tick(), if is_running || self.is_stale => {
                    self.app.update(KeyAction::Tick(self.started.elapsed()));
                    self.draw()?;
                }
                _ = polls.tick(), if !is_running => self.poll_other_clients().await,
            }
        }
        Ok(ExitReason::Quit)
    }

    /// Follows a run that another client started in the same session.
    async fn poll_other_clients(&mut self) {
        // After an error, the next poll tries again.
        if let Ok(Some(run)) = self.chat.conversation.next_run().await {
            self.run = Some(run);
            self.act(KeyAction::Follow).await;
        }
    }

    /// Draws the screen.
    fn draw(&mut self) -> std::io::Result<()> {
        // The first frame may scroll to the selected entry, which requires a second frame.
        for _ in 0..2 {
            let mut metrics = Default::default();
            let (view, app) = (&mut self.view, &self.app);
            self.screen.terminal.draw(|frame| metrics = view.draw(frame, app))?;
            // An approval request counts as visible after the frame was drawn.
            self.app.update(KeyAction::Tick(self.started.elapsed()));
            let before = self.app.scroll;
            self.app.update(KeyAction::Drawn(metrics));
            if self.app.scroll == before {
                break;
            }
        }
        self.is_stale = false;
        Ok(())
    }

    /// Converts an event of the terminal to an action and applies it.
    async fn terminal_event(&mut self, event: TermEvent) {
        let action = match event {
            TermEvent::Key(key) => KeyAction::Key(key),
            TermEvent::Paste(text) => KeyAction::Paste(text),
            TermEvent::Mouse(mouse) => match mouse.kind {
                MouseEventKind::ScrollUp => KeyAction::Wheel(-WHEEL_ROWS),
                MouseEventKind::ScrollDown => KeyAction::Wheel(WHEEL_ROWS),
                _ => return,
            },
            TermEvent::Resize(..) | TermEvent::FocusGained | TermEvent::FocusLost => return,
        };
        self.act(action).await;
    }

    /// Applies an event of the run, and further events that have already arrived.
    async fn run_event(&mut self, first: Result<Option<Event>, CliError>) {
        let (mut next, mut applied) = match first {
            Ok(Some(first)) => (Some(first), 0),
            Ok(None) => {
                self.run = None;
                return self.act(KeyAction::RunEnded).await;
            }
            Err(problem) => {
                self.run = None;
                return self.act(KeyAction::NotStarted(String::new(), problem)).await;
            }
        };
        while let Some(event) = next {
            let is_last = event.kind.is_terminal();
            if is_last {
                self.run = None;
            }
            if let (EventKind::ApprovalNeeded { request }, Some(run)) = (&event.kind, &self.run)
                && run.wants_text(request.id)
            {
                self.act(KeyAction::AnswerIsText(request.id)).await;
            }
            self.act(KeyAction::Run(event.kind)).await;
            applied += 1;
            next = match &mut self.run {
                Some(run) if !is_last && applied < EVENTS_PER_FRAME_MAX => run.next_ready(),
                _ => None,
            };
        }
    }

    /// Applies an action and performs its effects, which can cause further actions.
    async fn act(&mut self, action: KeyAction) {
        self.is_stale = true;
        self.app.update(KeyAction::Tick(self.started.elapsed()));
        let mut actions = vec![action];
        while let Some(action) = actions.pop() {
            for effect in self.app.update(action) {
                actions.extend(self.perform(effect).await);
            }
        }
    }

    /// Performs an effect of the application, such as starting a run. Returns the resulting action, if any.
    async fn perform(&mut self, effect: Effect) -> Option<KeyAction> {
        let conversation = &mut self.chat.conversation;
        match effect {
            Effect::Start(text) => {
                self.added.clear();
                match conversation.start(&text).await {
                    Ok(run) => self.run = Some(run),
                    Err(problem) => return Some(KeyAction::NotStarted(text, problem)),
                }
            }
            Effect::ContinueRun(text) => match conversation.next_run().await {
                Ok(Some(run)) => self.run = Some(run),
                Ok(None) => return Some(KeyAction::InputNotDelivered(text)),
                Err(problem) => return Some(KeyAction::NotStarted(text, problem)),
            },
            Effect::Steer(text) => match conversation.steer(&text).await {
                Ok(input) => self.added.push(input),
                Err(problem) => return Some(KeyAction::Error(problem)),
            },
            Effect::Decide(id, decision) => {
                let decided = self.run.as_ref()?.decide(id, decision).await;
                return decided.err().map(KeyAction::Error);
            }
            Effect::Reply(id, text) => {
                let replied = self.run.as_ref()?.reply(id, text).await;
                return replied.err().map(KeyAction::Error);
            }
            Effect::Cancel => return self.cancel().await.err().map(KeyAction::Error),
            Effect::Detach => {
                self.run = None;
                return Some(KeyAction::Run(EventKind::Cancelled));
            }
            Effect::Model(name) => {
                return Some(match self.chat.agent.switch_model(conversation, &name).await {
                    Ok(name) => KeyAction::Model(name),
                    Err(problem) => KeyAction::Error(problem),
                });
            }
            Effect::Save(file, text) => return Some(save(file.as_deref(), &text)),
            Effect::StartConversation => {
                return Some(match conversation.reset().await {
                    Ok(()) => KeyAction::NewConversation,
                    Err(problem) => KeyAction::Error(problem),
                });
            }
            Effect::Redraw => self.screen.terminal.clear().ok()?,
            Effect::Quit => self.has_quit = true,
        }
        None
    }

    /// Cancels the run, and deletes the messages that it has not read so that they do not start another run.
    async fn cancel(&mut self) -> Result<(), CliError> {
        for input in self.added.drain(..) {
            self.chat.conversation.withdraw(input).await?;
        }
        match &self.run {
            Some(run) => run.cancel().await,
            None => Ok(()),
        }
    }

    /// Restores the terminal. If the terminal was closed, a run of this process continues to its end. Otherwise returns
    /// a hint with the command that continues the run.
    async fn close(self, end: ExitReason) -> (Chat, Option<String>) {
        let Self { screen, chat, mut run, .. } = self;
        drop(screen);
        let is_local = chat.conversation.is_local();
        if end == ExitReason::TerminalClosed
            && let Some(run) = &mut run
        {
            if is_local {
                tokio::time::timeout(DETACHED_MAX, finish(run)).await.ok();
            }
            return (chat, None);
        }
        let hint = run.map(|_| {
            let name = chat.conversation.name().unwrap_or_default();
            match is_local {
                true => {
                    format!("the run is not finished: `provost chat --session {name}` continues it")
                }
                false => format!(
                    "the run continues on the server: `provost chat --session {name}` shows it"
                ),
            }
        });
        (chat, hint)
    }
}

/// Follows a run until it ends or needs an approval.
async fn finish(run: &mut RunStream) {
    while let Ok(Some(event)) = run.next().await {
        if matches!(event.kind, EventKind::ApprovalNeeded { .. }) {
            return;
        }
    }
}

/// Writes the conversation to a new file.
fn save(file: Option<&str>, text: &str) -> KeyAction {
    let default = || {
        let now = Env::system().now().to_rfc3339();
        let stamp: String = now.chars().filter(char::is_ascii_digit).take(14).collect();
        format!("chat-{stamp}.md")
    };
    let name = file.map_or_else(default, str::to_owned);
    let written =
        File::create_new(Path::new(&name)).and_then(|mut file| file.write_all(text.as_bytes()));
    match written {
        Ok(()) => KeyAction::Notice(format!("saved to `{name}`")),
        Err(error) => KeyAction::Error(
            CliError::io(format!("{name} was not saved"), &error)
                .hint("use another name: /save NAME"),
        ),
    }
}
