//! Journal of one run attempt: persists effects, journal entries and session messages under the attempt's lease.
//!
//! Every write is fenced by the epoch of the run. A write is enqueued without waiting. The writer keeps the order, so
//! the outcome of a step and the start of the next one can share a job and a commit.

mod effect;
pub(crate) mod entry;
mod events;
pub(crate) mod export;
pub(crate) mod shared_state;
pub(crate) mod snapshot;
mod state;
pub(crate) mod stored_transcript;
pub(crate) mod transaction;
pub(crate) mod transactional;
mod transcript;
pub(crate) mod verify;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures::FutureExt;
use parking_lot::Mutex;
use provost_agent::journal::{Effect, EffectStart, Journal, JournalError, JournalFuture};
use provost_agent::run::{JournalEntry, Run, RunStarted};
use provost_core::durable::{DurableEvent, StateChanged};
use provost_core::recovery::{EffectKey, UnknownEffectPolicy};
use provost_core::{ErrorInfo, Message, StateChange};
use provost_failpoint::failpoint;
use provost_store::Store;

pub(crate) use self::state::{JournalState, PersistedMessage, StartedStep};
use crate::attempt::workspace;
use crate::error::EngineError;
use crate::input;
use crate::journal::snapshot::RunSnapshot;
use crate::journal::transaction::StepWrite;
use crate::journal::transactional::{TransactionalEffects, TxActions};
use crate::journal::writer::{JournalWriter, Urgency};
use crate::worker::lease::Lease;

/// Journal of one run attempt.
pub(crate) struct RunJournal {
    store: Store,
    lease: Arc<Lease>,
    on_unknown: UnknownEffectPolicy,
    budgeted: bool,
    state: Mutex<JournalState>,
    /// Enqueued writes that are not yet known to be persisted.
    writer: Mutex<JournalWriter>,
    /// True if the run may have pending inputs.
    may_have_inputs: Arc<AtomicBool>,
    /// True after the attempt was abandoned: nothing more is written, even if its tools still run.
    closed: AtomicBool,
    /// Number of the last committed step. Later writes require that it is persisted.
    last_step: AtomicU64,
    /// Number of the last step that is known to be persisted.
    flushed_step: AtomicU64,
    /// Database effects that calls want in the transactions that commit their results.
    transactional: Arc<TransactionalEffects>,
    /// True if the log already contains the loss of files. The first call that finds the loss does not report it
    /// again.
    reset_recorded: AtomicBool,
}

impl RunJournal {
    /// Creates the journal of an attempt. `budgeted` is true if a budget applies to the run.
    pub(crate) fn new(
        store: Store,
        lease: Arc<Lease>,
        state: JournalState,
        on_unknown: UnknownEffectPolicy,
        budgeted: bool,
    ) -> Self {
        Self {
            transactional: Arc::new(TransactionalEffects::new(store.clone())),
            last_step: AtomicU64::new(0),
            flushed_step: AtomicU64::new(0),
            store,
            lease,
            on_unknown,
            budgeted,
            state: Mutex::new(state),
            writer: Mutex::default(),
            may_have_inputs: Arc::new(AtomicBool::new(true)),
            closed: AtomicBool::new(false),
            reset_recorded: AtomicBool::new(false),
        }
    }

    /// Marks that the log contains the loss of files.
    pub(crate) fn mark_reset_recorded(&self) {
        self.reset_recorded.store(true, Ordering::Release);
    }

