//! A run without a screen: reads its events to the end, prints them and has questions answered.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use provost_core::{
    ApprovalDecision, ApprovalId, ApprovalRequest, ErrorInfo, ErrorKind, Event, EventKind,
    RunSummary,
};
use tokio::time::Instant;

use super::run_stream::RunStream;
use crate::interrupt::{Interrupt, Signal};
use crate::problem::Problem;
use crate::render::event::{Printer, question};
use crate::render::output::Output;
use crate::stdin::Lines;

/// How long a stopped run may take to end if nobody reads its output.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a run continues after its terminal was closed.
pub(crate) const DETACHED_MAX: Duration = Duration::from_secs(600);

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

/// How a run ended, or how it was left.
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
    /// Standard output is closed.
    OutputClosed,
    /// The program ends and the run does not.
    Detached,
}

/// What a run is followed with.
pub(crate) struct LineSession<'a, O, E> {
    /// Writes.
    pub(crate) printer: &'a mut Printer<O, E>,
    /// Decides.
    pub(crate) approver: Approver,
    /// Answers of the person.
    pub(crate) lines: &'a mut Lines,
    /// Ctrl-C.
    pub(crate) interrupt: &'a mut Interrupt,
    /// True if the run ends with this process, which then waits for it after its terminal was closed.
    pub(crate) is_local: bool,
}

/// The answer to a question.
enum Reply {
    Decision(ApprovalDecision),
    /// An answer in words.
    Words(String),
    /// The terminal is gone: the question stays open.
    Gone,
}

/// Reads a run to its end.
pub(crate) async fn drive<O: Write, E: Write>(
    mut run: RunStream,
    session: &mut LineSession<'_, O, E>,
) -> Result<Ended, Problem> {
    let mut is_stopping = false;
    // Once the terminal is gone the run continues until this moment, without a reader.
    let mut detached_until: Option<Instant> = None;
    loop {
        let event = tokio::select! {
            event = run.next() => event?,
            signal = session.interrupt.next() => match signal {
                Signal::Stop if is_stopping => return Ok(Ended::Cancelled),
                Signal::Stop => {
                    is_stopping = true;
                    run.cancel().await?;
                    continue;
                }
                Signal::HangUp if session.is_local => {
                    detached_until.get_or_insert_with(|| Instant::now() + DETACHED_MAX);
                    continue;
                }
                Signal::End | Signal::HangUp => return Ok(Ended::Detached),
            },
            () = moment(detached_until) => return Ok(Ended::Detached),
        };
        let Some(event) = event else {
            return Err(Problem::new(ErrorKind::Bug, "the run ended without a result"));
        };
        if let Err(error) = session.printer.event(&event)
            && detached_until.is_none()
        {
            if error.kind() != io::ErrorKind::BrokenPipe {
                return Err(Problem::io("standard output", &error));
            }
            // Nobody reads the answer, but the conversation is kept.
            run.end(END_TIMEOUT).await;
            return Ok(Ended::OutputClosed);
        }
        if matches!(event.kind, EventKind::ApprovalNeeded { .. }) && detached_until.is_some() {
            return Ok(Ended::Detached);
        }
        match take(event, &run, session).await? {
            Step::Continue => {}
            Step::Cancelled => is_stopping = true,
            Step::Over(ended) => return Ok(ended),
        }
    }
}

/// What follows from an event.
enum Step {
    Continue,
    /// The person stopped the run at a question.
    Cancelled,
    Over(Ended),
}

