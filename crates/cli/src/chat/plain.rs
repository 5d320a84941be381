//! A turn without a screen: text to standard output, everything else to standard error.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use provost_core::{ApprovalDecision, ApprovalRequest, ErrorInfo, Event, EventKind, RunSummary};
use tokio::time::Instant;

use crate::chat::turn::Turn;
use crate::interrupt::{Interrupt, Signal};
use crate::problem::Problem;
use crate::render::output::{Output, one_line, printable};
use crate::stdin::Lines;
use crate::tui::{question, remark};

/// Characters of a call or a result that one line shows.
const ACTIVITY_CHARS_MAX: usize = 120;

/// How long a stopped turn may take to end in order once nobody listens.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a turn goes on after its terminal was closed.
pub(crate) const ALONE_MAX: Duration = Duration::from_secs(600);

/// How a turn is printed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Style {
    /// Events as JSON lines instead of text.
    pub(crate) is_json: bool,
    /// Standard output is a terminal, which a model must not steer.
    pub(crate) stdout_tty: bool,
    /// Standard error may be coloured.
    pub(crate) stderr_color: bool,
}

/// Writes events as they come.
pub(crate) struct Printer<O, E> {
    out: O,
    err: E,
    style: Style,
    /// True while a line of text is not ended.
    in_line: bool,
}

impl<O: Write, E: Write> Printer<O, E> {
    /// A printer over two streams.
    pub(crate) fn new(out: O, err: E, style: Style) -> Self {
        Self { out, err, style, in_line: false }
    }

    /// Prints one event. An error means that nobody reads standard output any more.
    pub(crate) fn event(&mut self, event: &Event) -> io::Result<()> {
        if self.style.is_json {
            serde_json::to_writer(&mut self.out, event)?;
            self.out.write_all(b"\n")?;
            return self.out.flush();
        }
        match &event.kind {
            EventKind::TextDelta { text } => return self.text(text),
            EventKind::ToolCallReady { call } => {
                self.end_line()?;
                let arguments = one_line(&call.arguments, ACTIVITY_CHARS_MAX);
                self.aside(&format!("· {} {arguments}", call.name));
            }
            EventKind::ToolFinished { result, duration } => {
                let mark = if result.is_error { "✗" } else { "→" };
                let text = one_line(&result.to_text(), ACTIVITY_CHARS_MAX);
                let took = duration.as_millis();
                self.aside(&format!("  {mark} {}: {text} ({took} ms)", result.name));
            }
            EventKind::TurnFinished { .. } => self.end_line()?,
            kind if kind.is_terminal() => self.end_line()?,
            kind => {
                if let Some(remark) = remark(kind) {
                    self.end_line()?;
                    self.aside(&format!("· {remark}"));
                }
            }
        }
        Ok(())
    }

    /// A side remark on standard error.
    pub(crate) fn aside(&mut self, text: &str) {
        let text = printable(text);
        // Standard error that is gone leaves nobody to tell.
        if self.style.stderr_color {
            writeln!(self.err, "\x1b[2m{text}\x1b[0m").ok();
        } else {
            writeln!(self.err, "{text}").ok();
        }
    }

    /// A question on standard error, without a line end.
    fn question(&mut self, text: &str) {
        write!(self.err, "{}", printable(text)).ok();
        self.err.flush().ok();
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let shown = if self.style.stdout_tty { printable(text) } else { text.into() };
        self.out.write_all(shown.as_bytes())?;
        self.in_line = !text.ends_with('\n');
        self.out.flush()
    }

    fn end_line(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.in_line) {
            self.out.write_all(b"\n")?;
            self.out.flush()?;
        }
        Ok(())
    }
}

/// Who answers when a tool needs a person's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Approver {
    /// Everything is allowed: the person said so beforehand.
    Yes,
    /// Nobody is there.
    Nobody,
    /// The person at the terminal.
    Ask,
    /// Somebody else: the question stays open.
    Leave,
}

impl Approver {
    /// `--yes` decides beforehand; a question needs a terminal to be shown on and one to answer from.
    pub(crate) fn choose(yes: bool, output: &Output) -> Self {
        match (yes, output.stderr_tty && io::stdin().is_terminal()) {
            (true, _) => Self::Yes,
            (false, true) => Self::Ask,
            (false, false) => Self::Nobody,
        }
    }
}

/// How a turn ended, or how it was left.
#[derive(Debug)]
pub(crate) enum Ended {
    /// With an answer.
    Finished(Box<RunSummary>),
    /// With an error.
    Failed(ErrorInfo),
    /// It was stopped.
    Cancelled,
    /// It waits for something from outside.
    Suspended,
    /// Nobody reads standard output any more.
    ReaderGone,
    /// The program ends and the turn does not: whoever opens the session next goes on with it.
    Left,
}

