//! Turns the stream of a run into events that a reader shows.
//!
//! The rule: a delta is told as it comes. A durable event is told if it has no delta, and it completes deltas that were missed.
//! The start of a model call is told by its durable event, because its delta may come before the results of the calls before.
//! So a reader gets the same events whether the run executes in this process, on a server, or ended long ago.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use provost_api::{Delta, RunEvent, StreamItem};
use provost_core::durable::{RunEnded, TurnFinished};
use provost_core::lifecycle::{AttemptReason, RunStatus};
use provost_core::recovery::OutcomeCode;
use provost_core::{
    ApprovalId, ContentPart, DurableEvent, EVENT_VERSION, ErrorInfo, ErrorKind, Event, EventKind,
    Message, RunId, RunSummary, Timestamp, ToolResult,
};
use serde::Deserialize;
use serde_json::Value;

use crate::problem::Problem;

/// The events of one run, in the order in which they are shown.
pub(crate) struct EventFold {
    run: RunId,
    agent: Arc<str>,
    next_seq: u64,
    /// The attempt that is told.
    epoch: u64,
    /// The last delta of the run, and of each run below it, in this attempt.
    deltas: HashMap<RunId, u64>,
    turn: TurnSoFar,
    started: Option<Timestamp>,
    results: Vec<ToolResult>,
    reasoning: String,
    /// Tools that questions are about.
    tools: HashMap<ApprovalId, String>,
    decided: HashSet<ApprovalId>,
    is_parked: bool,
    is_over: bool,
}

/// What was told of a model call.
#[derive(Default)]
struct TurnSoFar {
    /// Attempt and number.
    number: Option<(u64, u32)>,
    text: String,
    reasoning: String,
    /// Calls that are complete.
    ready: HashSet<String>,
    /// True if deltas were left out: the durable event has the rest.
    has_gap: bool,
}

impl EventFold {
    /// A fold of a run from its beginning.
    pub(crate) fn new(run: RunId, agent: &str) -> Self {
        Self {
            run,
            agent: agent.into(),
            next_seq: 0,
            epoch: 0,
            deltas: HashMap::new(),
            turn: TurnSoFar::default(),
            started: None,
            results: Vec::new(),
            reasoning: String::new(),
            tools: HashMap::new(),
            decided: HashSet::new(),
            is_parked: false,
            is_over: false,
        }
    }

    /// True while the run waits.
    pub(crate) fn is_parked(&self) -> bool {
        self.is_parked
    }

    /// True once the last event was told.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// The tool that a question is about.
    pub(crate) fn tool(&self, id: ApprovalId) -> Option<&String> {
        self.tools.get(&id)
    }

    /// The events that follow from an item of the stream.
    pub(crate) fn feed(&mut self, item: StreamItem) -> Result<Vec<Event>, Problem> {
        match item {
            StreamItem::Event { event, .. } => self.durable(*event),
            StreamItem::Delta(delta) => Ok(self.delta(*delta)),
            StreamItem::Lagged => {
                self.turn.has_gap = true;
                Ok(Vec::new())
            }
            StreamItem::Reset => {
                self.turn = TurnSoFar::default();
                Ok(Vec::new())
            }
            StreamItem::End => {
                self.is_over = true;
                Ok(Vec::new())
            }
        }
    }

    /// An event of this run.
    pub(crate) fn event(&mut self, at: Timestamp, kind: EventKind) -> Event {
        let (run_id, agent) = (self.run, Arc::clone(&self.agent));
        self.numbered(Event { v: EVENT_VERSION, run_id, seq: 0, at, agent, kind })
    }

    fn numbered(&mut self, event: Event) -> Event {
        let seq = self.next_seq;
        self.next_seq += 1;
        Event { seq, ..event }
    }

    fn delta(&mut self, delta: Delta) -> Vec<Event> {
        // A kind of delta that only a newer version knows is left out.
        let Ok(event) = serde_json::from_value::<Event>(delta.event) else { return Vec::new() };
        if delta.epoch < self.epoch {
            return Vec::new();
        }
        self.begin_attempt(delta.epoch);
        // After a lost connection the deltas of the turn come once more.
        let last = self.deltas.insert(event.run_id, event.seq);
        if let Some(last) = last.filter(|last| *last >= event.seq) {
            self.deltas.insert(event.run_id, last);
            return Vec::new();
        }
        if event.run_id == self.run && !self.is_news(&event.kind) {
            return Vec::new();
        }
        vec![self.numbered(event)]
    }

