//! Follows a run in the terminal: prints its events, or waits for its end.
//!
//! Invariant: a follower that stops does not affect the run.

use std::collections::HashSet;
use std::io::{self, Stderr, Stdout, Write};
use std::time::Duration;

use provost_api::{ApprovalQuery, Client, Run, StreamItem, WatchOptions};
use provost_core::lifecycle::RunStatus;
use provost_core::{ApprovalRequest, DurableEventKind, ErrorKind, Event, EventKind, RunId};
use provost_host::agent::AGENT;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use crate::chat::run_stream::RunStream;
use crate::error::CliError;
use crate::remote::Connection;
use crate::render::event::{EventPrinter, Style};
use crate::render::output::printable;
use crate::render::printer::{Format, Printer, line};
use crate::signal::Signals;

/// Time between two frames of the spinner.
const TICK: Duration = Duration::from_millis(120);
const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// How much a command prints about a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// A spinner and the open approvals.
    Progress,
    /// The text of the model and the activity of the tools.
    Everything,
}

/// Why following a run ended.
pub(crate) enum FollowOutcome {
    /// The run has ended.
    Ended(Box<Run>),
    /// The timeout elapsed before the run ended.
    TimedOut(Box<Run>),
    /// The user pressed Ctrl-C.
    Interrupted,
}

/// Prints a run until its end.
pub(crate) struct RunFollower {
    printer: Printer,
    verbosity: Verbosity,
    event_printer: EventPrinter<Stdout, Stderr>,
    spinner: Option<Spinner>,
    activity: String,
}

struct Spinner {
    since: Instant,
    frame: usize,
    ticks: Interval,
}

impl RunFollower {
    pub(crate) fn new(printer: Printer, verbosity: Verbosity) -> Self {
        let has_spinner = printer.output.stderr_tty && verbosity == Verbosity::Progress;
        let spinner = has_spinner.then(|| {
            let mut ticks = tokio::time::interval(TICK);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            Spinner { since: Instant::now(), frame: 0, ticks }
        });
        let event_printer =
            EventPrinter::new(io::stdout(), io::stderr(), Style::text(&printer.output));
        Self { printer, verbosity, event_printer, spinner, activity: "waiting".to_owned() }
    }

    /// Follows the run until it ends, the timeout elapses or the user presses Ctrl-C.
    pub(crate) async fn follow(
        mut self,
        client: &Client,
        run: RunId,
        timeout: Option<Duration>,
    ) -> Result<FollowOutcome, CliError> {
        let mut signals = Signals::listen().map_err(|error| CliError::io("signals", &error))?;
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let ended = tokio::select! {
            result = self.print_run(client, run) => result.map(|()| true)?,
            _ = signals.next() => {
                self.clear();
                return Ok(FollowOutcome::Interrupted);
            }
            () = sleep_until(deadline) => false,
        };
        self.clear();
        let run = Box::new(client.run(run).await?);
        Ok(if ended { FollowOutcome::Ended(run) } else { FollowOutcome::TimedOut(run) })
    }

    /// Prints the events of the run until it ends.
    async fn print_run(&mut self, client: &Client, run: RunId) -> Result<(), CliError> {
        let is_data = matches!(self.printer.format, Format::Json | Format::Jsonl | Format::Yaml);
        let is_everything = self.verbosity == Verbosity::Everything;
        if is_data && is_everything {
            return self.print_items(client, run).await;
        }
        let mut stream = RunStream::new(client, run, AGENT, /*deltas*/ is_everything);
        loop {
            let event = tokio::select! {
                event = stream.next() => event?,
                () = self.tick() => continue,
            };
            let Some(event) = event else { return Ok(()) };
            self.print_event(&event)?;
        }
    }

    /// Prints the items of the stream unchanged. Open approvals also go to standard error.
    async fn print_items(&mut self, client: &Client, run: RunId) -> Result<(), CliError> {
        let mut stream = client.watch_run(run, WatchOptions::default());
        let mut printed = HashSet::new();
        while let Some(item) = stream.next().await? {
            match item {
                StreamItem::Event { event, .. } => {
                    self.printer.write(&line(&event)?)?;
                    if event.kind == DurableEventKind::Parked.as_str() {
                        let list = ApprovalQuery { run: Some(run), ..ApprovalQuery::default() };
                        for approval in client.approvals(&list).await?.items {
                            if printed.insert(approval.id) {
                                self.print_approval(&approval.request)?;
                            }
                        }
                    }
                }
                StreamItem::Delta(delta) => self.printer.write(&line(&delta)?)?,
                StreamItem::End => return Ok(()),
                StreamItem::Reset | StreamItem::Lagged => {}
            }
        }
        Ok(())
    }

