//! Writes of an attempt that are not yet known to be persisted.
//!
//! Consecutive writes that the store has not started become one job with one fence check and one result. A write that
//! can be rejected is a job of its own, so that its rejection does not lose other writes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::Shared;
use provost_store::{Store, Tx, WriteHandle};

use crate::error::EngineError;
use crate::journal::transaction::{self, SessionUpdate, StepWrite};
use crate::worker::lease::Lease;

/// Urgency of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Urgency {
    /// Sent with the next write, not before it.
    WithNext,
    /// Shares the commit of the next urgent write or flush.
    Deferred,
    /// An effect waits for it.
    Immediate,
}

/// Writes of one job. Closed when the store starts the job.
struct WriteBatch(Mutex<WriteBatchState>);

struct WriteBatchState {
    writes: Arc<Vec<StepWrite>>,
    taken: bool,
}

impl WriteBatch {
    fn of(note: Option<StepWrite>, write: StepWrite) -> Self {
        let writes = Arc::new(note.into_iter().chain([write]).collect());
        Self(Mutex::new(WriteBatchState { writes, taken: false }))
    }

    /// Adds a write and the note before it. Returns both if the batch is closed.
    fn join(
        &self,
        note: Option<StepWrite>,
        write: StepWrite,
    ) -> Option<(Option<StepWrite>, StepWrite)> {
        let mut state = self.lock();
        if state.taken {
            return Some((note, write));
        }
        Arc::make_mut(&mut state.writes).extend(note.into_iter().chain([write]));
        None
    }

    /// Adds a session change to the last write. Returns it if that write commits another entry or the batch is
    /// closed.
    fn save(&self, fed: u64, change: SessionUpdate) -> Option<SessionUpdate> {
        let mut state = self.lock();
        if state.taken {
            return Some(change);
        }
        match Arc::make_mut(&mut state.writes).last_mut() {
            Some(last) if last.fed.map(|own| own + 1) == Some(fed) && last.session.is_none() => {
                (last.session, last.saved) = (Some(change), true);
                None
            }
            _ => Some(change),
        }
    }

    /// Closes the batch and returns its writes.
    fn take(&self) -> Arc<Vec<StepWrite>> {
        let mut state = self.lock();
        state.taken = true;
        Arc::clone(&state.writes)
    }

    fn lock(&self) -> MutexGuard<'_, WriteBatchState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A job that was sent.
#[derive(Clone)]
pub(super) struct PendingCommit {
    number: u64,
    urgency: Urgency,
    written: Shared<WriteHandle<(), EngineError>>,
}

/// Jobs of one attempt, in order.
#[derive(Default)]
pub(super) struct JournalWriter {
    /// The last job, if it accepts more writes.
    open: Option<Arc<WriteBatch>>,
    /// State changes of a call, held back until its outcome is written: both are persisted or neither.
    note: Option<StepWrite>,
    sent: Vec<PendingCommit>,
    count: u64,
}

impl JournalWriter {
    /// Holds a note back for the next write.
    pub(super) fn stage(&mut self, store: &Store, lease: &Arc<Lease>, note: StepWrite) {
        self.send_note(store, lease);
        self.note = Some(note);
    }

    /// Sends a note without a following write.
    fn send_note(&mut self, store: &Store, lease: &Arc<Lease>) {
        if let Some(note) = self.note.take() {
            self.send(store, lease, note, Urgency::Deferred);
        }
    }

    /// Adds a write to the last job, or sends it as a new job.
    pub(super) fn send(
        &mut self,
        store: &Store,
        lease: &Arc<Lease>,
        write: StepWrite,
        urgency: Urgency,
    ) {
        let alone = write.can_be_rejected(lease);
        let note = self.note.take();
        let rest = match &self.open {
            Some(open) if !alone => open.join(note, write),
            _ => Some((note, write)),
        };
        let Some((note, write)) = rest else { return };
        let batch = Arc::new(WriteBatch::of(note, write));
        let (lease, writes) = (Arc::clone(lease), Arc::clone(&batch));
        let job = move |tx: &mut Tx<'_>| transaction::apply_writes(tx, &lease, &writes.take());
        let written = match urgency {
            Urgency::Deferred | Urgency::WithNext => store.write_deferred(job),
            Urgency::Immediate => store.write(job),
        };
        self.open = (!alone).then_some(batch);
        self.count += 1;
        self.sent.push(PendingCommit { number: self.count, urgency, written: written.shared() });
    }

    /// Adds a session change to the write of the previous entry. Returns it if that write is already running.
    pub(super) fn save(&self, fed: u64, change: SessionUpdate) -> Option<SessionUpdate> {
        match &self.open {
            Some(open) => open.save(fed, change),
            None => Some(change),
        }
    }

    /// Requests an immediate commit of all sent jobs. Returns the jobs without a known result.
    pub(super) fn start_flush(&mut self, store: &Store, lease: &Arc<Lease>) -> Vec<PendingCommit> {
        self.send_note(store, lease);
        if self.sent.iter().any(|sent| sent.urgency == Urgency::Deferred) {
            store.flush();
        }
        for sent in &mut self.sent {
            sent.urgency = Urgency::Immediate;
        }
        self.sent.clone()
    }

    /// Removes the jobs up to `number`: their results are known.
    fn remove_finished(&mut self, number: u64) {
        self.sent.retain(|sent| sent.number > number);
    }
}

/// Waits until all writes sent so far are persisted.
pub(super) async fn flush(
    outgoing: &Mutex<JournalWriter>,
    store: &Store,
    lease: &Arc<Lease>,
) -> Result<(), EngineError> {
    let waiting = super::lock(outgoing).start_flush(store, lease);
    let Some(last) = waiting.last().map(|sent| sent.number) else { return Ok(()) };
    let mut outcome = Ok(());
    for sent in waiting {
        outcome = sent.written.await;
        if outcome.is_err() {
            break;
        }
    }
    super::lock(outgoing).remove_finished(last);
    outcome
}

#[cfg(test)]
mod tests {
    use provost_core::lifecycle::StepKind;
    use provost_store::StoredText;

    use super::*;

    fn change() -> SessionUpdate {
        SessionUpdate { base: 1, pop: 0, entries: Vec::new() }
    }

    #[test]
    fn a_change_of_the_session_joins_the_feed_before_it_until_the_writer_has_come() {
        let commits =
            |fed| StepWrite::commit(fed, StepKind::ToolCall, fed, StoredText::Inline("{}".into()));
        let batch = WriteBatch::of(None, commits(3));
        assert_eq!(batch.save(5, change()), Some(change()), "another feed is in between");
        assert_eq!(batch.save(4, change()), None);
        assert_eq!(batch.save(4, change()), Some(change()), "it has one already");
        let written = batch.take();
        assert!(written[0].saved && written[0].session == Some(change()));

        let batch = WriteBatch::of(None, commits(3));
        batch.join(None, StepWrite::begin(4, StepKind::ModelCall));
        assert_eq!(batch.save(4, change()), Some(change()), "what begins feeds nothing");
        let batch = WriteBatch::of(None, commits(3));
        batch.take();
        assert_eq!(batch.save(4, change()), Some(change()), "it is on its way");
    }
}
