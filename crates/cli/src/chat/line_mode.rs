//! A run without the terminal interface: prints its events and decides its approval requests.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use provost_core::{
    ApprovalDecision, ApprovalId, ApprovalRequest, ErrorInfo, ErrorKind, Event, EventKind,
    RunSummary,
};
use tokio::time::Instant;

use super::run_stream::RunStream;
use crate::error::CliError;
use crate::render::event::{EventPrinter, approval_details};
use crate::render::output::Output;
use crate::signal::{Signal, Signals};
use crate::stdin::Lines;

/// Maximum time for a cancelled run to end after its output was closed.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum time for which a run continues after its terminal was closed.
pub(crate) const DETACHED_MAX: Duration = Duration::from_secs(600);

/// Decision about approval requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApprovalMode {
    /// Approves every request, because the user set `--yes`.
    AutoApprove,
    /// Denies every request, because there is no terminal.
    Deny,
    /// Asks the user at the terminal.
    Prompt,
    /// Leaves the request open for another client.
    Defer,
}

impl ApprovalMode {
    /// Returns the mode for `--yes` and the terminals. A prompt needs a terminal for standard error and standard input.
    pub(crate) fn choose(yes: bool, output: &Output) -> Self {
        match (yes, output.stderr_tty && io::stdin().is_terminal()) {
            (true, _) => Self::AutoApprove,
            (false, true) => Self::Prompt,
            (false, false) => Self::Deny,
        }
    }
}

/// Outcome of a run, or the reason why it is no longer followed.
#[derive(Debug)]
pub(crate) enum RunOutcome {
    /// The run succeeded.
    Finished(Box<RunSummary>),
    /// The run failed.
    Failed(ErrorInfo),
    /// The run was cancelled.
    Cancelled,
    /// The run waits for an external event.
    Suspended,
    /// Standard output is closed.
    OutputClosed,
    /// The program ends before the run.
    Detached,
}

/// Input and output of a run without the terminal interface.
pub(crate) struct LineSession<'a, O, E> {
    /// Output of events.
    pub(crate) printer: &'a mut EventPrinter<O, E>,
    /// Decision about approval requests.
    pub(crate) approval_mode: ApprovalMode,
    /// Lines that the user types.
    pub(crate) lines: &'a mut Lines,
    /// Signals such as Ctrl-C.
    pub(crate) signals: &'a mut Signals,
    /// True if this process executes the run. The process then continues after its terminal was closed.
    pub(crate) is_local: bool,
}

/// Reply to an approval request.
enum ApprovalReply {
    Decision(ApprovalDecision),
    /// A text answer.
    Text(String),
    /// The terminal was closed, so the request stays open.
    TerminalClosed,
}

/// Prints a run until it ends.
pub(crate) async fn drive<O: Write, E: Write>(
    mut run: RunStream,
    session: &mut LineSession<'_, O, E>,
) -> Result<RunOutcome, CliError> {
    let mut is_cancelling = false;
    // After the terminal was closed, the run continues without output until this point in time.
    let mut detached_until: Option<Instant> = None;
    loop {
        let event = tokio::select! {
            event = run.next() => event?,
            signal = session.signals.next() => match signal {
                Signal::Interrupt if is_cancelling => return Ok(RunOutcome::Cancelled),
                Signal::Interrupt => {
                    is_cancelling = true;
                    run.cancel().await?;
                    continue;
                }
                Signal::HangUp if session.is_local => {
                    detached_until.get_or_insert_with(|| Instant::now() + DETACHED_MAX);
                    continue;
                }
                Signal::Terminate | Signal::HangUp => return Ok(RunOutcome::Detached),
            },
            () = sleep_until(detached_until) => return Ok(RunOutcome::Detached),
        };
        let Some(event) = event else {
            return Err(CliError::new(ErrorKind::Bug, "the run ended without a result"));
        };
        if let Err(error) = session.printer.event(&event)
            && detached_until.is_none()
        {
            if error.kind() != io::ErrorKind::BrokenPipe {
                return Err(CliError::io("standard output", &error));
            }
            // The output is closed, but the conversation is stored.
            run.end(END_TIMEOUT).await;
            return Ok(RunOutcome::OutputClosed);
        }
        if matches!(event.kind, EventKind::ApprovalNeeded { .. }) && detached_until.is_some() {
            return Ok(RunOutcome::Detached);
        }
        match handle(event, &run, session).await? {
            NextStep::Continue => {}
            NextStep::Cancelled => is_cancelling = true,
            NextStep::End(outcome) => return Ok(outcome),
        }
    }
}

/// Next step after an event.
enum NextStep {
    Continue,
    /// The user cancelled the run at an approval request.
    Cancelled,
    End(RunOutcome),
}