    /// Prints an event, or shows it as the activity of the spinner.
    fn print_event(&mut self, event: &Event) -> Result<(), CliError> {
        if let EventKind::ApprovalNeeded { request } = &event.kind {
            return self.print_approval(request);
        }
        self.activity = kind_text(event).replace('_', " ");
        // A run that waits for a child run continues without the user.
        if self.verbosity == Verbosity::Progress
            || matches!(event.kind, EventKind::Suspended { .. })
        {
            return Ok(());
        }
        ignore_closed_output(self.event_printer.event(event))
    }

    /// Prints an open approval with the commands that decide it.
    fn print_approval(&mut self, request: &ApprovalRequest) -> Result<(), CliError> {
        ignore_closed_output(self.event_printer.end_line())?;
        self.clear();
        let ApprovalRequest { id, call, hint, .. } = request;
        let arguments = printable(&call.arguments).replace(['\n', '\t'], " ");
        let output = &self.printer.output;
        match hint {
            Some(hint) => output.note(&format!("? {} {arguments}: {hint}", call.name)),
            None => output.note(&format!("? {} {arguments}", call.name)),
        }
        output
            .note(&format!("  → `provost approval approve {id}` or `provost approval deny {id}`"));
        Ok(())
    }

    /// Waits for the next frame of the spinner and draws it. Never returns without a spinner.
    async fn tick(&mut self) {
        let Some(spinner) = &mut self.spinner else { return std::future::pending().await };
        spinner.ticks.tick().await;
        spinner.frame = (spinner.frame + 1) % FRAMES.len();
        let seconds = spinner.since.elapsed().as_secs();
        let frame = FRAMES[spinner.frame];
        write!(io::stderr(), "\r{frame} {} · {seconds}s\x1b[K", self.activity).ok();
    }

    /// Removes the spinner from the terminal.
    fn clear(&self) {
        if self.spinner.is_some() {
            write!(io::stderr(), "\r\x1b[K").ok();
        }
    }
}

/// Ignores an error of a closed standard output.
fn ignore_closed_output(result: io::Result<()>) -> Result<(), CliError> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::io("standard output", &error))
        }
        _ => Ok(()),
    }
}

/// Returns the kind of an event as text.
fn kind_text(event: &Event) -> String {
    let value = serde_json::to_value(&event.kind).unwrap_or_default();
    value["type"].as_str().unwrap_or_default().to_owned()
}

/// Waits until a point in time. Never returns for `None`.
async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Prints the result of a run and returns the exit code.
pub(crate) fn print_outcome(
    printer: &Printer,
    run: &Run,
    verbosity: Verbosity,
) -> Result<u8, CliError> {
    let is_data = printer.format != Format::Table;
    if verbosity == Verbosity::Progress {
        match &run.answer {
            Some(answer) if !is_data => {
                let answer = answer.trim_end();
                let is_tty = printer.output.stdout_tty;
                let answer = if is_tty { printable(answer) } else { answer.into() };
                printer.write(&format!("{answer}\n"))?;
            }
            _ if is_data => printer.print_details(run, &run.id.to_string())?,
            _ => {}
        }
    }
    let detail = run.detail.as_deref().unwrap_or_default();
    let (message, code) = match run.status {
        RunStatus::Ok => return Ok(0),
        RunStatus::Cancelled => ("the run was cancelled", ErrorKind::Cancelled.exit_code()),
        RunStatus::Timeout => ("the run timed out", ErrorKind::Timeout.exit_code()),
        RunStatus::Error => ("the run failed", 1),
        RunStatus::Accepted | RunStatus::Running => {
            let message = format!("the run has not ended: it is {}", phase_text(run));
            let hint = format!("`provost explain {}` shows why; the run continues", run.id);
            return Err(CliError::new(ErrorKind::Timeout, message).hint(hint));
        }
    };
    let message =
        if detail.is_empty() { message.to_owned() } else { format!("{message}: {detail}") };
    let hint = format!("`provost explain {}` shows why", run.id);
    printer.output.error(&CliError::new(ErrorKind::Conflict, message).hint(hint));
    Ok(code)
}

/// Returns the phase of a run, and its wait reason if it is parked.
pub(crate) fn phase_text(run: &Run) -> String {
    match &run.parked_for {
        Some(reason) => format!("{}, waiting for {reason}", run.phase),
        None => run.phase.to_string(),
    }
}

/// Prints how to continue a run that the user stopped following, and returns the exit code.
pub(crate) fn print_resume_hint(cx: &Connection, run: RunId) -> u8 {
    let flags = cx.flags();
    let message = match cx.is_local() {
        true => "No worker is running.",
        false => "The run continues on the server.",
    };
    cx.printer.output.note(&format!(
        "· {message} `provost run wait {run}{flags}` continues, `provost run cancel {run}{flags}` cancels the run"
    ));
    ErrorKind::Cancelled.exit_code()
}
