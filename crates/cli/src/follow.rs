//! Follows a run in the terminal: shows what it says, or waits for its end.
//!
//! Invariant: a follower that stops leaves the run alone.

use std::collections::HashSet;
use std::io::{self, Stderr, Stdout, Write};
use std::time::Duration;

use provost_api::{ApprovalList, Client, Run, StreamItem, Watch};
use provost_core::lifecycle::RunStatus;
use provost_core::{ApprovalRequest, DurableEventKind, ErrorKind, Event, EventKind, RunId};
use provost_host::agent::AGENT;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use crate::chat::run_stream::RunStream;
use crate::interrupt::Interrupt;
use crate::problem::Problem;
use crate::remote::Connection;
use crate::render::event::{Printer, Style};
use crate::render::output::printable;
use crate::render::show::{Format, Show, line};

/// How often the line moves that shows that something goes on.
const TICK: Duration = Duration::from_millis(120);
const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// How much of a run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// Only that it goes on, and what it waits for.
    Progress,
    /// What it says and what its tools do.
    Everything,
}

/// How following a run ended.
pub(crate) enum Followed {
    /// The run is over.
    Ended(Box<Run>),
    /// The time to wait is over, the run is not.
    TimedOut(Box<Run>),
    /// Somebody pressed Ctrl-C.
    Interrupted,
}

/// Shows a run until its end.
pub(crate) struct RunFollower {
    show: Show,
    verbosity: Verbosity,
    printer: Printer<Stdout, Stderr>,
    spinner: Option<Spinner>,
    doing: String,
}

struct Spinner {
    since: Instant,
    frame: usize,
    ticks: Interval,
}

impl RunFollower {
    pub(crate) fn new(show: Show, verbosity: Verbosity) -> Self {
        let has_spinner = show.output.stderr_tty && verbosity == Verbosity::Progress;
        let spinner = has_spinner.then(|| {
            let mut ticks = tokio::time::interval(TICK);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            Spinner { since: Instant::now(), frame: 0, ticks }
        });
        let printer = Printer::new(io::stdout(), io::stderr(), Style::text(&show.output));
        Self { show, verbosity, printer, spinner, doing: "waiting".to_owned() }
    }

    /// Follows until the run is over, the time is, or somebody presses Ctrl-C.
    pub(crate) async fn follow(
        mut self,
        client: &Client,
        run: RunId,
        timeout: Option<Duration>,
    ) -> Result<Followed, Problem> {
        let mut interrupt = Interrupt::listen().map_err(|error| Problem::io("signals", &error))?;
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let ended = tokio::select! {
            shown = self.show_run(client, run) => shown.map(|()| true)?,
            _ = interrupt.next() => {
                self.clear();
                return Ok(Followed::Interrupted);
            }
            () = moment(until) => false,
        };
        self.clear();
        let run = Box::new(client.run(run).await?);
        Ok(if ended { Followed::Ended(run) } else { Followed::TimedOut(run) })
    }

    async fn show_run(&mut self, client: &Client, run: RunId) -> Result<(), Problem> {
        let is_data = matches!(self.show.format, Format::Json | Format::Jsonl | Format::Yaml);
        let is_everything = self.verbosity == Verbosity::Everything;
        if is_data && is_everything {
            return self.copy(client, run).await;
        }
        let mut stream = RunStream::new(client, run, AGENT, /*deltas*/ is_everything);
        loop {
            let event = tokio::select! {
                event = stream.next() => event?,
                () = self.tick() => continue,
            };
            let Some(event) = event else { return Ok(()) };
            self.event(&event)?;
        }
    }

