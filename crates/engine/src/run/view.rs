//! A run as its log tells it: for whoever did not watch it live, because another process works on it or it ended before.
//!
//! The log names messages and results where they are stored; here they are put in again, in the words of live events. Pieces of
//! an answer are not stored, so an answer comes whole.

use std::sync::Arc;
use std::time::Duration;

use provost_core::durable::TurnFinished;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RunStatus;
use provost_core::recovery::OutcomeCode;
use provost_core::{
    ApprovalDecision, ApprovalRequest, DurableEvent, DurableEventKind, ErrorInfo, ErrorKind,
    EventKind, Message, Part, RunId, RunSummary, StopReason, Usage,
};
use provost_store::table::governance::approval;
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::run_event::{self, RunEventRow};
use provost_store::{Tx, load_body};
use serde::Deserialize;
use serde_json::Value;

use crate::error::EngineError;
use crate::run::Runs;
use crate::run::lifecycle::{outcome, word};
use provost_store::table::work::stored_message as message;

/// Events that are read at once.
const PAGE: u64 = 500;

/// A run and what its log says.
#[derive(Debug, Clone)]
pub struct RunView {
    /// Its row.
    pub run: RunRow,
    /// What happened after the number that was asked for.
    pub events: Vec<Told>,
    /// The number of the last event.
    pub last: u64,
    /// The questions it asked, oldest first.
    pub questions: Vec<Question>,
}

/// One event of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    /// Its number in the log; several may come of one.
    pub seq: u64,
    /// The attempt that wrote it.
    pub epoch: u64,
    /// What happened.
    pub kind: EventKind,
}

/// A question to a person, and what became of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// What is asked.
    pub request: ApprovalRequest,
    /// True if it waits for an answer.
    pub is_open: bool,
    /// The answer.
    pub decision: Option<ApprovalDecision>,
}

impl RunView {
    /// How the run ended, if it did.
    pub fn ended(&self) -> Option<RunStatus> {
        word::<RunStatus>(&self.run.status).ok().filter(|status| status.is_terminal())
    }

    /// The event that ends the stream of a run that has ended.
    pub fn ending(&self) -> Option<EventKind> {
        Some(match self.ended()? {
            RunStatus::Ok => EventKind::Finished { summary: Box::new(summary(&self.run)) },
            RunStatus::Cancelled => EventKind::Cancelled,
            _ => EventKind::Failed { error: Box::new(failure(&self.run)) },
        })
    }
}

impl Runs<'_> {
    /// What the log of a run says after a number.
    pub async fn view(
        self,
        namespace: &Namespace,
        id: RunId,
        after: u64,
    ) -> Result<RunView, EngineError> {
        let namespace = namespace.to_string();
        self.engine.shared.store.read(move |tx| view(tx, &namespace, id, after)).await
    }
}

fn view(tx: &mut Tx<'_>, namespace: &str, id: RunId, after: u64) -> Result<RunView, EngineError> {
    let row = run::find(tx, namespace, id)?.ok_or_else(|| EngineError::not_found("run", id))?;
    let mut events = Vec::new();
    let mut last = after;
    loop {
        let page = run_event::after(tx, id, last, PAGE)?;
        for row in &page {
            last = row.seq;
            for kind in tell(tx, row)? {
                events.push(Told { seq: row.seq, epoch: row.epoch, kind });
            }
        }
        if (page.len() as u64) < PAGE {
            break;
        }
    }
    let mut questions = Vec::new();
    for row in approval::of_run(tx, id)? {
        questions.push(Question {
            request: serde_json::from_str(&row.request)?,
            is_open: row.state == "pending",
            decision: row.decision.as_deref().map(serde_json::from_str).transpose()?,
        });
    }
    Ok(RunView { run: row, events, last, questions })
}

