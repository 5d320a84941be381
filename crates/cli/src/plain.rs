//! A turn without a screen: text to standard output, everything else to standard error.

use std::io::{self, IsTerminal, Write};

use provost_core::{ApprovalDecision, ApprovalRequest, ErrorInfo, Event, EventKind, RunSummary};

use crate::interrupt::Interrupt;
use crate::output::{Output, one_line, printable};
use crate::problem::Problem;
use crate::stdin::Lines;
use crate::talk::Turn;
use crate::tui::{question, remark};

/// Characters of a call or a result that one line shows.
const ACTIVITY_CHARS_MAX: usize = 120;

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

/// How a turn ended.
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

/// Reads a turn to its end.
pub(crate) async fn drive<O: Write, E: Write>(
    mut turn: Turn,
    desk: &mut Desk<'_, O, E>,
) -> Result<Ended, Problem> {
    let mut is_stopping = false;
    loop {
        let event = tokio::select! {
            event = turn.next() => event,
            () = desk.interrupt.next() => {
                if is_stopping {
                    return Ok(Ended::Cancelled);
                }
                is_stopping = true;
                turn.cancel();
                continue;
            }
        };
        let Some(event) = event else {
            let what = "the run ended without a result";
            return Err(Problem::new(provost_core::ErrorKind::Bug, what));
        };
        if let Err(error) = desk.printer.event(&event) {
            // Nobody hears it any more, but the conversation is kept.
            turn.end().await;
            return match error.kind() {
                io::ErrorKind::BrokenPipe => Ok(Ended::ReaderGone),
                _ => Err(Problem::io("standard output", &error)),
            };
        }
        match event.kind {
            EventKind::ApprovalNeeded { request } => {
                let decision = tokio::select! {
                    decision = decide(&request, desk.approver, desk.printer, desk.lines) => decision,
                    () = desk.interrupt.next() => {
                        is_stopping = true;
                        // The question's line is still open.
                        desk.printer.aside("");
                        turn.cancel();
                        continue;
                    }
                };
                turn.decide(request.id, decision);
            }
            EventKind::Finished { summary } => return Ok(Ended::Finished(summary)),
            EventKind::Failed { error } => return Ok(Ended::Failed(*error)),
            EventKind::Cancelled => return Ok(Ended::Cancelled),
            EventKind::Suspended { .. } => return Ok(Ended::Suspended),
            _ => {}
        }
    }
}

async fn decide<O: Write, E: Write>(
    request: &ApprovalRequest,
    approver: Approver,
    printer: &mut Printer<O, E>,
    lines: &mut Lines,
) -> ApprovalDecision {
    let name = &request.call.name;
    match approver {
        Approver::Yes => ApprovalDecision::Approve,
        Approver::Nobody => {
            printer.aside(&format!(
                "· {name} was not allowed: nobody is there to ask; --yes allows it"
            ));
            ApprovalDecision::Deny { reason: "nobody was there to approve it".to_owned() }
        }
        Approver::Ask => {
            if let Some(about) = question(request) {
                printer.aside(&format!("  {about}"));
            }
            // All of it: what is cut away is what a person would have refused.
            let arguments = request.call.arguments.replace(['\n', '\t'], " ");
            printer.question(&format!("allow {name} {arguments}? [y/N] "));
            let answer = lines.next().await.and_then(Result::ok).unwrap_or_default();
            match answer.trim().to_lowercase().as_str() {
                "y" | "yes" => ApprovalDecision::Approve,
                _ => ApprovalDecision::Deny { reason: "the user said no".to_owned() },
            }
        }
    }
}

#[cfg(test)]
mod tests;