    /// Copies the items of the stream as they are. Questions that are open go to standard error, too.
    async fn copy(&mut self, client: &Client, run: RunId) -> Result<(), Problem> {
        let mut stream = client.watch_run(run, Watch::default());
        let mut asked = HashSet::new();
        while let Some(item) = stream.next().await? {
            match item {
                StreamItem::Event { event, .. } => {
                    self.show.write(&line(&event)?)?;
                    if event.kind == DurableEventKind::Parked.as_str() {
                        let list = ApprovalList { run: Some(run), ..ApprovalList::default() };
                        for approval in client.approvals(&list).await?.items {
                            if asked.insert(approval.id) {
                                self.question(&approval.request)?;
                            }
                        }
                    }
                }
                StreamItem::Delta(delta) => self.show.write(&line(&delta)?)?,
                StreamItem::End => return Ok(()),
                StreamItem::Reset | StreamItem::Lagged => {}
            }
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) -> Result<(), Problem> {
        if let EventKind::ApprovalNeeded { request } = &event.kind {
            return self.question(request);
        }
        self.doing = kind(event).replace('_', " ");
        // A run that waits for another one goes on by itself.
        if self.verbosity == Verbosity::Progress
            || matches!(event.kind, EventKind::Suspended { .. })
        {
            return Ok(());
        }
        written(self.printer.event(event))
    }

    /// Shows an open question, and how to answer it.
    fn question(&mut self, request: &ApprovalRequest) -> Result<(), Problem> {
        written(self.printer.end_line())?;
        self.clear();
        let ApprovalRequest { id, call, hint, .. } = request;
        let arguments = printable(&call.arguments).replace(['\n', '\t'], " ");
        let output = &self.show.output;
        match hint {
            Some(hint) => output.dim(&format!("? {} {arguments}: {hint}", call.name)),
            None => output.dim(&format!("? {} {arguments}", call.name)),
        }
        output.dim(&format!("  → `provost approve {id}` or `provost deny {id}`"));
        Ok(())
    }

    /// Moves the line that shows that something goes on.
    async fn tick(&mut self) {
        let Some(spinner) = &mut self.spinner else { return std::future::pending().await };
        spinner.ticks.tick().await;
        spinner.frame = (spinner.frame + 1) % FRAMES.len();
        let seconds = spinner.since.elapsed().as_secs();
        let frame = FRAMES[spinner.frame];
        write!(io::stderr(), "\r{frame} {} · {seconds}s\x1b[K", self.doing).ok();
    }

    fn clear(&self) {
        if self.spinner.is_some() {
            write!(io::stderr(), "\r\x1b[K").ok();
        }
    }
}

/// A reader that went away is no problem.
fn written(result: io::Result<()>) -> Result<(), Problem> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Problem::io("standard output", &error))
        }
        _ => Ok(()),
    }
}

/// The name of what happened.
fn kind(event: &Event) -> String {
    let value = serde_json::to_value(&event.kind).unwrap_or_default();
    value["type"].as_str().unwrap_or_default().to_owned()
}

async fn moment(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Shows how a run ended; the number is the exit code.
pub(crate) fn print_result(show: &Show, run: &Run, verbosity: Verbosity) -> Result<u8, Problem> {
    let is_data = show.format != Format::Table;
    if verbosity == Verbosity::Progress {
        match &run.answer {
            Some(answer) if !is_data => {
                let answer = answer.trim_end();
                let is_tty = show.output.stdout_tty;
                let answer = if is_tty { printable(answer) } else { answer.into() };
                show.write(&format!("{answer}\n"))?;
            }
            _ if is_data => show.one(run, &run.id.to_string())?,
            _ => {}
        }
    }
    let detail = run.detail.as_deref().unwrap_or_default();
    let (what, code) = match run.status {
        RunStatus::Ok => return Ok(0),
        RunStatus::Cancelled => ("the run was cancelled", ErrorKind::Cancelled.exit_code()),
        RunStatus::Timeout => ("the time of the run was over", ErrorKind::Timeout.exit_code()),
        RunStatus::Error => ("the run failed", 1),
        RunStatus::Accepted | RunStatus::Running => {
            let what = format!("the run has not ended: it is {}", phase_text(run));
            let help = format!("`provost explain {}` says why; waiting on stops nothing", run.id);
            return Err(Problem::new(ErrorKind::Timeout, what).help(help));
        }
    };
    let what = if detail.is_empty() { what.to_owned() } else { format!("{what}: {detail}") };
    let help = format!("`provost explain {}` says why", run.id);
    show.output.problem(&Problem::new(ErrorKind::Conflict, what).help(help));
    Ok(code)
}

/// Phase of a run, and what it waits for.
pub(crate) fn phase_text(run: &Run) -> String {
    match &run.parked_for {
        Some(why) => format!("{}, waiting for {why}", run.phase),
        None => run.phase.to_string(),
    }
}

/// Says how to come back to a run that was left.
pub(crate) fn print_resume_hint(cx: &Connection, run: RunId) -> u8 {
    let flags = cx.flags();
    let what = match cx.is_local() {
        true => "nobody works on the run now",
        false => "the run goes its way",
    };
    cx.show.output.dim(&format!(
        "· {what}: `provost runs wait {run}{flags}` goes on waiting, `provost runs cancel {run}{flags}` stops it"
    ));
    ErrorKind::Cancelled.exit_code()
}
