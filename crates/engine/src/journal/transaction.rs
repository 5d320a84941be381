//! Writes of an attempt as values, and the transaction that applies them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use provost_core::durable::DurableEvent;
use provost_core::lifecycle::{RequestError, StepKind};
use provost_core::recovery::{EffectClass, EffectKey};
use provost_core::scheduling::Epoch;
use provost_core::{Currency, InputId, MessageId};
use provost_failpoint::failpoint;
use provost_store::table::work::{input, journal, message, session, session_entry};
use provost_store::{StoredText, Tx, Wakeup};

use crate::budget::{self, Reservation};
use crate::error::EngineError;
use crate::journal::transactional::TxActions;
use crate::run::event::{self, NamedEvent};
use crate::worker::lease::Lease;

/// Body of a step that records that the session contains all earlier messages.
pub(crate) const SESSION_SAVED: &str = r#"{"feed":"saved"}"#;

/// A message to store.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NewMessage {
    pub(crate) id: MessageId,
    pub(crate) body: StoredText,
    /// True if its row exists already.
    pub(crate) known: bool,
}

/// A message that a session adds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SessionMessageRef {
    Known(MessageId),
    New(NewMessage),
}

/// A change of the session.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SessionUpdate {
    pub(crate) base: u64,
    pub(crate) pop: usize,
    pub(crate) entries: Vec<SessionMessageRef>,
}

/// Start or commit of one step, with all writes that belong to it.
#[derive(Debug, Clone)]
pub(crate) struct StepWrite {
    pub(crate) step: u64,
    pub(crate) kind: StepKind,
    /// Number of the journal entry of a commit; `None` for a start.
    pub(crate) entry_no: Option<u64>,
    /// True if the step was started before this write.
    pub(crate) was_started: bool,
    pub(crate) body: StoredText,
    pub(crate) message: Option<NewMessage>,
    pub(crate) effect_key: Option<EffectKey>,
    pub(crate) effect_class: Option<EffectClass>,
    pub(crate) input_hash: Option<String>,
    pub(crate) call_id: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) reserved_micros: i64,
    pub(crate) released_micros: i64,
    /// Currency of the reservation; `None` if the cost of the call is unknown.
    pub(crate) currency: Option<Currency>,
    pub(crate) cost_micros: i64,
    pub(crate) claimed_input: Option<InputId>,
    pub(crate) consumes_inputs: bool,
    /// True if all steps that were started before end with this write.
    pub(crate) closes_open: bool,
    pub(crate) session: Option<SessionUpdate>,
    /// True if the next journal entry, which records that the session contains all messages, is stored with this
    /// step.
    pub(crate) saved: bool,
    pub(crate) restricted: bool,
    /// Session revision from which the run starts, for its first write.
    pub(crate) base_revision: Option<u64>,
    /// Flag to set if the run has pending inputs.
    pub(crate) pending_inputs_flag: Option<Arc<AtomicBool>>,
    pub(crate) events: Vec<DurableEvent>,
    pub(crate) next_step: u64,
    /// Number of the first in-flight step.
    pub(crate) open_from: u64,
    /// Database effects of the call whose result this write commits.
    pub(crate) tx_actions: TxActions,
    /// Changes of shared state.
    pub(crate) shared: TxActions,
    /// Step that must be persisted before this write, or 0.
    pub(crate) after: u64,
}

impl StepWrite {
    /// Creates the start of a step.
    pub(crate) fn begin(step: u64, kind: StepKind) -> Self {
        Self {
            step,
            kind,
            entry_no: None,
            was_started: false,
            body: StoredText::Inline(String::new()),
            message: None,
            effect_key: None,
            effect_class: None,
            input_hash: None,
            call_id: None,
            name: None,
            reserved_micros: 0,
            released_micros: 0,
            currency: None,
            cost_micros: 0,
            claimed_input: None,
            consumes_inputs: false,
            closes_open: false,
            session: None,
            saved: false,
            restricted: false,
            base_revision: None,
            pending_inputs_flag: None,
            events: Vec::new(),
            next_step: 0,
            open_from: 0,
            tx_actions: TxActions::default(),
            shared: TxActions::default(),
            after: 0,
        }
    }

