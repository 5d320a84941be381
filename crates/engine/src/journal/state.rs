//! In-memory state of an attempt's journal. Only this attempt writes the journal, so the counters need no query.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use provost_agent::run::JournalEntry;
use provost_core::lifecycle::StepKind;
use provost_core::recovery::{EffectClass, EffectKey};
use provost_core::{Env, InputId, Message, MessageId, Timestamp};
use provost_store::StoredText;

use crate::error::EngineError;
use crate::journal::entry::EncodedEntry;
use crate::journal::events::{self, EntryContext};
use crate::journal::transaction::{NewMessage, StepWrite};

/// A step that was started and has no outcome.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StartedStep {
    pub(crate) step: u64,
    pub(crate) kind: StepKind,
    pub(crate) key: Option<EffectKey>,
    pub(crate) class: Option<EffectClass>,
    pub(crate) call_id: Option<String>,
    /// How often it was started.
    pub(crate) tries: u64,
    /// True if another attempt started it, so its outcome is unknown.
    pub(crate) lost: bool,
    /// Amount reserved in the budgets, in millionths.
    pub(crate) reserved_micros: i64,
    /// Time at which this attempt started the tool call.
    pub(crate) started_at: Option<Timestamp>,
}

/// A message that has a row.
#[derive(Debug, Clone)]
pub(crate) struct PersistedMessage {
    pub(crate) id: MessageId,
    pub(crate) message: Arc<Message>,
}

/// Counters, in-flight steps, and messages that the session does not have yet.
#[derive(Debug)]
pub(crate) struct JournalState {
    pub(crate) env: Env,
    pub(crate) next_step: u64,
    pub(crate) next_entry_no: u64,
    pub(crate) turn: u32,
    pub(crate) open: Vec<StartedStep>,
    /// True in a restricted turn: calls that are unsafe to repeat do not run until a user message arrives.
    pub(crate) restricted: bool,
    /// Messages since the last commit of the session, by their stored text.
    pub(crate) recent: HashMap<String, MessageId>,
    /// Steps of tool results since the last commit of the session, by call id.
    pub(crate) results: HashMap<String, u64>,
    /// True if the model may not have answered an input of this or an earlier attempt.
    unanswered: bool,
    /// Inputs that the driver has fetched and not yet recorded.
    expected: VecDeque<(InputId, PersistedMessage)>,
    /// User that the run works for, if known.
    pub(crate) user: Option<String>,
    /// Current revision of the session.
    pub(crate) revision: u64,
    /// Last entry in a snapshot.
    pub(crate) snapshot_entry_no: u64,
    /// Message that the run answers. It was stored when the run was submitted.
    pub(crate) first_message: Option<PersistedMessage>,
    /// True if the last response requested exactly one call, so no other call starts with it.
    pub(super) one_call: bool,
}

impl JournalState {
    /// Creates the state of a run without entries.
    pub(crate) fn new(env: Env) -> Self {
        Self {
            env,
            next_step: 1,
            next_entry_no: 1,
            turn: 0,
            open: Vec::new(),
            restricted: false,
            recent: HashMap::new(),
            results: HashMap::new(),
            unanswered: true,
            expected: VecDeque::new(),
            user: None,
            revision: 0,
            snapshot_entry_no: 0,
            first_message: None,
            one_call: false,
        }
    }

    /// Records a received input, whose message the next user message of the run is.
    pub(crate) fn expect_input(&mut self, input: InputId, id: MessageId, message: Arc<Message>) {
        self.expected.push_back((input, PersistedMessage { id, message }));
    }

    /// Allocates the number of a new step.
    pub(crate) fn take_step(&mut self) -> u64 {
        self.next_step += 1;
        self.next_step - 1
    }

    /// Returns the number of the first in-flight step, or the next number if there is none.
    pub(crate) fn first_in_flight_step(&self) -> u64 {
        self.open.iter().map(|open| open.step).min().unwrap_or(self.next_step)
    }

    /// Returns the write that commits a journal entry, and updates the counters, steps and messages.
    pub(crate) fn commit(
        &mut self,
        encoded: EncodedEntry<'_>,
        entry: Option<&JournalEntry>,
    ) -> Result<StepWrite, EngineError> {
        let call = match entry {
            Some(JournalEntry::ToolFinished { result, .. }) => Some(result),
            _ => None,
        };
        let open = self.open.iter().position(|open| match call {
            Some(result) => open.call_id.as_deref() == Some(result.call_id.as_str()),
            None => open.kind == encoded.kind && open.call_id.is_none(),
        });
        let open = open.map(|context| self.open.remove(context));
        let step = open.as_ref().map_or_else(|| self.take_step(), |open| open.step);
        let entry_no = self.next_entry_no;
        self.next_entry_no += 1;
        let mut write =
            StepWrite::commit(step, encoded.kind, entry_no, StoredText::new(encoded.body)?);
        write.was_started = open.is_some();
        // Computed before in-flight steps are removed below: the transaction must still find their rows.
        write.open_from = self.first_in_flight_step();
        let was_started = open.as_ref().and_then(|open| open.started_at);
        write.released_micros = open.map_or(0, |open| open.reserved_micros);
        if let Some(JournalEntry::Stopped { .. }) = entry {
            // The state machine has ended all in-flight steps.
            write.released_micros +=
                self.open.drain(..).map(|open| open.reserved_micros).sum::<i64>();
            write.closes_open = true;
        }
        if let Some(message) = encoded.message {
            write.message = Some(self.store_message(message, entry, &mut write.claimed_input)?);
        }
        if let Some(result) = call {
            write.call_id = Some(result.call_id.clone());
            write.name = Some(result.name.clone());
            self.results.insert(result.call_id.clone(), step);
        }
        if let Some(JournalEntry::UserMessage { .. }) = entry {
            // A user message has arrived since the outcome became unknown.
            self.restricted = false;
        }
        write.restricted = self.restricted;
        self.unanswered |= write.claimed_input.is_some();
        if let Some(JournalEntry::ModelResponded { response, .. }) = entry {
            self.one_call = response.message.tool_calls().count() == 1;
            write.consumes_inputs = std::mem::take(&mut self.unanswered);
        }
        // A call whose cost remains unknown is charged its reservation.
        write.cost_micros = events::cost_micros(entry).unwrap_or(write.released_micros);
        let elapsed = was_started.map(|was_started| self.env.now().since(was_started));
        let context = EntryContext { turn: self.turn, step, elapsed };
        write.events.extend(events::event_of(entry, context));
        write.next_step = self.next_step;
        Ok(write)
    }

    /// Prepares a message for storage. A message that was read from a row keeps that row, unless a hook has changed
    /// it.
    fn store_message(
        &mut self,
        message: &Message,
        entry: Option<&JournalEntry>,
        claimed: &mut Option<InputId>,
    ) -> Result<NewMessage, EngineError> {
        let stored = match entry {
            None => self.first_message.take(),
            Some(JournalEntry::UserMessage { .. }) => {
                let (input, stored) = self.expected.pop_front().unzip();
                *claimed = input;
                stored
            }
            _ => None,
        };
        let stored = stored.filter(|stored| stored.message.parts == message.parts);
        let id = stored.as_ref().map_or_else(|| self.env.id(), |stored| stored.id);
        let text = serde_json::to_string(message)?;
        self.recent.insert(text.clone(), id);
        Ok(NewMessage { id, body: StoredText::new(text)?, known: stored.is_some() })
    }
}
