//! What an attempt knows about its run's journal; only it writes there, so it counts in memory.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use provost_agent::run::Feed;
use provost_core::lifecycle::StepKind;
use provost_core::recovery::{EffectClass, EffectKey};
use provost_core::{Env, InputId, Message, MessageId, Timestamp};
use provost_store::Body;

use crate::error::EngineError;
use crate::journal::entry::Record;
use crate::journal::events::{self, EventPlace};
use crate::journal::transaction::{NewMessage, StepWrite};

/// A step that was begun and has no outcome.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OpenStep {
    pub(crate) step: u64,
    pub(crate) kind: StepKind,
    pub(crate) key: Option<EffectKey>,
    pub(crate) class: Option<EffectClass>,
    pub(crate) call_id: Option<String>,
    /// How often it was begun.
    pub(crate) tries: u64,
    /// True if another attempt began it, so that nobody knows what came of it.
    pub(crate) lost: bool,
    /// Money set aside for it.
    pub(crate) reserved_micros: i64,
    /// When this attempt began the tool call.
    pub(crate) begun: Option<Timestamp>,
}

/// A message that has a row.
#[derive(Debug, Clone)]
pub(crate) struct StoredMessage {
    pub(crate) id: MessageId,
    pub(crate) message: Arc<Message>,
}

/// Counters, open steps, and what the session does not have yet.
#[derive(Debug)]
pub(crate) struct JournalState {
    pub(crate) env: Env,
    pub(crate) next_step: u64,
    pub(crate) next_fed: u64,
    pub(crate) turn: u32,
    pub(crate) open: Vec<OpenStep>,
    /// Tools whose repetition does harm are refused until a person has spoken.
    pub(crate) restricted: bool,
    /// Messages since the last commit of the session, by their stored form.
    pub(crate) recent: HashMap<String, MessageId>,
    /// Results since the last commit of the session, by their call.
    pub(crate) results: HashMap<String, u64>,
    /// True if the run has read something, or an attempt before this may have, that the model has not answered.
    unanswered: bool,
    /// Inputs that were given to the driver and not yet taken in.
    expected: VecDeque<(InputId, StoredMessage)>,
    /// For whom the run is, if that is known.
    pub(crate) user: Option<String>,
    /// Where the session stands.
    pub(crate) revision: u64,
    /// The last feed that is in a snapshot.
    pub(crate) snapshot_fed: u64,
    /// The message that the run answers, which was stored when it was accepted.
    pub(crate) first_message: Option<StoredMessage>,
    /// True if the last answer asked for one call only, so that none begins beside it.
    pub(super) one_call: bool,
}

impl JournalState {
    pub(crate) fn new(env: Env) -> Self {
        Self {
            env,
            next_step: 1,
            next_fed: 1,
            turn: 0,
            open: Vec::new(),
            restricted: false,
            recent: HashMap::new(),
            results: HashMap::new(),
            unanswered: true,
            expected: VecDeque::new(),
            user: None,
            revision: 0,
            snapshot_fed: 0,
            first_message: None,
            one_call: false,
        }
    }

    pub(crate) fn expect_input(&mut self, input: InputId, id: MessageId, message: Arc<Message>) {
        self.expected.push_back((input, StoredMessage { id, message }));
    }

    /// The number of a new step.
    pub(crate) fn take_step(&mut self) -> u64 {
        self.next_step += 1;
        self.next_step - 1
    }

    /// The first step that has no outcome, or the next one if all have.
    pub(crate) fn open_from(&self) -> u64 {
        self.open.iter().map(|open| open.step).min().unwrap_or(self.next_step)
    }

    /// Prepares the write that commits a feed.
    pub(crate) fn commit(
        &mut self,
        record: Record<'_>,
        feed: Option<&Feed>,
    ) -> Result<StepWrite, EngineError> {
        let call = match feed {
            Some(Feed::ToolFinished { result, .. }) => Some(result),
            _ => None,
        };
        let open = self.open.iter().position(|open| match call {
            Some(result) => open.call_id.as_deref() == Some(result.call_id.as_str()),
            None => open.kind == record.kind && open.call_id.is_none(),
        });
        let open = open.map(|place| self.open.remove(place));
        let step = open.as_ref().map_or_else(|| self.take_step(), |open| open.step);
        let fed = self.next_fed;
        self.next_fed += 1;
        let mut write = StepWrite::commit(step, record.kind, fed, Body::new(record.body)?);
        write.begun = open.is_some();
        // Before what is closed here is forgotten: that is still looked for.
        write.open_from = self.open_from();
        let begun = open.as_ref().and_then(|open| open.begun);
        write.released_micros = open.map_or(0, |open| open.reserved_micros);
        if let Some(Feed::Stopped { .. }) = feed {
            // The machine has closed everything that was under way.
            write.released_micros +=
                self.open.drain(..).map(|open| open.reserved_micros).sum::<i64>();
            write.closes_open = true;
        }
        if let Some(message) = record.message {
            write.message = Some(self.store_message(message, feed, &mut write.claimed_input)?);
        }
        if let Some(result) = call {
            write.call_id = Some(result.call_id.clone());
            write.name = Some(result.name.clone());
            self.results.insert(result.call_id.clone(), step);
        }
        if let Some(Feed::UserSaid { .. }) = feed {
            // A person has spoken since the outcome became unknown.
            self.restricted = false;
        }
        write.restricted = self.restricted;
        self.unanswered |= write.claimed_input.is_some();
        if let Some(Feed::ModelAnswered { response, .. }) = feed {
            self.one_call = response.message.tool_calls().count() == 1;
            write.consumes_inputs = std::mem::take(&mut self.unanswered);
        }
        // A call whose cost never becomes known counts with what was set aside for it.
        write.cost_micros = events::cost_of(feed).unwrap_or(write.released_micros);
        let ran = begun.map(|begun| self.env.now().since(begun));
        let place = EventPlace { turn: self.turn, step, ran };
        write.events.extend(events::of_feed(feed, place));
        write.next_step = self.next_step;
        Ok(write)
    }

    /// A message that came from a row keeps that row, unless a hook has changed it.
    fn store_message(
        &mut self,
        message: &Message,
        feed: Option<&Feed>,
        claimed: &mut Option<InputId>,
    ) -> Result<NewMessage, EngineError> {
        let stored = match feed {
            None => self.first_message.take(),
            Some(Feed::UserSaid { .. }) => {
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
        Ok(NewMessage { id, body: Body::new(text)?, known: stored.is_some() })
    }
}
