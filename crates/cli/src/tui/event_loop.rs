//! The loop of the chat: keys and events in, effects and pictures out.
//!
//! The only part of the chat that touches the terminal, the agent and files.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use provost_core::{Env, ErrorKind, InputId};
use provost_host::agent::AgentSpec;
use provost_host::model::{self, ModelRequest, Models};
use ratatui::crossterm::event::{self, Event as TermEvent, MouseEventKind};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::app::{Action, App, Effect, Facts};
use super::terminal::Screen;
use super::theme::Theme;
use super::view::View;
use crate::boot::{Boot, Runtime};
use crate::chat::plain::ALONE_MAX;
use crate::chat::talk::{Past, Talk};
use crate::chat::turn::Turn;
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

/// What a chat starts with besides its agent.
pub(crate) struct Setting {
    /// What the command line asked for about the model.
    pub(crate) wanted: ModelRequest,
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
pub(crate) async fn run(mut boot: Boot, setting: Setting) -> Result<u8, Problem> {
    let past = boot.talk.past().await?;
    let terminal = |error: std::io::Error| Problem::io("the terminal", &error);
    let mut interrupt = Interrupt::listen().map_err(terminal)?;
    let screen = Screen::open(setting.has_mouse).map_err(terminal)?;
    let (mut desk, runtime) = Desk::new(boot, setting, screen);
    desk.take_up(past).await;
    let end = desk.work(&mut interrupt).await;
    let left = desk.close(end.as_ref().copied().unwrap_or(End::Quit)).await;
    runtime.close(if left.is_some() { LEAVE_PATIENCE } else { Duration::ZERO }).await;
    if let Some(left) = left {
        writeln!(std::io::stderr(), "{left}").ok();
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

async fn next_event(turn: &mut Option<Turn>) -> Result<Option<provost_core::Event>, Problem> {
    match turn {
        Some(turn) => turn.next().await,
        None => std::future::pending().await,
    }
}

struct Desk {
    app: App,
    view: View,
    screen: Screen,
    talk: Talk,
    spec: AgentSpec,
    models: Arc<Models>,
    wanted: ModelRequest,
    turn: Option<Turn>,
    /// What was said to the turn and may not have been read yet.
    said: Vec<InputId>,
    begun: Instant,
    /// True if the picture does not show the state.
    is_stale: bool,
    is_over: bool,
}

impl Desk {
    fn new(boot: Boot, setting: Setting, screen: Screen) -> (Self, Runtime) {
        let Boot { talk, choice, spec, models, tools, runtime } = boot;
        let facts = Facts { model: choice.name(), tools, is_yes: setting.is_yes };
        let version = env!("CARGO_PKG_VERSION");
        let session = talk.name().unwrap_or_default();
        let welcome = format!(
            "**provost {version}** · `{}`: {}\n\nSession `{session}`. Type a message, or `/help`.",
            choice.name(),
            choice.why
        );
        let desk = Self {
            app: App::new(facts, welcome),
            view: View::new(setting.theme),
            screen,
            talk,
            spec,
            models,
            wanted: setting.wanted,
            turn: None,
            said: Vec::new(),
            begun: Instant::now(),
            is_stale: true,
            is_over: false,
        };
        (desk, runtime)
    }

    /// Shows what was said before, and goes on with what is not finished.
    async fn take_up(&mut self, past: Past) {
        if !past.messages.is_empty() {
            self.act(Action::History(past.messages)).await;
        }
        if let Some(turn) = past.unfinished {
            self.turn = Some(turn);
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
            let is_alive = self.turn.is_some();
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
                event = next_event(&mut self.turn) => self.run_event(event).await,
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
        if let Ok(Some(turn)) = self.talk.next_turn().await {
            self.turn = Some(turn);
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
    async fn run_event(&mut self, first: Result<Option<provost_core::Event>, Problem>) {
        let (mut next, mut taken) = match first {
            Ok(Some(first)) => (Some(first), 0),
            Ok(None) => {
                self.turn = None;
                return self.act(Action::RunGone).await;
            }
            Err(problem) => {
                self.turn = None;
                return self.act(Action::NotStarted(String::new(), problem)).await;
            }
        };
        while let Some(event) = next {
            let is_last = event.kind.is_terminal();
            if is_last {
                self.turn = None;
            }
            self.act(Action::Run(event.kind)).await;
            taken += 1;
            next = match &mut self.turn {
                Some(turn) if !is_last && taken < EVENTS_PER_FRAME_MAX => turn.next_ready(),
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
        match effect {
            Effect::Start(text) => {
                self.said.clear();
                match self.talk.start(&text).await {
                    Ok(turn) => self.turn = Some(turn),
                    Err(problem) => return Some(Action::NotStarted(text, problem)),
                }
            }
            Effect::Next(text) => match self.talk.next_turn().await {
                Ok(Some(turn)) => self.turn = Some(turn),
                Ok(None) => return Some(Action::Unheard(text)),
                Err(problem) => return Some(Action::NotStarted(text, problem)),
            },
            Effect::Steer(text) => match self.talk.steer(&text).await {
                Ok(input) => self.said.push(input),
                Err(problem) => return Some(Action::Problem(problem)),
            },
            Effect::Decide(id, decision) => {
                let decided = self.turn.as_ref()?.decide(id, decision).await;
                return decided.err().map(Action::Problem);
            }
            Effect::Cancel => return self.cancel().await.err().map(Action::Problem),
            Effect::Abandon => {
                self.turn = None;
                return Some(Action::Run(provost_core::EventKind::Cancelled));
            }
            Effect::Model(name) => return Some(self.switch(&name).await),
            Effect::Save(file, text) => return Some(save(file.as_deref(), &text)),
            Effect::BeginAnew => {
                return Some(match self.talk.begin_anew().await {
                    Ok(()) => Action::Anew,
                    Err(problem) => Action::Problem(problem),
                });
            }
            Effect::Redraw => self.screen.terminal.clear().ok()?,
            Effect::Quit => self.is_over = true,
        }
        None
    }

    /// Stops the turn. What it has not read comes back into the box and must not begin another one.
    async fn cancel(&mut self) -> Result<(), Problem> {
        for input in self.said.drain(..) {
            self.talk.withdraw(input).await?;
        }
        match &self.turn {
            Some(turn) => turn.cancel().await,
            None => Ok(()),
        }
    }

    async fn switch(&mut self, name: &str) -> Action {
        let wanted = self.wanted.with_model(name);
        let chosen = model::choose(&wanted).and_then(|choice| {
            let spec = self.spec.clone().with_model(&choice, wanted.api_key_env);
            self.models.open(spec.model_request(), &choice)?;
            Ok((spec, choice))
        });
        let (spec, choice) = match chosen {
            Ok(chosen) => chosen,
            Err(problem) => return Action::Problem(problem.into()),
        };
        match self.talk.use_agent(&spec).await {
            Ok(()) => {
                self.spec = spec;
                Action::Model(choice.name())
            }
            Err(problem) => Action::Problem(problem),
        }
    }

    /// Gives the terminal back. A turn goes on alone if the terminal was closed; else it is left, and this says so.
    async fn close(self, end: End) -> Option<String> {
        let Self { screen, talk, mut turn, .. } = self;
        drop(screen);
        if end == End::Alone
            && let Some(turn) = &mut turn
        {
            tokio::time::timeout(ALONE_MAX, finish(turn)).await.ok();
            return None;
        }
        turn?;
        let name = talk.name().unwrap_or_default();
        Some(format!("the turn is not finished: `provost chat --session {name}` goes on with it"))
    }
}

/// Follows a turn until it ends or asks somebody.
async fn finish(turn: &mut Turn) {
    while let Ok(Some(event)) = turn.next().await {
        if matches!(event.kind, provost_core::EventKind::ApprovalNeeded { .. }) {
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
