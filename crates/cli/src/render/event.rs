//! Events of a run as lines: the text of the model to standard output, everything else to standard error.

use std::io::{self, Write};

use provost_api::RunEvent;
use provost_core::{ApprovalRequest, Event, EventKind};

use super::output::{Output, one_line, printable};

/// Maximum number of characters of a call or a result in one line.
const ACTIVITY_CHARS_MAX: usize = 120;
/// Maximum number of characters of a message in one line of a log.
const SUMMARY_CHARS_MAX: usize = 200;

/// Style in which events are printed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Style {
    /// Events as JSON lines instead of text.
    pub(crate) is_json: bool,
    /// Standard output is a terminal, so control characters of the model are removed.
    pub(crate) stdout_tty: bool,
    /// Colors are allowed on standard error.
    pub(crate) stderr_color: bool,
}

impl Style {
    /// Prints a part of the response, without control characters on a terminal.
    pub(crate) fn text(output: &Output) -> Self {
        Self { is_json: false, stdout_tty: output.stdout_tty, stderr_color: output.stderr_color }
    }
}

/// Prints events as they arrive.
pub(crate) struct EventPrinter<O, E> {
    out: O,
    err: E,
    style: Style,
    /// True while the last line of text has no line end.
    in_line: bool,
}

impl<O: Write, E: Write> EventPrinter<O, E> {
    /// Creates a printer over two streams.
    pub(crate) fn new(out: O, err: E, style: Style) -> Self {
        Self { out, err, style, in_line: false }
    }

    /// Prints one event. An error means that standard output is closed.
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
                self.note(&format!("· {} {arguments}", call.name));
            }
            EventKind::ToolFinished { result, duration } => {
                let mark = if result.is_error { "✗" } else { "→" };
                let text = one_line(&result.to_text(), ACTIVITY_CHARS_MAX);
                let took = duration.as_millis();
                self.note(&format!("  {mark} {}: {text} ({took} ms)", result.name));
            }
            // A turn that restarts after a lost worker repeats its text.
            EventKind::TurnStarted { .. } | EventKind::TurnFinished { .. } => self.end_line()?,
            kind if kind.is_terminal() => self.end_line()?,
            kind => {
                if let Some(remark) = remark(kind) {
                    self.end_line()?;
                    self.note(&format!("· {remark}"));
                }
            }
        }
        Ok(())
    }

    /// Prints a note on standard error.
    pub(crate) fn note(&mut self, text: &str) {
        let text = printable(text);
        // An error of a closed standard error cannot be reported.
        if self.style.stderr_color {
            writeln!(self.err, "\x1b[2m{text}\x1b[0m").ok();
        } else {
            writeln!(self.err, "{text}").ok();
        }
    }

    /// Prints a prompt on standard error, without a line end.
    pub(crate) fn prompt(&mut self, text: &str) {
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

    /// Ends the current line of text.
    pub(crate) fn end_line(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.in_line) {
            self.out.write_all(b"\n")?;
            self.out.flush()?;
        }
        Ok(())
    }
}

/// Returns the reason and the payload of an approval request as text. `None` if it has neither.
pub(crate) fn approval_details(request: &ApprovalRequest) -> Option<String> {
    let payload = request.payload.as_ref().map(ToString::to_string);
    match (&request.hint, payload) {
        (Some(hint), Some(payload)) => Some(format!("{hint}\n{payload}")),
        (hint, payload) => payload.or_else(|| hint.clone()),
    }
}

/// Returns the note about an event for the user. `None` for events that need no note.
pub(crate) fn remark(kind: &EventKind) -> Option<String> {
    match kind {
        EventKind::ModelRetry { delay, error, .. } => {
            Some(format!("retrying in {:.1} s: {}", delay.as_secs_f64(), error.message))
        }
        EventKind::LimitReached(limit) => Some(format!(
            "the limit on {} is reached: {} of {}",
            limit.limit.as_str(),
            limit.used,
            limit.allowed
        )),
        EventKind::Compacted(compaction) => Some(format!(
            "the conversation was compacted ({}): {} of {} messages remain",
            compaction.strategy, compaction.messages_after, compaction.messages_before
        )),
        EventKind::OutputRejected { reason, .. } => {
            Some(format!("output rejected, retrying: {reason}"))
        }
        EventKind::Warning { message } => Some(format!("warning: {message}")),
        EventKind::WorkspaceReset { reason } => Some(format!("workspace reset: {reason}")),
        EventKind::Paused => Some("paused".to_owned()),
        EventKind::Unpaused => Some("resumed".to_owned()),
        EventKind::Suspended { approvals } => {
            Some(format!("waiting for {} approvals", approvals.len()))
        }
        _ => None,
    }
}

/// Returns a durable event as one line.
pub(crate) fn summary(event: &RunEvent) -> String {
    let kind = event.kind.replace('_', " ");
    let short = |text: &str| one_line(text, SUMMARY_CHARS_MAX);
    if let Some(result) = &event.result {
        return format!("{kind}: {} {}", result.name, short(&result.to_text()));
    }
    if let Some(message) = &event.message {
        let calls = message.tool_calls();
        let calls: Vec<&str> = calls.map(|call| call.name.as_str()).collect();
        let text = match (message.text(), calls.is_empty()) {
            (text, true) => text,
            (text, false) => format!("{text} [{}]", calls.join(", ")),
        };
        return format!("{kind}: {}", short(&text));
    }
    match &event.data {
        Some(data) if data.as_object().is_none_or(|data| !data.is_empty()) => {
            format!("{kind} {}", short(&data.to_string()))
        }
        _ => kind,
    }
}

#[cfg(test)]
mod tests;
