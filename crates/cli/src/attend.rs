//! Being there while a run goes on: following what it says, or waiting for its end.
//!
//! Invariant: whoever stops watching leaves the run alone.

use std::io::{self, Write};
use std::time::Duration;

use provost_api::{Client, EventStream, Run, RunEvent, StreamItem, Watch};
use provost_core::lifecycle::{ApprovalState, RunStatus};
use provost_core::{ApprovalRequest, DurableEventKind, ErrorKind, Event, EventKind, RunId};
use tokio::time::{Instant, Interval, MissedTickBehavior};

use crate::interrupt::Interrupt;
use crate::problem::Problem;
use crate::remote::Connection;
use crate::render::output::{one_line, printable};
use crate::render::show::{Format, Show, line};

/// Characters of a call or a result that one line shows.
const ACTIVITY_CHARS_MAX: usize = 120;
/// How often the line moves that shows that something goes on.
const TICK: Duration = Duration::from_millis(120);
const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// How much is told while a run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Telling {
    /// Only that it goes on, and what it waits for.
    Progress,
    /// What it says and what its tools do.
    Everything,
}

/// How it came that one is there no more.
pub(crate) enum Attended {
    /// The run is over.
    Ended(Box<Run>),
    /// The time to wait is over, the run is not.
    TimedOut(Box<Run>),
    /// Somebody pressed Ctrl-C.
    Left,
}

/// Somebody who is there while a run goes on.
pub(crate) struct Attendant {
    show: Show,
    telling: Telling,
    /// What was written of the present turn, and what was heard of it: after a lost connection it is told from its beginning.
    said: String,
    heard: String,
    turn: Option<(u64, u32)>,
    in_line: bool,
    spinner: Option<Spinner>,
    doing: String,
}

struct Spinner {
    since: Instant,
    frame: usize,
    ticks: Interval,
}

impl Attendant {
    pub(crate) fn new(show: Show, telling: Telling) -> Self {
        let has_spinner = show.output.stderr_tty && telling == Telling::Progress;
        let spinner = has_spinner.then(|| {
            let mut ticks = tokio::time::interval(TICK);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            Spinner { since: Instant::now(), frame: 0, ticks }
        });
        Self {
            show,
            telling,
            said: String::new(),
            heard: String::new(),
            turn: None,
            in_line: false,
            spinner,
            doing: "waiting".to_owned(),
        }
    }

    /// Is there until the run is over, the time is, or somebody presses Ctrl-C.
    pub(crate) async fn attend(
        mut self,
        client: &Client,
        run: RunId,
        timeout: Option<Duration>,
    ) -> Result<Attended, Problem> {
        let mut interrupt = Interrupt::listen().map_err(|error| Problem::io("signals", &error))?;
        let deltas = self.telling == Telling::Everything;
        let mut stream = client.watch_run(run, Watch { deltas, ..Watch::default() });
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let ended = loop {
            tokio::select! {
                item = next(&mut stream) => match item? {
                    Some(item) => {
                        self.tell(&item)?;
                        self.ask(client, &item).await?;
                    }
                    None => break true,
                },
                _ = interrupt.next() => {
                    self.clear();
                    return Ok(Attended::Left);
                }
                () = moment(until) => break false,
                () = self.tick() => {}
            }
        };
        self.clear();
        let run = Box::new(client.run(run).await?);
        Ok(if ended { Attended::Ended(run) } else { Attended::TimedOut(run) })
    }

    fn tell(&mut self, item: &StreamItem) -> Result<(), Problem> {
        let is_data = matches!(self.show.format, Format::Json | Format::Jsonl | Format::Yaml);
        if is_data && self.telling == Telling::Everything {
            return match item {
                StreamItem::Event { event, .. } => self.show.write(&line(event)?),
                StreamItem::Delta(delta) => self.show.write(&line(delta)?),
                _ => Ok(()),
            };
        }
        match item {
            StreamItem::Event { event, .. } => self.tell_event(event)?,
            StreamItem::Delta(delta) => {
                if let Ok(event) = serde_json::from_value::<Event>(delta.event.clone()) {
                    self.tell_live(delta.epoch, &event.kind)?;
                }
            }
            StreamItem::Reset | StreamItem::Lagged | StreamItem::End => {}
        }
        Ok(())
    }

    fn tell_live(&mut self, epoch: u64, kind: &EventKind) -> Result<(), Problem> {
        match kind {
            EventKind::TurnStarted { turn } => {
                self.heard.clear();
                if self.turn != Some((epoch, *turn)) {
                    self.end_line()?;
                    self.said.clear();
                    self.turn = Some((epoch, *turn));
                }
                Ok(())
            }
            EventKind::TextDelta { text } => {
                self.heard.push_str(text);
                let heard = self.heard.clone();
                self.say(&heard)
            }
            _ => Ok(()),
        }
    }

