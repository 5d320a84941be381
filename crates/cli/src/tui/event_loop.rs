//! The loop of the chat: keys and events in, effects and pictures out.
//!
//! The only part of the chat that touches the terminal, the agent and files.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use provost_core::{Env, ErrorKind, Event, EventKind};
use ratatui::crossterm::event::{self, Event as TermEvent, MouseEventKind};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::app::{Action, App, Effect, Facts};
use super::terminal::Screen;
use super::theme::Theme;
use super::view::View;
use crate::chat::conversation::{AddedInput, History};
use crate::chat::plain::DETACHED_MAX;
use crate::chat::run_stream::RunStream;
use crate::chat::setup::Chat;
use crate::command::LEAVE_PATIENCE;
use crate::interrupt::{Interrupt, Signal};
use crate::problem::Problem;

/// How often a running turn is drawn at most.
const FRAME: Duration = Duration::from_millis(33);
/// Events that are taken before the next picture.
const EVENTS_PER_FRAME_MAX: usize = 512;
/// Keys that wait while a picture is drawn.
const KEYS_WAITING_MAX: usize = 256;
/// How often an idle chat looks for what another terminal said.
const NEWS: Duration = Duration::from_secs(1);
/// Rows one step of the wheel moves.
const WHEEL_ROWS: isize = 3;

/// How a chat looks and asks.
pub(crate) struct ChatOptions {
    /// Colours.
    pub(crate) theme: Theme,
    /// True if the wheel scrolls.
    pub(crate) has_mouse: bool,
    /// True if every call is allowed.
    pub(crate) is_yes: bool,
}

/// Why a chat ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The person leaves.
    Quit,
    /// Somebody ends the program.
    Told,
    /// The terminal was closed.
    Alone,
}

/// Runs the chat until the person leaves, or somebody ends the program; the number is the exit code.
pub(crate) async fn run(mut chat: Chat, options: ChatOptions) -> Result<u8, Problem> {
    let history = chat.conversation.history().await?;
    let terminal = |error: std::io::Error| Problem::io("the terminal", &error);
    let mut interrupt = Interrupt::listen().map_err(terminal)?;
    let screen = Screen::open(options.has_mouse).map_err(terminal)?;
    let mut session = TuiSession::new(chat, options, screen);
    session.load_history(history).await;
    let end = session.work(&mut interrupt).await;
    let (chat, hint) = session.close(end.as_ref().copied().unwrap_or(End::Quit)).await;
    chat.close(if hint.is_some() { LEAVE_PATIENCE } else { Duration::ZERO }).await;
    if let Some(hint) = hint {
        writeln!(std::io::stderr(), "{hint}").ok();
    }
    match end.map_err(terminal)? {
        End::Quit => Ok(0),
        End::Told | End::Alone => Ok(ErrorKind::Cancelled.exit_code()),
    }
}

/// Reads the terminal on a thread of its own: reading it blocks.
fn read_keys() -> mpsc::Receiver<TermEvent> {
    let (sender, receiver) = mpsc::channel(KEYS_WAITING_MAX);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    });
    receiver
}

async fn next_event(run: &mut Option<RunStream>) -> Result<Option<Event>, Problem> {
    match run {
        Some(run) => run.next().await,
        None => std::future::pending().await,
    }
}

struct TuiSession {
    app: App,
    view: View,
    screen: Screen,
    chat: Chat,
    run: Option<RunStream>,
    /// Messages that were added to the run, which may not have read them yet.
    added: Vec<AddedInput>,
    begun: Instant,
    /// True if the picture does not show the state.
    is_stale: bool,
    is_over: bool,
}

impl TuiSession {
    fn new(mut chat: Chat, options: ChatOptions, screen: Screen) -> Self {
        let tools = std::mem::take(&mut chat.tools);
        let facts = Facts { model: chat.name.clone(), tools, is_yes: options.is_yes };
        let version = env!("CARGO_PKG_VERSION");
        let welcome = format!(
            "**provost {version}** · `{}`: {}\n\nSession `{}`. Type a message, or `/help`.",
            chat.name,
            chat.reason,
            chat.conversation.name().unwrap_or_default()
        );
        Self {
            app: App::new(facts, welcome),
            view: View::new(options.theme),
            screen,
            chat,
            run: None,
            added: Vec::new(),
            begun: Instant::now(),
            is_stale: true,
            is_over: false,
        }
    }