    /// Closes the journal, so that every later write fails.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Returns a guard that closes the journal when it is dropped.
    pub(crate) fn close_on_drop(&self) -> JournalCloseGuard<'_> {
        JournalCloseGuard(self)
    }

    /// Makes the run check for inputs at its next step boundary.
    pub(crate) fn check_inputs_soon(&self) {
        self.may_have_inputs.store(true, Ordering::Release);
    }

    /// Returns the number of the last committed step, or 0 if it is known to be persisted.
    pub(crate) fn last_unflushed_step(&self) -> u64 {
        let last = self.last_step.load(Ordering::Acquire);
        if last == self.flushed_step.load(Ordering::Acquire) { 0 } else { last }
    }

    /// Returns the number of the first in-flight step. All steps before it have an outcome, once everything recorded
    /// so far is persisted.
    pub(crate) fn first_in_flight_step(&self) -> u64 {
        self.state.lock().first_in_flight_step()
    }

    /// Waits until everything recorded so far is persisted.
    pub(crate) async fn flush(&self) -> Result<(), EngineError> {
        let last = self.last_step.load(Ordering::Acquire);
        crate::journal::writer::flush(&self.writer, &self.store, &self.lease).await?;
        self.flushed_step.fetch_max(last, Ordering::AcqRel);
        Ok(())
    }

    /// Returns the collector of database effects for the tools of the run.
    pub(crate) fn transactional(&self) -> Arc<TransactionalEffects> {
        Arc::clone(&self.transactional)
    }

    /// Returns the number of the in-flight step of a call. `None` if there is none.
    pub(crate) fn step_of(&self, key: &EffectKey) -> Option<u64> {
        self.state
            .lock()
            .open
            .iter()
            .find(|open| open.key.as_ref() == Some(key))
            .map(|open| open.step)
    }

    /// Takes the database effects of a finished call; empty if the call failed.
    fn take_tx_actions(&self, entry: &JournalEntry) -> TxActions {
        let JournalEntry::ToolFinished { result, .. } = entry else { return TxActions::default() };
        let of_call = |open: &&StartedStep| open.call_id.as_ref() == Some(&result.call_id);
        let key = self.state.lock().open.iter().find(of_call).and_then(|open| open.key.clone());
        let tx_actions = key.map(|key| self.transactional.take(&key)).unwrap_or_default();
        if result.is_error { TxActions::default() } else { TxActions(tx_actions) }
    }

    /// Returns the user that the run works for. `None` if it is unknown.
    pub(crate) fn user(&self) -> Option<String> {
        self.state.lock().user.clone()
    }

    /// Returns the writes of shared state for the transaction of a step.
    fn shared_state_actions(&self, changes: &[StateChange]) -> TxActions {
        shared_state::write_actions(&self.lease, self.state.lock().user.as_deref(), changes)
    }

    /// Sends a write with its urgency, without waiting for it. Fails if the journal is closed.
    fn enqueue(&self, mut write: StepWrite, urgency: Urgency) -> Result<(), EngineError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(EngineError::Stopping);
        }
        write.after = self.last_unflushed_step();
        if write.entry_no.is_some() {
            self.last_step.store(write.step, Ordering::Release);
        }
        let mut writer = self.writer.lock();
        writer.send(&self.store, &self.lease, write, urgency);
        Ok(())
    }

    /// Sends a write and waits until everything recorded so far is persisted.
    async fn write(&self, write: StepWrite) -> Result<(), EngineError> {
        self.enqueue(write, Urgency::Immediate)?;
        self.flush().await
    }

    /// Sends a write and waits for it like [`Self::write`], but shares one commit with effects that start
    /// concurrently.
    async fn write_concurrent(&self, write: StepWrite) -> Result<(), EngineError> {
        if self.state.lock().one_call {
            return self.write(write).await;
        }
        self.enqueue(write, Urgency::Deferred)?;
        // Concurrent calls enqueue their writes before this one is flushed.
        tokio::task::yield_now().await;
        self.flush().await
    }
}

/// Closes the journal when it is dropped.
pub(crate) struct JournalCloseGuard<'a>(&'a RunJournal);

impl Drop for JournalCloseGuard<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Journal for RunJournal {
    fn run_started<'a>(&'a self, run_started: &'a RunStarted) -> JournalFuture<'a, ()> {
        async move {
            let record = entry::encode_run_started(run_started).map_err(EngineError::from)?;
            let mut write = self.state.lock().commit(record, /*entry*/ None)?;
            if !run_started.shared.is_empty() {
                write.shared = self.shared_state_actions(&run_started.shared);
                let changes = run_started.shared.clone();
                write.events.push(DurableEvent::StateChanged(StateChanged { changes }));
            }
            // The claim has stored the revision in the run row already, unless it did not know it.
            let revision = Some(self.state.lock().revision);
            write.base_revision = revision.filter(|_| revision != self.lease.base_revision);
            // An input may have arrived before any process knew that the run is active here.
            write.pending_inputs_flag = Some(Arc::clone(&self.may_have_inputs));
            // Persisted together with the first effect, before that effect happens.
            self.enqueue(write, Urgency::Deferred)?;
            Ok(())
        }
        .boxed()
    }