async fn take<O: Write, E: Write>(
    event: Event,
    run: &RunStream,
    session: &mut LineSession<'_, O, E>,
) -> Result<Step, Problem> {
    match event.kind {
        EventKind::ApprovalNeeded { request } => {
            let reply = reply(&request, run.wants_words(request.id), session).await;
            return settle(request.id, reply, run, session).await;
        }
        EventKind::ApprovalDecided { id, decision: ApprovalDecision::Deny { .. } }
            if session.approver == Approver::Nobody =>
        {
            let tool = run.tool(id).unwrap_or_else(|| "a tool".to_owned());
            session.printer.note(&format!(
                "· {tool} was not allowed: nobody is there to ask; --yes allows it"
            ));
        }
        EventKind::Finished { summary } => return Ok(Step::Over(Ended::Finished(summary))),
        EventKind::Failed { error } => return Ok(Step::Over(Ended::Failed(*error))),
        EventKind::Cancelled => return Ok(Step::Over(Ended::Cancelled)),
        EventKind::Suspended { .. } => return Ok(Step::Over(Ended::Suspended)),
        _ => {}
    }
    Ok(Step::Continue)
}

/// Passes an answer on, or does what the signal asks for that came instead.
async fn settle<O: Write, E: Write>(
    id: ApprovalId,
    reply: Result<Reply, Signal>,
    run: &RunStream,
    session: &mut LineSession<'_, O, E>,
) -> Result<Step, Problem> {
    match reply {
        Ok(Reply::Decision(decision)) => run.decide(id, decision).await?,
        Ok(Reply::Words(text)) => run.reply(id, text).await?,
        Ok(Reply::Gone) | Err(Signal::End | Signal::HangUp) => {
            return Ok(Step::Over(Ended::Detached));
        }
        Err(Signal::Stop) => {
            // The question's line is still open.
            session.printer.note("");
            run.cancel().await?;
            return Ok(Step::Cancelled);
        }
    }
    Ok(Step::Continue)
}

/// Waits for a moment; for ever if there is none.
async fn moment(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// An answer, or the signal that came instead.
async fn reply<O: Write, E: Write>(
    request: &ApprovalRequest,
    in_words: bool,
    session: &mut LineSession<'_, O, E>,
) -> Result<Reply, Signal> {
    let LineSession { printer, approver, lines, interrupt, .. } = session;
    let answer = async {
        match (*approver, in_words) {
            (Approver::Leave, _) => Reply::Gone,
            (Approver::Ask, true) => ask_words(request, printer, lines).await,
            (Approver::Ask, false) => ask(request, printer, lines).await,
            (Approver::Yes, false) => Reply::Decision(ApprovalDecision::Approve),
            (Approver::Yes, true) => deny("nobody was there to answer it"),
            (Approver::Nobody, _) => deny("nobody was there to approve it"),
        }
    };
    tokio::select! {
        answer = answer => Ok(answer),
        signal = interrupt.next() => Err(signal),
    }
}

fn deny(reason: &str) -> Reply {
    Reply::Decision(ApprovalDecision::Deny { reason: reason.to_owned() })
}

/// Asks for yes or no.
async fn ask<O: Write, E: Write>(
    request: &ApprovalRequest,
    printer: &mut Printer<O, E>,
    lines: &mut Lines,
) -> Reply {
    if let Some(about) = question(request) {
        printer.note(&format!("  {about}"));
    }
    // All of it: what is cut away is what a person would have refused.
    let arguments = request.call.arguments.replace(['\n', '\t'], " ");
    printer.question(&format!("allow {} {arguments}? [y/N] ", request.call.name));
    let answer = lines.next().await.and_then(Result::ok);
    // The end of input from a terminal that is still there is a no; a closed one has said nothing.
    if answer.is_none() && !io::stdin().is_terminal() {
        return Reply::Gone;
    }
    match answer.unwrap_or_default().trim().to_lowercase().as_str() {
        "y" | "yes" => Reply::Decision(ApprovalDecision::Approve),
        _ => deny("the user said no"),
    }
}

/// Asks for an answer in words.
async fn ask_words<O: Write, E: Write>(
    request: &ApprovalRequest,
    printer: &mut Printer<O, E>,
    lines: &mut Lines,
) -> Reply {
    if let Some(about) = question(request) {
        printer.note(&format!("  {about}"));
    }
    printer.question("> ");
    match lines.next().await.and_then(Result::ok) {
        Some(text) if !text.trim().is_empty() => Reply::Words(text),
        Some(_) => deny("the user gave no answer"),
        None => Reply::Gone,
    }
}