async fn handle<O: Write, E: Write>(
    event: Event,
    run: &RunStream,
    session: &mut LineSession<'_, O, E>,
) -> Result<NextStep, CliError> {
    match event.kind {
        EventKind::ApprovalNeeded { request } => {
            let reply = reply(&request, run.wants_text(request.id), session).await;
            return send_reply(request.id, reply, run, session).await;
        }
        EventKind::ApprovalDecided { id, decision: ApprovalDecision::Deny { .. } }
            if session.approval_mode == ApprovalMode::Deny =>
        {
            let tool = run.tool(id).unwrap_or_else(|| "a tool".to_owned());
            session.printer.note(&format!(
                "· {tool} was denied, because there is no terminal to ask for approval; --yes approves it"
            ));
        }
        EventKind::Finished { summary } => return Ok(NextStep::End(RunOutcome::Finished(summary))),
        EventKind::Failed { error } => return Ok(NextStep::End(RunOutcome::Failed(*error))),
        EventKind::Cancelled => return Ok(NextStep::End(RunOutcome::Cancelled)),
        EventKind::Suspended { .. } => return Ok(NextStep::End(RunOutcome::Suspended)),
        _ => {}
    }
    Ok(NextStep::Continue)
}

/// Sends a reply, or handles the signal that arrived instead.
async fn send_reply<O: Write, E: Write>(
    id: ApprovalId,
    reply: Result<ApprovalReply, Signal>,
    run: &RunStream,
    session: &mut LineSession<'_, O, E>,
) -> Result<NextStep, CliError> {
    match reply {
        Ok(ApprovalReply::Decision(decision)) => run.decide(id, decision).await?,
        Ok(ApprovalReply::Text(text)) => run.reply(id, text).await?,
        Ok(ApprovalReply::TerminalClosed) | Err(Signal::Terminate | Signal::HangUp) => {
            return Ok(NextStep::End(RunOutcome::Detached));
        }
        Err(Signal::Interrupt) => {
            // The line of the prompt has no line end yet.
            session.printer.note("");
            run.cancel().await?;
            return Ok(NextStep::Cancelled);
        }
    }
    Ok(NextStep::Continue)
}

/// Waits until a point in time. Never returns for `None`.
async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Returns the reply, or the signal that arrived instead.
async fn reply<O: Write, E: Write>(
    request: &ApprovalRequest,
    wants_text: bool,
    session: &mut LineSession<'_, O, E>,
) -> Result<ApprovalReply, Signal> {
    let LineSession { printer, approval_mode, lines, signals, .. } = session;
    let reply = async {
        match (*approval_mode, wants_text) {
            (ApprovalMode::Defer, _) => ApprovalReply::TerminalClosed,
            (ApprovalMode::Prompt, true) => prompt_text(request, printer, lines).await,
            (ApprovalMode::Prompt, false) => prompt_decision(request, printer, lines).await,
            (ApprovalMode::AutoApprove, false) => {
                ApprovalReply::Decision(ApprovalDecision::Approve)
            }
            (ApprovalMode::AutoApprove, true) => deny("no user could answer the question"),
            (ApprovalMode::Deny, _) => deny("no user could approve the call"),
        }
    };
    tokio::select! {
        reply = reply => Ok(reply),
        signal = signals.next() => Err(signal),
    }
}

fn deny(reason: &str) -> ApprovalReply {
    ApprovalReply::Decision(ApprovalDecision::Deny { reason: reason.to_owned() })
}

/// Asks the user to approve or deny.
async fn prompt_decision<O: Write, E: Write>(
    request: &ApprovalRequest,
    printer: &mut EventPrinter<O, E>,
    lines: &mut Lines,
) -> ApprovalReply {
    if let Some(details) = approval_details(request) {
        printer.note(&format!("  {details}"));
    }
    // The arguments are not truncated, so that the user sees everything that an approval permits.
    let arguments = request.call.arguments.replace(['\n', '\t'], " ");
    printer.prompt(&format!("allow {} {arguments}? [y/N] ", request.call.name));
    let answer = lines.next().await.and_then(Result::ok);
    // The end of input on an open terminal denies the call. A closed terminal leaves the request open.
    if answer.is_none() && !io::stdin().is_terminal() {
        return ApprovalReply::TerminalClosed;
    }
    match answer.unwrap_or_default().trim().to_lowercase().as_str() {
        "y" | "yes" => ApprovalReply::Decision(ApprovalDecision::Approve),
        _ => deny("the user denied the call"),
    }
}

/// Asks the user for a text answer.
async fn prompt_text<O: Write, E: Write>(
    request: &ApprovalRequest,
    printer: &mut EventPrinter<O, E>,
    lines: &mut Lines,
) -> ApprovalReply {
    if let Some(details) = approval_details(request) {
        printer.note(&format!("  {details}"));
    }
    printer.prompt("> ");
    match lines.next().await.and_then(Result::ok) {
        Some(text) if !text.trim().is_empty() => ApprovalReply::Text(text),
        Some(_) => deny("the user gave no answer"),
        None => ApprovalReply::TerminalClosed,
    }
}