    fn begin_effect(&self, effect: Effect) -> JournalFuture<'_, EffectStart> {
        async move { Ok(self.begin_effect(effect).await?) }.boxed()
    }

    fn record(&self, entry: &JournalEntry) -> Result<(), JournalError> {
        // The transcript commits this entry together with the session change.
        if matches!(entry, JournalEntry::Saved) {
            return Ok(());
        }
        let record = entry::encode_entry(entry).map_err(EngineError::from)?;
        let tx_actions = self.take_tx_actions(entry);
        let mut write = self.state.lock().commit(record, Some(entry))?;
        write.tx_actions = tx_actions;
        if let JournalEntry::StateChanged { shared, .. } = entry {
            write.shared = self.shared_state_actions(shared);
        }
        outcome_failpoint(entry);
        let urgency = match entry {
            // If the outcome of the call is lost, the call may run again and repeat these changes. So they are
            // persisted only together with the outcome.
            JournalEntry::StateChanged { .. } => Urgency::WithNext,
            _ => Urgency::Deferred,
        };
        self.enqueue(write, urgency)?;
        Ok(())
    }

    fn is_budgeted(&self) -> bool {
        self.budgeted
    }

    fn checkpoint(&self, run: &Run) {
        let entry_no = {
            let mut state = self.state.lock();
            let entry_no = state.next_entry_no.saturating_sub(1);
            if !snapshot::is_due(entry_no, state.snapshot_entry_no) {
                return;
            }
            state.snapshot_entry_no = entry_no;
            entry_no
        };
        let lease = Arc::clone(&self.lease);
        match RunSnapshot::new(run, entry_no, self.last_step.load(Ordering::Acquire)) {
            // The run does not depend on the snapshot.
            Ok(snapshot) => self.store.write_deferred(move |tx| snapshot.put(tx, &lease)).detach(),
            Err(error) => {
                tracing::warn!(run = %self.lease.run, %error, "a snapshot could not be made")
            }
        }
    }

    fn workspace_reset<'a>(&'a self, reason: &'a str) -> JournalFuture<'a, ()> {
        async move {
            if self.closed.load(Ordering::Acquire) {
                return Err(EngineError::Stopping.into());
            }
            if self.reset_recorded.swap(false, Ordering::AcqRel) {
                return Ok(());
            }
            let noted = workspace::record_reset(&self.store, &self.lease, reason).await;
            Ok(noted?)
        }
        .boxed()
    }

    fn take_inputs(&self) -> JournalFuture<'_, Vec<Arc<Message>>> {
        async move {
            if !self.may_have_inputs.swap(false, Ordering::AcqRel) {
                return Ok(Vec::new());
            }
            // Inputs that the run has received before must be marked as received.
            self.flush().await?;
            let lease = Arc::clone(&self.lease);
            let waiting = input::receive(&self.store, lease).await?;
            let mut state = self.state.lock();
            let mut messages = Vec::with_capacity(waiting.len());
            for (input, message_id, message) in waiting {
                state.expect_input(input, message_id, Arc::clone(&message));
                messages.push(message);
            }
            Ok(messages)
        }
        .boxed()
    }
}

impl From<EngineError> for JournalError {
    fn from(error: EngineError) -> Self {
        Self(ErrorInfo::new(error.kind(), error.code(), error.to_string()))
    }
}

/// Failpoints between an effect and its journal entry.
fn outcome_failpoint(entry: &JournalEntry) {
    match entry {
        JournalEntry::ModelResponded { .. } => failpoint!("model.answered"),
        JournalEntry::ToolFinished { .. } => failpoint!("tool.finished"),
        JournalEntry::ContextCompacted { .. } => failpoint!("compaction.fitted"),
        JournalEntry::UserMessage { .. } => failpoint!("input.heard"),
        _ => {}
    }
}