    /// Shows what was said before, and follows the run that is not finished.
    async fn load_history(&mut self, history: History) {
        if !history.messages.is_empty() {
            self.act(Action::History(history.messages)).await;
        }
        if let Some(run) = history.unfinished {
            self.run = Some(run);
            self.act(Action::Follow).await;
        }
    }

    async fn work(&mut self, interrupt: &mut Interrupt) -> std::io::Result<End> {
        let mut keys = read_keys();
        let mut frames = interval(FRAME);
        frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut news = interval(NEWS);
        news.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.draw()?;
        while !self.is_over {
            let is_alive = self.run.is_some();
            tokio::select! {
                key = keys.recv() => match key {
                    Some(key) => {
                        self.terminal_event(key).await;
                        self.draw()?;
                    }
                    // The terminal is gone; its signal may be on its way.
                    None => return Ok(End::Alone),
                },
                signal = interrupt.next() => match signal {
                    Signal::Stop | Signal::End => return Ok(End::Told),
                    Signal::HangUp => return Ok(End::Alone),
                },
                event = next_event(&mut self.run) => self.run_event(event).await,
                _ = frames.tick(), if is_alive || self.is_stale => {
                    self.app.update(Action::Tick(self.begun.elapsed()));
                    self.draw()?;
                }
                _ = news.tick(), if !is_alive => self.look_for_news().await,
            }
        }
        Ok(End::Quit)
    }

    /// What another terminal says in the same session is shown here, too.
    async fn look_for_news(&mut self) {
        // What cannot be read now is looked for again.
        if let Ok(Some(run)) = self.chat.conversation.next_run().await {
            self.run = Some(run);
            self.act(Action::Follow).await;
        }
    }

    fn draw(&mut self) -> std::io::Result<()> {
        // Drawing may move the picture to the marked entry, which takes a second one.
        for _ in 0..2 {
            let mut metrics = Default::default();
            let (view, app) = (&mut self.view, &self.app);
            self.screen.terminal.draw(|frame| metrics = view.draw(frame, app))?;
            // A question counts as asked from now on, however long drawing it took.
            self.app.update(Action::Tick(self.begun.elapsed()));
            let before = self.app.scroll;
            self.app.update(Action::Drawn(metrics));
            if self.app.scroll == before {
                break;
            }
        }
        self.is_stale = false;
        Ok(())
    }

    async fn terminal_event(&mut self, event: TermEvent) {
        let action = match event {
            TermEvent::Key(key) => Action::Key(key),
            TermEvent::Paste(text) => Action::Paste(text),
            TermEvent::Mouse(mouse) => match mouse.kind {
                MouseEventKind::ScrollUp => Action::Wheel(-WHEEL_ROWS),
                MouseEventKind::ScrollDown => Action::Wheel(WHEEL_ROWS),
                _ => return,
            },
            TermEvent::Resize(..) | TermEvent::FocusGained | TermEvent::FocusLost => return,
        };
        self.act(action).await;
    }

    /// Takes an event of the run and those that are there already.
    async fn run_event(&mut self, first: Result<Option<Event>, Problem>) {
        let (mut next, mut taken) = match first {
            Ok(Some(first)) => (Some(first), 0),
            Ok(None) => {
                self.run = None;
                return self.act(Action::RunGone).await;
            }
            Err(problem) => {
                self.run = None;
                return self.act(Action::NotStarted(String::new(), problem)).await;
            }
        };
        while let Some(event) = next {
            let is_last = event.kind.is_terminal();
            if is_last {
                self.run = None;
            }
            if let (EventKind::ApprovalNeeded { request }, Some(run)) = (&event.kind, &self.run)
                && run.wants_words(request.id)
            {
                self.act(Action::WantsWords(request.id)).await;
            }
            self.act(Action::Run(event.kind)).await;
            taken += 1;
            next = match &mut self.run {
                Some(run) if !is_last && taken < EVENTS_PER_FRAME_MAX => run.next_ready(),
                _ => None,
            };
        }
    }

