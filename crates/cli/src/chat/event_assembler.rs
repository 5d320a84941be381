//! Converts the stream of a run to the events that are shown.
//!
//! A delta is emitted when it arrives. A durable event is emitted if it has no delta, and it completes deltas that were
//! missed. The start of a model call is emitted with its durable event, because its delta can arrive before the results
//! of the previous tool calls. The resulting events are the same for an active run and for a run that has ended.

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

use crate::error::CliError;

/// State of the conversion of one run.
pub(crate) struct EventAssembler {
    run: RunId,
    agent: Arc<str>,
    next_seq: u64,
    /// Epoch of the attempt whose events are emitted.
    epoch: u64,
    /// Sequence number of the last delta of the run and of each child run in this attempt.
    deltas: HashMap<RunId, u64>,
    turn: PartialTurn,
    started: Option<Timestamp>,
    results: Vec<ToolResult>,
    reasoning: String,
    /// Tools of the approval requests.
    tools: HashMap<ApprovalId, String>,
    decided: HashSet<ApprovalId>,
    is_parked: bool,
    has_ended: bool,
}

/// Part of a model call that was already emitted.
#[derive(Default)]
struct PartialTurn {
    /// Epoch and number of the turn.
    number: Option<(u64, u32)>,
    text: String,
    reasoning: String,
    /// Ids of the tool calls that are complete.
    ready: HashSet<String>,
    /// True if deltas were missed. The durable event then completes the text.
    has_gap: bool,
}

impl EventAssembler {
    /// Creates the state at the beginning of a run.
    pub(crate) fn new(run: RunId, agent: &str) -> Self {
        Self {
            run,
            agent: agent.into(),
            next_seq: 0,
            epoch: 0,
            deltas: HashMap::new(),
            turn: PartialTurn::default(),
            started: None,
            results: Vec::new(),
            reasoning: String::new(),
            tools: HashMap::new(),
            decided: HashSet::new(),
            is_parked: false,
            has_ended: false,
        }
    }

    /// Returns true while the run is parked.
    pub(crate) fn is_parked(&self) -> bool {
        self.is_parked
    }

    /// Returns true after the last event of the run.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Returns the tool of an approval request. `None` if the request is not open.
    pub(crate) fn tool(&self, id: ApprovalId) -> Option<&String> {
        self.tools.get(&id)
    }

    /// Returns the events that result from an item of the stream.
    pub(crate) fn apply(&mut self, item: StreamItem) -> Result<Vec<Event>, CliError> {
        match item {
            StreamItem::Event { event, .. } => self.apply_durable(*event),
            StreamItem::Delta(delta) => Ok(self.apply_delta(*delta)),
            StreamItem::Lagged => {
                self.turn.has_gap = true;
                Ok(Vec::new())
            }
            StreamItem::Reset => {
                self.turn = PartialTurn::default();
                Ok(Vec::new())
            }
            StreamItem::End => {
                self.has_ended = true;
                Ok(Vec::new())
            }
        }
    }

    /// Creates an event of this run with the next sequence number.
    pub(crate) fn event(&mut self, at: Timestamp, kind: EventKind) -> Event {
        let (run_id, agent) = (self.run, Arc::clone(&self.agent));
        self.number(Event { v: EVENT_VERSION, run_id, seq: 0, at, agent, kind })
    }

    /// Gives an event the next sequence number.
    fn number(&mut self, event: Event) -> Event {
        let seq = self.next_seq;
        self.next_seq += 1;
        Event { seq, ..event }
    }

    /// Converts a delta to events. Empty for an unknown kind or a stale delta.
    fn apply_delta(&mut self, delta: Delta) -> Vec<Event> {
        // An unknown kind of delta comes from a newer version and is ignored.
        let Ok(event) = serde_json::from_value::<Event>(delta.event) else { return Vec::new() };
        if delta.epoch < self.epoch {
            return Vec::new();
        }
        self.begin_attempt(delta.epoch);
        // After a lost connection, the deltas of the turn are sent again.
        let last = self.deltas.insert(event.run_id, event.seq);
        if let Some(last) = last.filter(|last| *last >= event.seq) {
            self.deltas.insert(event.run_id, last);
            return Vec::new();
        }
        if event.run_id == self.run && !self.record_delta(&event.kind) {
            return Vec::new();
        }
        vec![self.number(event)]
    }