    /// Takes a delta of the run in; false if it was told already or comes with the durable event.
    fn is_news(&mut self, kind: &EventKind) -> bool {
        match kind {
            EventKind::TurnStarted { .. } => return false,
            EventKind::TextDelta { text } if !self.turn.has_gap => self.turn.text.push_str(text),
            EventKind::ReasoningDelta { text } if !self.turn.has_gap => {
                self.turn.reasoning.push_str(text);
            }
            EventKind::TextDelta { .. } | EventKind::ReasoningDelta { .. } => return false,
            EventKind::ToolCallReady { call } => return self.turn.ready.insert(call.id.clone()),
            _ => {}
        }
        true
    }

    fn begin_attempt(&mut self, epoch: u64) {
        if epoch > self.epoch {
            self.epoch = epoch;
            self.deltas.clear();
        }
    }

    /// Begins a model call; false if it has begun.
    fn begin_turn(&mut self, turn: u32) -> bool {
        let number = Some((self.epoch, turn));
        if self.turn.number == number {
            return false;
        }
        self.turn = TurnSoFar { number, ..TurnSoFar::default() };
        true
    }

    fn durable(&mut self, event: RunEvent) -> Result<Vec<Event>, Problem> {
        self.begin_attempt(event.epoch);
        let at = event.at.0;
        let kinds = self.kinds(event)?;
        Ok(kinds.into_iter().map(|kind| self.event(at, kind)).collect())
    }

    fn kinds(&mut self, event: RunEvent) -> Result<Vec<EventKind>, Problem> {
        let RunEvent { kind, data, message, result, at, .. } = event;
        let body = data.map_or_else(|| "{}".to_owned(), |data| data.to_string());
        let parsed = DurableEvent::parse(&kind, &body);
        let parsed =
            parsed.map_err(|error| Problem::new(ErrorKind::Malformed, error.to_string()))?;
        Ok(match (parsed, message) {
            (DurableEvent::AttemptStarted(begun), _) => {
                self.is_parked = false;
                self.started.get_or_insert(at.0);
                vec![EventKind::RunStarted { resumed: begun.strategy == AttemptReason::Resume }]
            }
            (DurableEvent::UserMessage(_), Some(message)) => {
                vec![EventKind::UserMessage { message: message.into() }]
            }
            (DurableEvent::TurnStarted(begun), _) => {
                let turn = begun.turn;
                Vec::from_iter(self.begin_turn(turn).then_some(EventKind::TurnStarted { turn }))
            }
            (DurableEvent::TurnFinished(finished), Some(message)) => {
                self.finish_turn(finished, message)
            }
            (DurableEvent::ToolFinished(finished), _) => {
                let Some(result) = result else { return Ok(Vec::new()) };
                self.results.push(result.clone());
                let duration = Duration::from_millis(finished.duration_ms.unwrap_or(0));
                vec![EventKind::ToolFinished { result: result.into(), duration }]
            }
            (parsed, _) => self.change(parsed, at.0)?,
        })
    }

    /// An event that is not about the conversation.
    fn change(&mut self, event: DurableEvent, at: Timestamp) -> Result<Vec<EventKind>, Problem> {
        let kind = match event {
            DurableEvent::ApprovalNeeded(needed) => {
                self.tools.insert(needed.request.id, needed.request.call.name);
                None
            }
            DurableEvent::ApprovalDecided(decided) => {
                let (id, decision) = (decided.id, decided.decision);
                let is_new = self.decided.insert(id);
                is_new.then_some(EventKind::ApprovalDecided { id, decision })
            }
            DurableEvent::StateChanged(state) => {
                Some(EventKind::StateChanged { changes: state.changes })
            }
            DurableEvent::WorkspaceReset(reset) => {
                Some(EventKind::WorkspaceReset { reason: reset.reason })
            }
            DurableEvent::RetryScheduled(retry) => {
                let message = format!("{}; it is tried again", retry.detail);
                Some(EventKind::Warning { message })
            }
            DurableEvent::WorkerLost(_) => {
                let message = "the worker of the run was lost; the run is tried again".to_owned();
                Some(EventKind::Warning { message })
            }
            DurableEvent::Parked(_) => {
                self.is_parked = true;
                None
            }
            DurableEvent::Resumed(_) => {
                self.is_parked = false;
                None
            }
            DurableEvent::Finished(ended)
            | DurableEvent::Failed(ended)
            | DurableEvent::TimedOut(ended)
            | DurableEvent::Cancelled(ended) => {
                (self.is_parked, self.is_over) = (false, true);
                Some(self.ending(ended, at)?)
            }
            _ => None,
        };
        Ok(Vec::from_iter(kind))
    }

