//! `provost top`: live dashboard of runs and queues.
//!
//! [`dashboard`] holds the state and draws it. This module requests the data, reads keys and runs the loop.

mod dashboard;

use std::time::Duration;

use provost_api::{
    ApiError, ApprovalQuery, Client, EventStream, Page, PageQuery, RunQuery, StreamItem,
    WatchOptions,
};
use provost_core::lifecycle::RunStatus;
use provost_core::{Env, ErrorKind};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use tokio::sync::mpsc;

use self::dashboard::Dashboard;
use super::ApiCommand;
use crate::error::CliError;
use crate::remote::{Connection, ConnectionArgs};
use crate::render::printer::{Format, Printer};
use crate::signal::Signals;
use crate::tui::{Screen, Theme};

/// Time between two refreshes.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of runs of each status that are requested.
const RUNS_MAX: u64 = 500;
/// Maximum number of keys that wait while a frame is drawn.
const PENDING_KEYS_MAX: usize = 64;
/// Cursor at the end of the event log, so that only new events are counted.
const FROM_NOW: &str = "end";

const EXAMPLES: &str = "\
Examples:
  provost top                    runs, queues, approvals and throughput; q quits
  provost top --once            prints the dashboard once as text
  provost top --once -o json";

/// Arguments of `provost top`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print the dashboard once and exit
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    remote: ConnectionArgs,
}

impl ApiCommand for Args {
    fn connection(&self) -> &ConnectionArgs {
        &self.remote
    }

    async fn run(&self, cx: &mut Connection) -> Result<u8, CliError> {
        let Printer { output, format } = cx.printer;
        match !self.once && format == Format::Table && output.stdout_tty {
            true => live(cx).await,
            false => once(cx).await,
        }
    }
}

/// Prints the dashboard once.
async fn once(cx: &Connection) -> Result<u8, CliError> {
    let printer = &cx.printer;
    let mut dashboard = Dashboard::default();
    refresh(&cx.client, &mut dashboard).await?;
    match printer.format {
        Format::Table => printer.write(&dashboard.text(Env::system().now(), printer.width()))?,
        _ => printer.print_details(&dashboard.to_json(), "top")?,
    }
    Ok(0)
}

/// Requests runs, approvals and classes.
async fn refresh(client: &Client, dashboard: &mut Dashboard) -> Result<(), ApiError> {
    let runs = |status| {
        let list = RunQuery { status: Some(status), limit: Some(RUNS_MAX), ..RunQuery::default() };
        async move { client.runs(&list).await }
    };
    let open_approvals = ApprovalQuery { limit: Some(RUNS_MAX), ..ApprovalQuery::default() };
    let paging = PageQuery { limit: Some(RUNS_MAX), cursor: None };
    let (running, accepted, approvals, classes) = tokio::join!(
        runs(RunStatus::Running),
        runs(RunStatus::Accepted),
        client.approvals(&open_approvals),
        client.execution_classes(&paging),
    );
    let (running, accepted): (Page<_>, Page<_>) = (running?, accepted?);
    dashboard.has_more_runs = running.next.is_some() || accepted.next.is_some();
    dashboard.runs = running.items;
    dashboard.runs.extend(accepted.items);
    dashboard.approvals = approvals?.items;
    dashboard.classes = classes?.items;
    Ok(())
}

/// Draws the dashboard until the user exits.
async fn live(cx: &Connection) -> Result<u8, CliError> {
    let (client, output) = (&cx.client, &cx.printer.output);
    let mut dashboard = Dashboard::new(client.namespace());
    // An error must be printed before the screen is opened.
    refresh(client, &mut dashboard).await?;
    let terminal = |error: std::io::Error| CliError::io("the terminal", &error);
    let mut signals = Signals::listen().map_err(terminal)?;
    let theme = if output.stdout_color { Theme::color() } else { Theme::mono() };
    let watch = WatchOptions {
        after: Some(FROM_NOW.to_owned()),
        deltas: false,
        // The refresh reports an unavailable server, so the stream never gives up.
        failures_max: u32::MAX,
    };
    let mut stream = client.watch_namespace(watch);
    let mut screen = Screen::open(/*has_mouse*/ false).map_err(terminal)?;
    let mut keys = read_keys();
    let mut refreshes = tokio::time::interval(REFRESH_INTERVAL);
    loop {
        let now = Env::system().now();
        dashboard.prune(now);
        screen.terminal.draw(|frame| dashboard.draw(frame, &theme, now)).map_err(terminal)?;
        tokio::select! {
            key = keys.recv() => match key {
                Some(key) if is_quit(&key) => return Ok(0),
                Some(_) => {}
                None => return Ok(0),
            },
            _ = signals.next() => return Ok(ErrorKind::Cancelled.exit_code()),
            item = next(&mut stream) => dashboard.count(&item?),
            _ = refreshes.tick() => {
                let refreshed = refresh(client, &mut dashboard).await;
                dashboard.error = match refreshed {
                    Err(error) if !error.kind().retryable() => return Err(error.into()),
                    refreshed => refreshed.err().map(|error| error.to_string()),
                };
            }
        }
    }
}

/// Waits for the next item of a stream. Never returns after the end of the stream.
async fn next(stream: &mut EventStream) -> Result<StreamItem, CliError> {
    match stream.next().await? {
        Some(item) => Ok(item),
        None => std::future::pending().await,
    }
}

/// Returns true if the key exits the dashboard.
fn is_quit(event: &Event) -> bool {
    let Event::Key(key) = event else { return false };
    let is_ctrl_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    let is_quit = matches!(key.code, KeyCode::Char('q') | KeyCode::Esc);
    key.kind != KeyEventKind::Release && (is_quit || is_ctrl_c)
}

/// Reads terminal events on a separate thread, because reading blocks.
fn read_keys() -> mpsc::Receiver<Event> {
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
