//! `provost top`: everything at one glance, live.
//!
//! [`board`] is what is known and how it looks; here is the loop that asks, reads keys and draws.

mod board;

use std::time::Duration;

use provost_api::{
    ApiError, ApprovalList, Client, EventStream, Page, Paging, RunList, StreamItem, Watch,
};
use provost_core::lifecycle::RunStatus;
use provost_core::{Env, ErrorKind};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use tokio::sync::mpsc;

use self::board::Board;
use super::ApiCommand;
use crate::interrupt::Interrupt;
use crate::problem::Problem;
use crate::remote::{Connection, ConnectionArgs};
use crate::render::show::{Format, Show};
use crate::tui::{Screen, Theme};

/// How long until everything is asked again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Runs of each state that are looked at.
const RUNS_MAX: u64 = 500;
/// Keys that wait while a picture is drawn.
const KEYS_WAITING_MAX: usize = 64;
/// The word for the end of the log: only what happens from now on is counted.
const FROM_NOW: &str = "end";

const EXAMPLES: &str = "\
Examples:
  provost top                    runs, queue, questions and throughput, live; q quits
  provost top --once             the same as text, once
  provost top --once -o json";

/// What it takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print it once and end
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    remote: ConnectionArgs,
}

impl ApiCommand for Args {
    fn connection(&self) -> &ConnectionArgs {
        &self.remote
    }

    async fn run(&self, cx: &mut Connection) -> Result<u8, Problem> {
        let Show { output, format } = cx.show;
        match !self.once && format == Format::Table && output.stdout_tty {
            true => live(cx).await,
            false => once(cx).await,
        }
    }
}

async fn once(cx: &Connection) -> Result<u8, Problem> {
    let show = &cx.show;
    let mut board = Board::default();
    look(&cx.client, &mut board).await?;
    match show.format {
        Format::Table => show.write(&board.text(Env::system().now(), show.width()))?,
        _ => show.one(&board.as_json(), "top")?,
    }
    Ok(0)
}

/// Asks how everything stands.
async fn look(client: &Client, board: &mut Board) -> Result<(), ApiError> {
    let runs = |status| {
        let list = RunList { status: Some(status), limit: Some(RUNS_MAX), ..RunList::default() };
        async move { client.runs(&list).await }
    };
    let questions = ApprovalList { limit: Some(RUNS_MAX), ..ApprovalList::default() };
    let paging = Paging { limit: Some(RUNS_MAX), cursor: None };
    let (running, accepted, approvals, classes) = tokio::join!(
        runs(RunStatus::Running),
        runs(RunStatus::Accepted),
        client.approvals(&questions),
        client.classes(&paging),
    );
    let (running, accepted): (Page<_>, Page<_>) = (running?, accepted?);
    board.is_cut = running.next.is_some() || accepted.next.is_some();
    board.runs = running.items;
    board.runs.extend(accepted.items);
    board.approvals = approvals?.items;
    board.classes = classes?.items;
    Ok(())
}

async fn live(cx: &Connection) -> Result<u8, Problem> {
    let (client, output) = (&cx.client, &cx.show.output);
    let mut board = Board::of(client.namespace());
    // What is wrong is said before the screen is taken.
    look(client, &mut board).await?;
    let terminal = |error: std::io::Error| Problem::io("the terminal", &error);
    let mut interrupt = Interrupt::listen().map_err(terminal)?;
    let theme = if output.stdout_color { Theme::color() } else { Theme::mono() };
    let watch = Watch {
        after: Some(FROM_NOW.to_owned()),
        deltas: false,
        // The list itself says when the server is away.
        failures_max: u32::MAX,
    };
    let mut stream = client.watch_all(watch);
    let mut screen = Screen::open(/*has_mouse*/ false).map_err(terminal)?;
    let mut keys = read_keys();
    let mut again = tokio::time::interval(LOOK_AGAIN);
    loop {
        let now = Env::system().now();
        board.forget_before(now);
        screen.terminal.draw(|frame| board.draw(frame, &theme, now)).map_err(terminal)?;
        tokio::select! {
            key = keys.recv() => match key {
                Some(key) if is_quit(&key) => return Ok(0),
                Some(_) => {}
                None => return Ok(0),
            },
            _ = interrupt.next() => return Ok(ErrorKind::Cancelled.exit_code()),
            item = next(&mut stream) => board.count(&item?),
            _ = again.tick() => {
                let looked = look(client, &mut board).await;
                board.trouble = match looked {
                    Err(error) if !error.kind().retryable() => return Err(error.into()),
                    looked => looked.err().map(|error| error.to_string()),
                };
            }
        }
    }
}

async fn next(stream: &mut EventStream) -> Result<StreamItem, Problem> {
    match stream.next().await? {
        Some(item) => Ok(item),
        None => std::future::pending().await,
    }
}

fn is_quit(event: &Event) -> bool {
    let Event::Key(key) = event else { return false };
    let is_ctrl_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    let is_quit = matches!(key.code, KeyCode::Char('q') | KeyCode::Esc);
    key.kind != KeyEventKind::Release && (is_quit || is_ctrl_c)
}

/// Reads the terminal on a thread of its own: reading it blocks.
fn read_keys() -> mpsc::Receiver<Event> {
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