    /// Updates the state and does what follows from it, which may update it again.
    async fn act(&mut self, action: Action) {
        self.is_stale = true;
        self.app.update(Action::Tick(self.begun.elapsed()));
        let mut actions = vec![action];
        while let Some(action) = actions.pop() {
            for effect in self.app.update(action) {
                actions.extend(self.perform(effect).await);
            }
        }
    }

    async fn perform(&mut self, effect: Effect) -> Option<Action> {
        let conversation = &mut self.chat.conversation;
        match effect {
            Effect::Start(text) => {
                self.added.clear();
                match conversation.start(&text).await {
                    Ok(run) => self.run = Some(run),
                    Err(problem) => return Some(Action::NotStarted(text, problem)),
                }
            }
            Effect::Next(text) => match conversation.next_run().await {
                Ok(Some(run)) => self.run = Some(run),
                Ok(None) => return Some(Action::Unheard(text)),
                Err(problem) => return Some(Action::NotStarted(text, problem)),
            },
            Effect::Steer(text) => match conversation.steer(&text).await {
                Ok(input) => self.added.push(input),
                Err(problem) => return Some(Action::Problem(problem)),
            },
            Effect::Decide(id, decision) => {
                let decided = self.run.as_ref()?.decide(id, decision).await;
                return decided.err().map(Action::Problem);
            }
            Effect::Reply(id, text) => {
                let replied = self.run.as_ref()?.reply(id, text).await;
                return replied.err().map(Action::Problem);
            }
            Effect::Cancel => return self.cancel().await.err().map(Action::Problem),
            Effect::Abandon => {
                self.run = None;
                return Some(Action::Run(EventKind::Cancelled));
            }
            Effect::Model(name) => {
                return Some(match self.chat.agent.switch_model(conversation, &name).await {
                    Ok(name) => Action::Model(name),
                    Err(problem) => Action::Problem(problem),
                });
            }
            Effect::Save(file, text) => return Some(save(file.as_deref(), &text)),
            Effect::BeginAnew => {
                return Some(match conversation.reset().await {
                    Ok(()) => Action::Anew,
                    Err(problem) => Action::Problem(problem),
                });
            }
            Effect::Redraw => self.screen.terminal.clear().ok()?,
            Effect::Quit => self.is_over = true,
        }
        None
    }

    /// Stops the run. What it has not read comes back into the box and must not begin another one.
    async fn cancel(&mut self) -> Result<(), Problem> {
        for input in self.added.drain(..) {
            self.chat.conversation.withdraw(input).await?;
        }
        match &self.run {
            Some(run) => run.cancel().await,
            None => Ok(()),
        }
    }

    /// Gives the terminal back. After the terminal was closed, a run in this process continues to its end; else it is left,
    /// and the hint says how to come back.
    async fn close(self, end: End) -> (Chat, Option<String>) {
        let Self { screen, chat, mut run, .. } = self;
        drop(screen);
        let is_local = chat.conversation.is_local();
        if end == End::Alone
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
                true => format!(
                    "the turn is not finished: `provost chat --session {name}` goes on with it"
                ),
                false => format!(
                    "the run continues on the server: `provost chat --session {name}` shows it"
                ),
            }
        });
        (chat, hint)
    }
}

/// Follows a run until it ends or asks somebody.
async fn finish(run: &mut RunStream) {
    while let Ok(Some(event)) = run.next().await {
        if matches!(event.kind, EventKind::ApprovalNeeded { .. }) {
            return;
        }
    }
}

/// Writes the conversation to a new file.
fn save(file: Option<&str>, text: &str) -> Action {
    let default = || {
        let now = Env::system().now().to_rfc3339();
        let stamp: String = now.chars().filter(char::is_ascii_digit).take(14).collect();
        format!("chat-{stamp}.md")
    };
    let name = file.map_or_else(default, str::to_owned);
    let written =
        File::create_new(Path::new(&name)).and_then(|mut file| file.write_all(text.as_bytes()));
    match written {
        Ok(()) => Action::Notice(format!("saved to `{name}`")),
        Err(error) => Action::Problem(
            Problem::io(format!("{name} was not saved"), &error).help("try /save OTHER-NAME"),
        ),
    }
}