/// What a turn is driven with.
pub(crate) struct Desk<'a, O, E> {
    /// Writes.
    pub(crate) printer: &'a mut Printer<O, E>,
    /// Decides.
    pub(crate) approver: Approver,
    /// Answers of the person.
    pub(crate) lines: &'a mut Lines,
    /// Ctrl-C.
    pub(crate) interrupt: &'a mut Interrupt,
}

/// What a person, or nobody, says to a question.
enum Answer {
    Decision(ApprovalDecision),
    /// The terminal is gone: the question stays open.
    Gone,
}

/// Reads a turn to its end.
pub(crate) async fn drive<O: Write, E: Write>(
    mut turn: Turn,
    desk: &mut Desk<'_, O, E>,
) -> Result<Ended, Problem> {
    let mut is_stopping = false;
    // Once the terminal is gone the turn goes on until this moment, and nobody hears it.
    let mut alone_until: Option<Instant> = None;
    loop {
        let event = tokio::select! {
            event = turn.next() => event?,
            signal = desk.interrupt.next() => match signal {
                Signal::Stop if is_stopping => return Ok(Ended::Cancelled),
                Signal::Stop => {
                    is_stopping = true;
                    turn.cancel().await?;
                    continue;
                }
                Signal::End => return Ok(Ended::Left),
                Signal::HangUp => {
                    alone_until.get_or_insert_with(|| Instant::now() + ALONE_MAX);
                    continue;
                }
            },
            () = moment(alone_until) => return Ok(Ended::Left),
        };
        let Some(event) = event else {
            let what = "the run ended without a result";
            return Err(Problem::new(provost_core::ErrorKind::Bug, what));
        };
        if let Err(error) = desk.printer.event(&event)
            && alone_until.is_none()
        {
            if error.kind() != io::ErrorKind::BrokenPipe {
                return Err(Problem::io("standard output", &error));
            }
            // Nobody hears it any more, but the conversation is kept.
            turn.end(END_TIMEOUT).await;
            return Ok(Ended::ReaderGone);
        }
        match event.kind {
            EventKind::ApprovalNeeded { .. } if alone_until.is_some() => return Ok(Ended::Left),
            EventKind::ApprovalNeeded { request } => match ask(&request, desk).await {
                Ok(Answer::Decision(decision)) => turn.decide(request.id, decision).await?,
                Ok(Answer::Gone) | Err(Signal::End | Signal::HangUp) => return Ok(Ended::Left),
                Err(Signal::Stop) => {
                    is_stopping = true;
                    // The question's line is still open.
                    desk.printer.aside("");
                    turn.cancel().await?;
                }
            },
            EventKind::ApprovalDecided { id, decision: ApprovalDecision::Deny { .. } }
                if desk.approver == Approver::Nobody =>
            {
                let tool = turn.decided_tool(id).unwrap_or_else(|| "a tool".to_owned());
                desk.printer.aside(&format!(
                    "· {tool} was not allowed: nobody is there to ask; --yes allows it"
                ));
            }
            EventKind::Finished { summary } => return Ok(Ended::Finished(summary)),
            EventKind::Failed { error } => return Ok(Ended::Failed(*error)),
            EventKind::Cancelled => return Ok(Ended::Cancelled),
            EventKind::Suspended { .. } => return Ok(Ended::Suspended),
            _ => {}
        }
    }
}

/// Waits for a moment; for ever if there is none.
async fn moment(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// An answer, or the signal that came instead.
async fn ask<O: Write, E: Write>(
    request: &ApprovalRequest,
    desk: &mut Desk<'_, O, E>,
) -> Result<Answer, Signal> {
    tokio::select! {
        answer = decide(request, desk.approver, desk.printer, desk.lines) => Ok(answer),
        signal = desk.interrupt.next() => Err(signal),
    }
}

async fn decide<O: Write, E: Write>(
    request: &ApprovalRequest,
    approver: Approver,
    printer: &mut Printer<O, E>,
    lines: &mut Lines,
) -> Answer {
    let name = &request.call.name;
    let decision = match approver {
        Approver::Leave => return Answer::Gone,
        Approver::Yes => ApprovalDecision::Approve,
        Approver::Nobody => {
            ApprovalDecision::Deny { reason: "nobody was there to approve it".to_owned() }
        }
        Approver::Ask => {
            if let Some(about) = question(request) {
                printer.aside(&format!("  {about}"));
            }
            // All of it: what is cut away is what a person would have refused.
            let arguments = request.call.arguments.replace(['\n', '\t'], " ");
            printer.question(&format!("allow {name} {arguments}? [y/N] "));
            let answer = lines.next().await.and_then(Result::ok);
            // The end of input from a terminal that is still there is a no; a closed one has said nothing.
            if answer.is_none() && !io::stdin().is_terminal() {
                return Answer::Gone;
            }
            match answer.unwrap_or_default().trim().to_lowercase().as_str() {
                "y" | "yes" => ApprovalDecision::Approve,
                _ => ApprovalDecision::Deny { reason: "the user said no".to_owned() },
            }
        }
    };
    Answer::Decision(decision)
}

#[cfg(test)]
mod tests;