    /// Writes what is new of a turn's text.
    fn say(&mut self, text: &str) -> Result<(), Problem> {
        let new = match text.strip_prefix(self.said.as_str()) {
            Some(new) => new.to_owned(),
            // It is a part of what was said, which was told anew after a lost connection.
            None if self.said.starts_with(text) => return Ok(()),
            None => {
                self.end_line()?;
                text.to_owned()
            }
        };
        if new.is_empty() {
            return Ok(());
        }
        let is_tty = self.show.output.stdout_tty;
        self.show.write(&if is_tty { printable(&new) } else { new.as_str().into() })?;
        self.in_line = !new.ends_with('\n');
        self.said = text.to_owned();
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), Problem> {
        match std::mem::take(&mut self.in_line) {
            true => self.show.write("\n"),
            false => Ok(()),
        }
    }

    fn tell_event(&mut self, event: &RunEvent) -> Result<(), Problem> {
        self.doing = event.kind.replace('_', " ");
        if self.telling == Telling::Progress {
            return Ok(());
        }
        match (DurableEventKind::from_name(&event.kind), &event.message) {
            (Some(DurableEventKind::TurnFinished), Some(message)) => {
                self.say(&message.text())?;
                self.end_line()?;
                self.said.clear();
                self.heard.clear();
                for call in message.tool_calls() {
                    let arguments = one_line(&call.arguments, ACTIVITY_CHARS_MAX);
                    self.show.output.dim(&format!("· {} {arguments}", call.name));
                }
            }
            (Some(DurableEventKind::ToolFinished), _) => {
                if let Some(result) = &event.result {
                    let mark = if result.is_error { "✗" } else { "→" };
                    let text = one_line(&result.to_text(), ACTIVITY_CHARS_MAX);
                    self.show.output.dim(&format!("  {mark} {}: {text}", result.name));
                }
            }
            (
                Some(
                    DurableEventKind::RetryScheduled
                    | DurableEventKind::WorkerLost
                    | DurableEventKind::Interrupted
                    | DurableEventKind::Parked,
                ),
                _,
            ) => {
                self.end_line()?;
                // The turn is told from its beginning: what was said of it stands in another line.
                self.said.clear();
                self.heard.clear();
                self.show.output.dim(&format!("· {}", summary(event)));
            }
            _ => {}
        }
        Ok(())
    }

    /// Shows a question that is still open, and how to answer it.
    async fn ask(&mut self, client: &Client, item: &StreamItem) -> Result<(), Problem> {
        let StreamItem::Event { event, .. } = item else { return Ok(()) };
        let Some(ApprovalRequest { id, call, hint, .. }) = request_of(event) else {
            return Ok(());
        };
        // What is read again from the log may have been answered long ago.
        match client.approval(id).await {
            Ok(approval) if approval.state == ApprovalState::Pending => {}
            Ok(_) => return Ok(()),
            // Nor need it be there any more.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        self.end_line()?;
        self.clear();
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

async fn next(stream: &mut EventStream) -> Result<Option<StreamItem>, Problem> {
    Ok(stream.next().await?.filter(|item| *item != StreamItem::End))
}

async fn moment(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn request_of(event: &RunEvent) -> Option<ApprovalRequest> {
    if event.kind != DurableEventKind::ApprovalNeeded.as_str() {
        return None;
    }
    serde_json::from_value(event.data.as_ref()?.get("request")?.clone()).ok()
}

/// What happened, in one line.
pub(crate) fn summary(event: &RunEvent) -> String {
    let kind = event.kind.replace('_', " ");
    if let Some(result) = &event.result {
        return format!("{kind}: {} {}", result.name, one_line(&result.to_text(), 200));
    }
    if let Some(message) = &event.message {
        let calls = message.tool_calls();
        let calls: Vec<&str> = calls.map(|call| call.name.as_str()).collect();
        let text = match (message.text(), calls.is_empty()) {
            (text, true) => text,
            (text, false) => format!("{text} [{}]", calls.join(", ")),
        };
        return format!("{kind}: {}", one_line(&text, 200));
    }
    match &event.data {
        Some(data) if data.as_object().is_none_or(|data| !data.is_empty()) => {
            format!("{kind} {}", one_line(&data.to_string(), 200))
        }
        _ => kind,
    }
}

/// Shows how a run ended; the number is the exit code.
pub(crate) fn conclude(show: &Show, run: &Run, telling: Telling) -> Result<u8, Problem> {
    let is_data = show.format != Format::Table;
    if telling == Telling::Progress {
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
            let what = format!("the run has not ended: it is {}", standing(run));
            let help = format!("`provost explain {}` says why; waiting on stops nothing", run.id);
            return Err(Problem::new(ErrorKind::Timeout, what).help(help));
        }
    };
    let what = if detail.is_empty() { what.to_owned() } else { format!("{what}: {detail}") };
    let help = format!("`provost explain {}` says why", run.id);
    show.output.problem(&Problem::new(ErrorKind::Conflict, what).help(help));
    Ok(code)
}

/// How a run stands that has not ended.
pub(crate) fn standing(run: &Run) -> String {
    match &run.parked_for {
        Some(why) => format!("{}, waiting for {why}", run.phase),
        None => run.phase.to_string(),
    }
}

/// Says how to come back to a run that was left.
pub(crate) fn left(cx: &Connection, run: RunId) -> u8 {
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