    fn finish_turn(&mut self, finished: TurnFinished, message: Message) -> Vec<EventKind> {
        let TurnFinished { turn, stop, usage } = finished;
        let mut kinds = Vec::new();
        if self.begin_turn(turn) {
            kinds.push(EventKind::TurnStarted { turn });
        }
        kinds.extend(self.turn.rest(&message));
        for call in message.tool_calls() {
            if self.turn.ready.insert(call.id.clone()) {
                kinds.push(EventKind::ToolCallReady { call: Box::new(call.clone()) });
            }
        }
        self.reasoning = reasoning(&message);
        kinds.push(EventKind::TurnFinished { turn, message: Arc::new(message), stop, usage });
        kinds
    }

    fn ending(&mut self, ended: RunEnded, at: Timestamp) -> Result<EventKind, Problem> {
        Ok(match ended.status {
            RunStatus::Ok => EventKind::Finished { summary: Box::new(self.summary(&ended, at)?) },
            RunStatus::Cancelled => EventKind::Cancelled,
            _ => EventKind::Failed { error: Box::new(error(ended)) },
        })
    }

    /// What a run that ended well came to.
    fn summary(&mut self, ended: &RunEnded, at: Timestamp) -> Result<RunSummary, Problem> {
        let result = ended.result.as_ref().map_or("{}", |result| result.as_str());
        let mut stored: Value = serde_json::from_str(result).unwrap_or_default();
        let duration = self.started.map_or(Duration::ZERO, |started| at.since(started));
        if let Value::Object(fields) = &mut stored {
            let duration = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
            fields.insert("duration_ms".to_owned(), duration.into());
            fields.entry("agent").or_insert_with(|| self.agent.as_ref().into());
        }
        let summary = RunSummary::deserialize(stored);
        let mut summary =
            summary.map_err(|error| Problem::new(ErrorKind::Malformed, error.to_string()))?;
        summary.reasoning = std::mem::take(&mut self.reasoning);
        summary.tool_results = std::mem::take(&mut self.results);
        Ok(summary)
    }
}

impl TurnSoFar {
    /// What the message has that was not told: everything if there were no deltas.
    fn rest(&self, message: &Message) -> Vec<EventKind> {
        if !self.text.is_empty() || !self.reasoning.is_empty() {
            let rest = |full: &str, told: &str| {
                full.strip_prefix(told).filter(|rest| !rest.is_empty()).map(str::to_owned)
            };
            let reasoning = rest(&reasoning(message), &self.reasoning);
            let text = rest(&text(message), &self.text);
            let reasoning = reasoning.map(|text| EventKind::ReasoningDelta { text });
            let text = text.map(|text| EventKind::TextDelta { text });
            return reasoning.into_iter().chain(text).collect();
        }
        let whole = message.parts.iter().filter_map(|part| match part {
            ContentPart::Text { text } => Some(EventKind::TextDelta { text: text.clone() }),
            ContentPart::Reasoning(reasoning) if !reasoning.text.is_empty() => {
                Some(EventKind::ReasoningDelta { text: reasoning.text.clone() })
            }
            _ => None,
        });
        whole.collect()
    }
}

fn text(message: &Message) -> String {
    message.parts.iter().filter_map(ContentPart::as_text).collect()
}

fn reasoning(message: &Message) -> String {
    let parts = message.parts.iter().filter_map(|part| match part {
        ContentPart::Reasoning(reasoning) => Some(reasoning.text.as_str()),
        _ => None,
    });
    parts.collect()
}

/// Why a run did not end well.
fn error(ended: RunEnded) -> ErrorInfo {
    let code = ended.code.unwrap_or(OutcomeCode::Internal);
    let detail = ended.detail.unwrap_or_else(|| "it did not end well".to_owned());
    match ended.error {
        Some(error) => ErrorInfo::new(error.kind, error.code, detail),
        // The log was written before it held the error.
        None => ErrorInfo::new(code.error_kind(), code.as_str(), detail),
    }
}

#[cfg(test)]
mod tests;