    /// Records a delta of the run. Returns false if it was already emitted or is emitted with the durable event.
    fn record_delta(&mut self, kind: &EventKind) -> bool {
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

    /// Discards the deltas of an earlier attempt.
    fn begin_attempt(&mut self, epoch: u64) {
        if epoch > self.epoch {
            self.epoch = epoch;
            self.deltas.clear();
        }
    }

    /// Starts a model call. Returns false if it has already started.
    fn begin_turn(&mut self, turn: u32) -> bool {
        let number = Some((self.epoch, turn));
        if self.turn.number == number {
            return false;
        }
        self.turn = PartialTurn { number, ..PartialTurn::default() };
        true
    }

    /// Converts a durable event to events without repeating delivered deltas.
    fn apply_durable(&mut self, event: RunEvent) -> Result<Vec<Event>, CliError> {
        self.begin_attempt(event.epoch);
        let at = event.at.0;
        let kinds = self.event_kinds(event)?;
        Ok(kinds.into_iter().map(|kind| self.event(at, kind)).collect())
    }

    /// Converts the kind and the data of a durable event.
    fn event_kinds(&mut self, event: RunEvent) -> Result<Vec<EventKind>, CliError> {
        let RunEvent { kind, data, message, result, at, .. } = event;
        let body = data.map_or_else(|| "{}".to_owned(), |data| data.to_string());
        let parsed = DurableEvent::parse(&kind, &body);
        let parsed =
            parsed.map_err(|error| CliError::new(ErrorKind::Malformed, error.to_string()))?;
        Ok(match (parsed, message) {
            (DurableEvent::AttemptStarted(started), _) => {
                self.is_parked = false;
                self.started.get_or_insert(at.0);
                vec![EventKind::RunStarted { resumed: started.strategy == AttemptReason::Resume }]
            }
            (DurableEvent::UserMessage(_), Some(message)) => {
                vec![EventKind::UserMessage { message: message.into() }]
            }
            (DurableEvent::TurnStarted(started), _) => {
                let turn = started.turn;
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
            (parsed, _) => self.convert_state_event(parsed, at.0)?,
        })
    }

    /// Converts an event that is not part of the conversation.
    fn convert_state_event(
        &mut self,
        event: DurableEvent,
        at: Timestamp,
    ) -> Result<Vec<EventKind>, CliError> {
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
                let message = format!("{}; the run is retried", retry.detail);
                Some(EventKind::Warning { message })
            }
            DurableEvent::WorkerLost(_) => {
                let message = "the worker of the run was lost; the run is retried".to_owned();
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
                (self.is_parked, self.has_ended) = (false, true);
                Some(self.end_event(ended, at)?)
            }
            _ => None,
        };
        Ok(Vec::from_iter(kind))
    }

    /// Returns the events that end a turn, and the events of the turn that were not delivered as deltas.
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

    /// Returns the event that ends the run.
    fn end_event(&mut self, ended: RunEnded, at: Timestamp) -> Result<EventKind, CliError> {
        Ok(match ended.status {
            RunStatus::Ok => EventKind::Finished { summary: Box::new(self.summary(&ended, at)?) },
            RunStatus::Cancelled => EventKind::Cancelled,
            _ => EventKind::Failed { error: Box::new(error(ended)) },
        })
    }

    /// Returns the summary of a successful run.
    fn summary(&mut self, ended: &RunEnded, at: Timestamp) -> Result<RunSummary, CliError> {
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
            summary.map_err(|error| CliError::new(ErrorKind::Malformed, error.to_string()))?;
        summary.reasoning = std::mem::take(&mut self.reasoning);
        summary.tool_results = std::mem::take(&mut self.results);
        Ok(summary)
    }
}

impl PartialTurn {
    /// Returns the parts of the message that were not emitted. These are all parts if there were no deltas.
    fn rest(&self, message: &Message) -> Vec<EventKind> {
        if !self.text.is_empty() || !self.reasoning.is_empty() {
            let rest = |full: &str, emitted: &str| {
                full.strip_prefix(emitted).filter(|rest| !rest.is_empty()).map(str::to_owned)
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

/// Returns the reasoning of a message.
fn reasoning(message: &Message) -> String {
    let parts = message.parts.iter().filter_map(|part| match part {
        ContentPart::Reasoning(reasoning) => Some(reasoning.text.as_str()),
        _ => None,
    });
    parts.collect()
}

/// Returns the error of a failed run.
fn error(ended: RunEnded) -> ErrorInfo {
    let code = ended.code.unwrap_or(OutcomeCode::Internal);
    let detail = ended.detail.unwrap_or_else(|| "the run failed".to_owned());
    match ended.error {
        Some(error) => ErrorInfo::new(error.kind, error.code, detail),
        // Event logs of earlier versions have no error.
        None => ErrorInfo::new(code.error_kind(), code.as_str(), detail),
    }
}

#[cfg(test)]
mod tests;