    /// Creates the commit of a step with its journal entry.
    pub(crate) fn commit(step: u64, kind: StepKind, entry_no: u64, body: StoredText) -> Self {
        Self { entry_no: Some(entry_no), body, ..Self::begin(step, kind) }
    }

    /// Returns the durable events of the write, each with its message.
    fn named_events(&self) -> impl Iterator<Item = NamedEvent<'_>> {
        let message_id = self.message.as_ref().map(|message| message.id);
        self.events.iter().map(move |event| NamedEvent {
            event,
            message_id: message_id.filter(|_| event.has_message()),
        })
    }

    /// Returns true if the write is progress of the run. Reporting the same loss in every attempt is none.
    fn is_progress(&self) -> bool {
        self.entry_no.is_some() && self.kind != StepKind::Note
    }

    /// Returns true if the write itself can be rejected. It is then a job of its own, so that its rejection does not
    /// lose other writes.
    pub(crate) fn can_be_rejected(&self, lease: &Lease) -> bool {
        let reserves = self.entry_no.is_none() && self.kind == StepKind::ModelCall;
        !self.tx_actions.0.is_empty() || (reserves && !lease.budgets.is_empty())
    }
}

/// Starts and commits steps with their events, messages and further writes: all of them or none. Fails if the lease is
/// lost.
pub(crate) fn apply_writes(
    tx: &mut Tx<'_>,
    lease: &Lease,
    writes: &[StepWrite],
) -> Result<(), EngineError> {
    let (Some(first), Some(last)) = (writes.first(), writes.last()) else { return Ok(()) };
    failpoint!("step.before");
    let events: usize = writes.iter().map(|write| write.events.len()).sum();
    let advance = journal::RunProgress {
        run: lease.run,
        epoch: lease.epoch,
        events: events as u64,
        next_step: writes.iter().map(|write| write.next_step).max().unwrap_or_default(),
        // One of these writes can end in-flight steps, so the minimum counts.
        open_from: writes.iter().map(|write| write.open_from).min().unwrap_or_default(),
        progress: writes.iter().any(StepWrite::is_progress),
        restricted: last.restricted,
        cost_micros: writes.iter().map(|write| write.cost_micros).sum(),
        base_revision: writes.iter().find_map(|write| write.base_revision),
    };
    let Some(seq) = journal::update_progress(tx, &advance)? else {
        return Err(fenced_error(tx, lease)?);
    };
    if first.after != 0 && !journal::is_committed(tx, lease.run, first.after)? {
        // The attempt receives the error of that earlier write first.
        return Err(EngineError::bug("an earlier write was lost"));
    }
    for (place, write) in writes.iter().enumerate() {
        if place > 0 {
            failpoint!("step.before");
        }
        apply_write(tx, lease, write)?;
        if let Some(change) = &write.session {
            if write.saved {
                // The same failpoints as for a step of its own, which this entry is if the writer was faster.
                failpoint!("step.after");
                failpoint!("step.before");
            }
            update_session(tx, lease, change)?;
        }
        failpoint!("step.after");
    }
    append(tx, lease, seq, writes)?;
    // After all events of the steps: events that the actions append get higher numbers.
    for write in writes {
        write.tx_actions.apply(tx)?;
        write.shared.apply(tx)?;
    }
    if events > 0 {
        tx.wake(Wakeup::Events(lease.run));
    }
    Ok(())
}

