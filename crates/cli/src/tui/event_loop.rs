//! The loop of the chat: keys and events in, effects and pictures out.
//!
//! The only part of the chat that touches the terminal, the agent and files.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use provost_core::{Env, ErrorKind};
use ratatui::crossterm::event::{self, Event as TermEvent, MouseEventKind};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::app::{Action, App, Effect, Facts};
use super::terminal::Screen;
use super::theme::Theme;
use super::view::View;
use crate::boot::{self, Boot};
use crate::discover::Wanted;
use crate::interrupt::Interrupt;
use crate::problem::Problem;
use crate::talk::{Talk, Turn};

/// How often a running turn is drawn at most.
const FRAME: Duration = Duration::from_millis(33);
/// Events that are taken before the next picture.
const EVENTS_PER_FRAME_MAX: usize = 512;
/// Keys that wait while a picture is drawn.
const KEYS_WAITING_MAX: usize = 256;
/// Rows one step of the wheel moves.
const WHEEL_ROWS: isize = 3;

/// What a chat starts with.
pub(crate) struct Chat {
    /// Agent, model and tools.
    pub(crate) boot: Boot,
    /// What the command line asked for about the model.
    pub(crate) wanted: Wanted,
    /// How long the demo model waits before each word.
    pub(crate) pace: Duration,
    /// Colours.
    pub(crate) theme: Theme,
    /// True if the wheel scrolls.
    pub(crate) has_mouse: bool,
    /// True if every call is allowed.
    pub(crate) is_yes: bool,
}

/// Runs the chat until the person leaves, or somebody ends the program; the number is the exit code.
pub(crate) async fn run(chat: Chat) -> Result<u8, Problem> {
    let history = chat.boot.talk.history().await?;
    let terminal = |error: std::io::Error| Problem::io("the terminal", &error);
    let mut interrupt = Interrupt::listen().map_err(terminal)?;
    let screen = Screen::open(chat.has_mouse).map_err(terminal)?;
    let mut keys = read_keys();
    let mut desk = Desk::new(chat, screen);
    if !history.is_empty() {
        desk.act(Action::History(history)).await;
    }
    let mut code = 0;
    let mut frames = interval(FRAME);
    frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
    desk.draw().map_err(terminal)?;
    while !desk.is_over {
        let is_alive = desk.turn.is_some();
        tokio::select! {
            key = keys.recv() => match key {
                Some(key) => {
                    desk.terminal_event(key).await;
                    desk.draw().map_err(terminal)?;
                }
                None => break,
            },
            () = interrupt.next() => {
                code = ErrorKind::Cancelled.exit_code();
                break;
            }
            event = next_event(&mut desk.turn) => desk.run_event(event).await,
            _ = frames.tick(), if is_alive || desk.is_stale => {
                desk.app.update(Action::Tick(desk.begun.elapsed()));
                desk.draw().map_err(terminal)?;
            }
        }
    }
    desk.close().await;
    Ok(code)
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

async fn next_event(turn: &mut Option<Turn>) -> Option<provost_core::Event> {
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
    wanted: Wanted,
    pace: Duration,
    turn: Option<Turn>,
    begun: Instant,
    /// True if the picture does not show the state.
    is_stale: bool,
    is_over: bool,
}

impl Desk {
    fn new(chat: Chat, screen: Screen) -> Self {
        let Boot { talk, choice, tools } = chat.boot;
        let facts = Facts { model: choice.name(), tools, is_yes: chat.is_yes };
        let version = env!("CARGO_PKG_VERSION");
        let welcome = format!(
            "**provost {version}** · `{}`: {}\n\nType a message, or `/help`.",
            choice.name(),
            choice.why
        );
        Self {
            app: App::new(facts, welcome),
            view: View::new(chat.theme),
            screen,
            talk,
            wanted: chat.wanted,
            pace: chat.pace,
            turn: None,
            begun: Instant::now(),
            is_stale: true,
            is_over: false,
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
    async fn run_event(&mut self, first: Option<provost_core::Event>) {
        if first.is_none() {
            self.turn = None;
            self.act(Action::RunGone).await;
        }
        let (mut next, mut taken) = (first, 0);
        while let Some(event) = next {
            if event.kind.is_terminal() {
                self.turn = None;
            }
            self.act(Action::Run(event.kind)).await;
            taken += 1;
            next = match &mut self.turn {
                Some(turn) if taken < EVENTS_PER_FRAME_MAX => turn.next_ready(),
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
            Effect::Start(text) => self.turn = Some(self.talk.start(&text)),
            Effect::Steer(text) => {
                let turn = self.turn.as_ref()?;
                return turn.steer(&text).err().map(Action::Problem);
            }
            Effect::Decide(id, decision) => self.turn.as_ref()?.decide(id, decision),
            Effect::Cancel => self.turn.as_ref()?.cancel(),
            Effect::Abandon => {
                self.turn = None;
                return Some(Action::Run(provost_core::EventKind::Cancelled));
            }
            Effect::Model(name) => return Some(self.switch(&name)),
            Effect::Save(file, text) => return Some(save(file.as_deref(), &text)),
            Effect::Forget => {
                return Some(match self.talk.forget().await {
                    Ok(()) => Action::Notice("the conversation is forgotten".to_owned()),
                    Err(problem) => Action::Problem(problem),
                });
            }
            Effect::Redraw => self.screen.terminal.clear().ok()?,
            Effect::Quit => self.is_over = true,
        }
        None
    }

    fn switch(&mut self, name: &str) -> Action {
        let wanted = self.wanted.with_model(name);
        let opened = boot::choose(&wanted)
            .and_then(|choice| Ok((boot::open_model(&choice, self.pace)?, choice)));
        match opened {
            Ok((model, choice)) => {
                self.talk.use_model(model);
                Action::Model(choice.name())
            }
            Err(problem) => Action::Problem(problem),
        }
    }

    /// Lets a running turn end in order, so that what was said is kept.
    async fn close(self) {
        drop(self.screen);
        if let Some(turn) = self.turn {
            turn.end().await;
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
