//! What an attempt writes, as values, and the one transaction that writes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use provost_core::durable::DurableEvent;
use provost_core::lifecycle::{StepKind, WorkError};
use provost_core::recovery::EffectClass;
use provost_core::scheduling::Epoch;
use provost_core::{Currency, InputId, MessageId};
use provost_failpoint::failpoint;
use provost_store::table::work::{input, journal, message, session, session_entry};
use provost_store::{Body, Hint, Tx};

use crate::budget::{self, Reservation};
use crate::error::EngineError;
use crate::journal::transactional::Works;
use crate::run::event::{self, NamedEvent};
use crate::worker::lease::Lease;

/// The body of a step that says that the session has everything.
pub(crate) const SAVED: &str = r#"{"feed":"saved"}"#;

/// A message of a write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NewMessage {
    pub(crate) id: MessageId,
    pub(crate) body: Body,
    /// True if its row was there before.
    pub(crate) known: bool,
}

/// A message that a session gets.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Entry {
    Known(MessageId),
    New(NewMessage),
}

/// A change of the session.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SessionWrite {
    pub(crate) base: u64,
    pub(crate) pop: usize,
    pub(crate) entries: Vec<Entry>,
}

/// One step begun or committed, with everything that belongs to it.
#[derive(Debug, Clone)]
pub(crate) struct StepWrite {
    pub(crate) step: u64,
    pub(crate) kind: StepKind,
    /// The place in the order of feeding, if it is committed; else it begins.
    pub(crate) fed: Option<u64>,
    /// True if what is committed, or begins once more, was begun before.
    pub(crate) begun: bool,
    pub(crate) body: Body,
    pub(crate) message: Option<NewMessage>,
    pub(crate) effect_key: Option<String>,
    pub(crate) effect_class: Option<EffectClass>,
    pub(crate) input_hash: Option<String>,
    pub(crate) call_id: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) reserved_micros: i64,
    pub(crate) released_micros: i64,
    /// What the reservation is in; nothing, if nobody knows what the call may cost.
    pub(crate) currency: Option<Currency>,
    pub(crate) cost_micros: i64,
    pub(crate) claimed_input: Option<InputId>,
    pub(crate) consumes_inputs: bool,
    /// True if nothing that was begun before it goes on.
    pub(crate) closes_open: bool,
    pub(crate) session: Option<SessionWrite>,
    /// True if that the session has everything is fed with it, right after what it commits itself.
    pub(crate) saved: bool,
    pub(crate) restricted: bool,
    /// The revision of the session that the run starts from, if it begins with this.
    pub(crate) base_revision: Option<u64>,
    /// What is set if something waits for the run.
    pub(crate) looks_for_inputs: Option<Arc<AtomicBool>>,
    pub(crate) events: Vec<DurableEvent>,
    pub(crate) next_step: u64,
    /// No step before this one is open.
    pub(crate) open_from: u64,
    /// What a call wants to have done in the transaction that commits its result.
    pub(crate) works: Works,
    /// What it changes of what outlives the run.
    pub(crate) shared: Works,
    /// The step that must be on disk before this, or 0.
    pub(crate) after: u64,
}

impl StepWrite {
    pub(crate) fn begin(step: u64, kind: StepKind) -> Self {
        Self {
            step,
            kind,
            fed: None,
            begun: false,
            body: Body::Inline(String::new()),
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
            looks_for_inputs: None,
            events: Vec::new(),
            next_step: 0,
            open_from: 0,
            works: Works::default(),
            shared: Works::default(),
            after: 0,
        }
    }

    pub(crate) fn commit(step: u64, kind: StepKind, fed: u64, body: Body) -> Self {
        Self { fed: Some(fed), body, ..Self::begin(step, kind) }
    }

    /// Its events, for the log.
    fn named_events(&self) -> impl Iterator<Item = NamedEvent<'_>> {
        let message_id = self.message.as_ref().map(|message| message.id);
        self.events.iter().map(move |event| NamedEvent {
            event,
            message_id: message_id.filter(|_| event.has_message()),
        })
    }

    /// True if the run gets on with it. A note that every attempt writes again is no progress.
    fn is_progress(&self) -> bool {
        self.fed.is_some() && self.kind != StepKind::Note
    }

    /// True if it can be refused for what it says itself. It is then written alone: others must not be lost with it.
    pub(crate) fn is_refusable(&self, lease: &Lease) -> bool {
        let reserves = self.fed.is_none() && self.kind == StepKind::ModelCall;
        !self.works.0.is_empty() || (reserves && !lease.budgets.is_empty())
    }
}