/// Starts or commits a step, settles its budget, and marks the inputs that it claims or consumes.
fn apply_write(tx: &mut Tx<'_>, lease: &Lease, write: &StepWrite) -> Result<(), EngineError> {
    let message_id = write.message.as_ref().map(|message| message.id);
    if let Some(new) = write.message.as_ref().filter(|message| !message.known) {
        message::put(tx, &lease.namespace, new.id, &new.body)?;
    }
    // First, so that the reservation of a lost try is available again.
    budget::settle(tx, lease, write.released_micros, write.cost_micros)?;
    match write.entry_no {
        None => begin(tx, lease, write)?,
        Some(entry_no) => {
            let commit = journal::CommitStep {
                run: lease.run,
                step: write.step,
                kind: write.kind,
                epoch: lease.epoch,
                entry_no,
                begun: write.was_started,
                call_id: write.call_id.as_deref(),
                name: write.name.as_deref(),
                message_id,
                body: &write.body,
                saved: write.saved,
            };
            journal::commit_step(tx, &commit)?;
        }
    }
    if let Some(input) = write.claimed_input {
        journal::claim_input(tx, input, lease.run, lease.epoch)?;
    }
    if write.closes_open {
        journal::fail_open_steps(tx, lease.run, write.open_from)?;
    }
    if write.consumes_inputs {
        journal::consume_inputs(tx, lease.run)?;
    }
    if let Some(found) = &write.pending_inputs_flag
        && input::has_pending(tx, lease.run)?
    {
        found.store(true, Ordering::Release);
    }
    Ok(())
}

/// Reserves the budget of a model call and inserts the start of the step.
fn begin(tx: &mut Tx<'_>, lease: &Lease, write: &StepWrite) -> Result<(), EngineError> {
    if write.kind == StepKind::ModelCall {
        let currency = write.currency.as_ref().map(Currency::as_str);
        budget::reserve(tx, lease, Reservation { micros: write.reserved_micros, currency })?;
    }
    let begin = journal::BeginStep {
        run: lease.run,
        step: write.step,
        kind: write.kind,
        epoch: lease.epoch,
        effect_key: write.effect_key.as_ref(),
        effect_class: write.effect_class,
        input_hash: write.input_hash.as_deref(),
        call_id: write.call_id.as_deref(),
        name: write.name.as_deref(),
        reserved_micros: write.reserved_micros,
        again: write.was_started,
    };
    journal::begin_step(tx, &begin)?;
    Ok(())
}

/// Adds and removes messages of the session. Fails if the session has another revision.
fn update_session(
    tx: &mut Tx<'_>,
    lease: &Lease,
    change: &SessionUpdate,
) -> Result<(), EngineError> {
    let session = lease.session();
    let added = change.entries.len() as u64;
    let Some(first) = session::advance(tx, session, change.base, added)? else {
        let (id, base) = (&lease.session, change.base);
        return Err(EngineError::bug(format!("session {id} is not at revision {base}")));
    };
    let revision = change.base + 1;
    if change.pop > 0 {
        journal::remove_last_messages(tx, session, revision, change.pop as u64)?;
    }
    let mut messages = Vec::with_capacity(change.entries.len());
    for added in &change.entries {
        messages.push(match added {
            SessionMessageRef::Known(id) => *id,
            SessionMessageRef::New(new) => {
                message::put(tx, &lease.namespace, new.id, &new.body)?;
                new.id
            }
        });
    }
    let new = session_entry::NewSessionMessages { first, messages: &messages, revision };
    session_entry::add(tx, session, lease.run, new)?;
    Ok(())
}

/// Appends the events of steps, starting at the sequence number `seq`.
fn append(
    tx: &mut Tx<'_>,
    lease: &Lease,
    seq: u64,
    writes: &[StepWrite],
) -> Result<(), EngineError> {
    let Lease { run, epoch, attempt, .. } = *lease;
    let place = journal::EventHeader { run, epoch, attempt, seq };
    event::append_at(tx, place, writes.iter().flat_map(StepWrite::named_events))
}

/// Returns the error of an attempt that another attempt has replaced.
pub(crate) fn fenced_error(tx: &mut Tx<'_>, lease: &Lease) -> Result<EngineError, EngineError> {
    let current = journal::current_epoch(tx, lease.run)?.unwrap_or_default();
    let (held, current) = (Epoch::new(lease.epoch), Epoch::new(current));
    Ok(RequestError::Fenced { held, current }.into())
}