/// The live events that an event of the log stands for; the end of the run is in its row.
fn tell(tx: &mut Tx<'_>, row: &RunEventRow) -> Result<Vec<EventKind>, EngineError> {
    let Some(
        DurableEventKind::UserMessage
        | DurableEventKind::TurnFinished
        | DurableEventKind::ToolFinished,
    ) = DurableEventKind::from_name(&row.kind)
    else {
        return Ok(Vec::new());
    };
    let message = row.message_id.map(|id| message::get(tx, id)).transpose()?;
    let body = load_body(tx, row.body.clone(), row.blob.as_deref())?.unwrap_or_default();
    Ok(match (DurableEvent::parse(&row.kind, &body)?, message) {
        (DurableEvent::UserMessage(_), Some(message)) => vec![EventKind::UserMessage { message }],
        (DurableEvent::TurnFinished(finished), Some(message)) => answer(message, finished),
        (DurableEvent::ToolFinished(finished), _) => {
            let result = Box::new(message::result_of(tx, row.run_id, finished.step)?);
            vec![EventKind::ToolFinished { result, duration: Duration::ZERO }]
        }
        _ => Vec::new(),
    })
}

fn answer(message: Arc<Message>, finished: TurnFinished) -> Vec<EventKind> {
    let TurnFinished { turn, stop, usage } = finished;
    let mut events = vec![EventKind::TurnStarted { turn }];
    let mut calls = Vec::new();
    for part in &message.parts {
        match part {
            Part::Text { text } => events.push(EventKind::TextDelta { text: text.clone() }),
            Part::Reasoning(reasoning) if !reasoning.text.is_empty() => {
                events.push(EventKind::ReasoningDelta { text: reasoning.text.clone() });
            }
            Part::ToolCall(call) => {
                calls.push(EventKind::ToolCallReady { call: Box::new(call.clone()) });
            }
            _ => {}
        }
    }
    events.push(EventKind::TurnFinished { turn, message, stop, usage });
    events.extend(calls);
    events
}

/// What a run that ended well came to.
fn summary(run: &RunRow) -> RunSummary {
    let mut stored: Value =
        run.result.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let duration = run.started.zip(run.ended).map_or(0, |(from, to)| to.since(from).as_millis());
    if let Value::Object(fields) = &mut stored {
        fields.entry("agent").or_insert_with(|| run.agent.clone().into());
        let duration = u64::try_from(duration).unwrap_or(u64::MAX);
        fields.entry("duration_ms").or_insert_with(|| duration.into());
    }
    RunSummary::deserialize(stored).unwrap_or_else(|_| empty_summary(&run.agent))
}

fn empty_summary(agent: &str) -> RunSummary {
    RunSummary {
        text: String::new(),
        reasoning: String::new(),
        stop: StopReason::EndTurn,
        limit: None,
        pending_calls: Vec::new(),
        tool_results: Vec::new(),
        usage: Usage::default(),
        cost: None,
        unpriced_calls: 0,
        turns: 0,
        tool_calls: 0,
        duration: Duration::ZERO,
        agent: agent.to_owned(),
        response_id: None,
        agents: Vec::new(),
    }
}

/// Why a run did not end well.
fn failure(run: &RunRow) -> ErrorInfo {
    let code = outcome(run).ok().flatten().unwrap_or(OutcomeCode::Internal);
    let detail = run.detail.clone().unwrap_or_else(|| "it did not end well".to_owned());
    ErrorInfo::new(kind_of(code), code.as_str(), detail)
}

/// The shared kind of an outcome.
fn kind_of(code: OutcomeCode) -> ErrorKind {
    match code {
        OutcomeCode::ProviderOverloaded
        | OutcomeCode::SandboxStart
        | OutcomeCode::ToolError
        | OutcomeCode::WorkerLost
        | OutcomeCode::CrashLoop => ErrorKind::Unavailable,
        OutcomeCode::ProviderRateLimited => ErrorKind::RateLimited,
        OutcomeCode::ProviderAuth => ErrorKind::Unauthenticated,
        OutcomeCode::ProviderBadRequest | OutcomeCode::ContextOverflow => ErrorKind::Invalid,
        OutcomeCode::ToolTimeout | OutcomeCode::Deadline => ErrorKind::Timeout,
        OutcomeCode::Fenced => ErrorKind::Conflict,
        OutcomeCode::CancelledByUser
        | OutcomeCode::CancelledByParent
        | OutcomeCode::CancelledByInterrupt => ErrorKind::Cancelled,
        OutcomeCode::Budget => ErrorKind::Exhausted,
        OutcomeCode::PolicyDenied | OutcomeCode::ApprovalDenied | OutcomeCode::ApprovalExpired => {
            ErrorKind::Denied
        }
        OutcomeCode::Internal => ErrorKind::Bug,
    }
}