/// Begins and commits steps, T1 and T2, all of them or none, fenced.
pub(crate) fn steps(
    tx: &mut Tx<'_>,
    lease: &Lease,
    writes: &[StepWrite],
) -> Result<(), EngineError> {
    let (Some(first), Some(last)) = (writes.first(), writes.last()) else { return Ok(()) };
    failpoint!("step.before");
    let events: usize = writes.iter().map(|write| write.events.len()).sum();
    let advance = journal::Advance {
        run: lease.run,
        epoch: lease.epoch,
        events: events as u64,
        next_step: writes.iter().map(|write| write.next_step).max().unwrap_or_default(),
        // One of them may be what closes the steps.
        open_from: writes.iter().map(|write| write.open_from).min().unwrap_or_default(),
        progress: writes.iter().any(StepWrite::is_progress),
        restricted: last.restricted,
        cost_micros: writes.iter().map(|write| write.cost_micros).sum(),
        base_revision: writes.iter().find_map(|write| write.base_revision),
    };
    let Some(seq) = journal::advance(tx, &advance)? else { return Err(fenced(tx, lease)?) };
    if first.after != 0 && !journal::is_committed(tx, lease.run, first.after)? {
        // The attempt hears the error of that write first.
        return Err(EngineError::bug("a write before this one was lost"));
    }
    for (place, write) in writes.iter().enumerate() {
        if place > 0 {
            failpoint!("step.before");
        }
        step(tx, lease, write)?;
        if let Some(change) = &write.session {
            if write.saved {
                // The same places as if it was a step of its own, which it is where the writer was quicker.
                failpoint!("step.after");
                failpoint!("step.before");
            }
            commit_session(tx, lease, change)?;
        }
        failpoint!("step.after");
    }
    append(tx, lease, seq, writes)?;
    // Behind all events of the steps: what it tells itself has later numbers, and the log rises with them.
    for write in writes {
        write.works.carry_out(tx)?;
        write.shared.carry_out(tx)?;
    }
    if events > 0 {
        tx.hint(Hint::Events(lease.run));
    }
    Ok(())
}

/// Begins or commits a step.
fn step(tx: &mut Tx<'_>, lease: &Lease, write: &StepWrite) -> Result<(), EngineError> {
    let message_id = write.message.as_ref().map(|message| message.id);
    if let Some(new) = write.message.as_ref().filter(|message| !message.known) {
        message::put(tx, &lease.namespace, new.id, &new.body)?;
    }
    // First, so that what a lost try had set aside can be set aside again.
    budget::settle(tx, lease, write.released_micros, write.cost_micros)?;
    match write.fed {
        None => begin(tx, lease, write)?,
        Some(fed) => {
            let commit = journal::StepCommit {
                run: lease.run,
                step: write.step,
                kind: write.kind.as_str(),
                epoch: lease.epoch,
                fed,
                begun: write.begun,
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
    if let Some(found) = &write.looks_for_inputs
        && input::waits_for_run(tx, lease.run)?
    {
        found.store(true, Ordering::Release);
    }
    Ok(())
}

fn begin(tx: &mut Tx<'_>, lease: &Lease, write: &StepWrite) -> Result<(), EngineError> {
    if write.kind == StepKind::ModelCall {
        let currency = write.currency.as_ref().map(Currency::as_str);
        budget::reserve(tx, lease, Reservation { micros: write.reserved_micros, currency })?;
    }
    let begin = journal::StepBegin {
        run: lease.run,
        step: write.step,
        kind: write.kind.as_str(),
        epoch: lease.epoch,
        effect_key: write.effect_key.as_deref(),
        effect_class: write.effect_class.map(EffectClass::as_str),
        input_hash: write.input_hash.as_deref(),
        call_id: write.call_id.as_deref(),
        name: write.name.as_deref(),
        reserved_micros: write.reserved_micros,
        again: write.begun,
    };
    journal::begin_step(tx, &begin)?;
    Ok(())
}

fn commit_session(
    tx: &mut Tx<'_>,
    lease: &Lease,
    change: &SessionWrite,
) -> Result<(), EngineError> {
    let session = lease.session();
    let added = change.entries.len() as u64;
    let Some(first) = session::advance(tx, session, change.base, added)? else {
        let (id, base) = (&lease.session, change.base);
        return Err(EngineError::bug(format!("session {id} is not at revision {base}")));
    };
    let revision = change.base + 1;
    if change.pop > 0 {
        journal::pop_entries(tx, session, revision, change.pop as u64)?;
    }
    let mut messages = Vec::with_capacity(change.entries.len());
    for added in &change.entries {
        messages.push(match added {
            Entry::Known(id) => *id,
            Entry::New(new) => {
                message::put(tx, &lease.namespace, new.id, &new.body)?;
                new.id
            }
        });
    }
    let new = session_entry::NewEntries { first, messages: &messages, revision };
    session_entry::add(tx, session, lease.run, new)?;
    Ok(())
}

/// Appends the events of steps, from a number on that was looked up before.
fn append(
    tx: &mut Tx<'_>,
    lease: &Lease,
    seq: u64,
    writes: &[StepWrite],
) -> Result<(), EngineError> {
    let Lease { run, epoch, attempt, .. } = *lease;
    let place = journal::EventPlace { run, epoch, attempt, seq };
    event::append_at(tx, place, writes.iter().flat_map(StepWrite::named_events))
}

/// The error of a writer that another has replaced.
pub(crate) fn fenced(tx: &mut Tx<'_>, lease: &Lease) -> Result<EngineError, EngineError> {
    let current = journal::current_epoch(tx, lease.run)?.unwrap_or_default();
    let (held, current) = (Epoch::new(lease.epoch), Epoch::new(current));
    Ok(WorkError::Fenced { held, current }.into())
}
