//! Writes of an attempt that are not yet known to be persisted.
//!
//! Consecutive writes that the store has not started become one job with one fence check and one result. A write that
//! can be rejected is a job of its own, so that its rejection does not lose other writes.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::Shared;
use parking_lot::Mutex;
use provost_store::{Store, Tx, WriteHandle};

use crate::error::EngineError;
use crate::journal::transaction::{self, SessionUpdate, StepWrite};
use crate::worker::lease::Lease;

/// Urgency of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Urgency {
    /// Held back and sent together with the next write. A flush sends it alone.
    WithNext,
    /// May share a commit: the store waits a few milliseconds for another job, or until a flush.
    Deferred,
    /// Committed without a wait, because an effect waits for it.
    Immediate,
}

/// Writes of one job. Closed when the store starts the job.
struct WriteBatch(Mutex<WriteBatchState>);

/// Writes of a batch, and whether the store has taken them.
struct WriteBatchState {
    writes: Arc<Vec<StepWrite>>,
    taken: bool,
}

impl WriteBatch {
    /// Creates an open batch of a staged write and a write.
    fn of(staged: Option<StepWrite>, write: StepWrite) -> Self {
        let writes = Arc::new(staged.into_iter().chain([write]).collect());
        Self(Mutex::new(WriteBatchState { writes, taken: false }))
    }

    /// Adds a staged write and a write. Returns both if the batch is closed.
    fn join(
        &self,
        staged: Option<StepWrite>,
        write: StepWrite,
    ) -> Option<(Option<StepWrite>, StepWrite)> {
        let mut state = self.0.lock();
        if state.taken {
            return Some((staged, write));
        }
        Arc::make_mut(&mut state.writes).extend(staged.into_iter().chain([write]));
        None
    }

    /// Adds a session change to the last write. Returns the change if that write commits another entry or has a
    /// change, or if the batch is closed.
    fn add_session_update(&self, entry_no: u64, change: SessionUpdate) -> Option<SessionUpdate> {
        let mut state = self.0.lock();
        if state.taken {
            return Some(change);
        }
        match Arc::make_mut(&mut state.writes).last_mut() {
            Some(last)
                if last.entry_no.map(|own| own + 1) == Some(entry_no) && last.session.is_none() =>
            {
                (last.session, last.saved) = (Some(change), true);
                None
            }
            _ => Some(change),
        }
    }

    /// Closes the batch and returns its writes.
    fn take(&self) -> Arc<Vec<StepWrite>> {
        let mut state = self.0.lock();
        state.taken = true;
        Arc::clone(&state.writes)
    }
}

/// A sent job whose result is not known yet.
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
    staged: Option<StepWrite>,
    sent: Vec<PendingCommit>,
    count: u64,
}

impl JournalWriter {
    /// Holds a write back, to send it together with the next one. Sends the write that was held back before.
    fn stage(&mut self, store: &Store, lease: &Arc<Lease>, staged: StepWrite) {
        self.send_staged(store, lease);
        self.staged = Some(staged);
    }

    /// Sends the write that is held back, if there is one.
    fn send_staged(&mut self, store: &Store, lease: &Arc<Lease>) {
        if let Some(staged) = self.staged.take() {
            self.send(store, lease, staged, Urgency::Deferred);
        }
    }

    /// Adds a write to the last job if the store has not started it; otherwise sends it as a new job. The write that
    /// is held back precedes it. [`Urgency::WithNext`] holds the write back instead.
    pub(super) fn send(
        &mut self,
        store: &Store,
        lease: &Arc<Lease>,
        write: StepWrite,
        urgency: Urgency,
    ) {
        if urgency == Urgency::WithNext {
            return self.stage(store, lease, write);
        }
        let alone = write.can_be_rejected(lease);
        let staged = self.staged.take();
        let rest = match &self.open {
            Some(open) if !alone => open.join(staged, write),
            _ => Some((staged, write)),
        };
        let Some((staged, write)) = rest else { return };
        let batch = Arc::new(WriteBatch::of(staged, write));
        let (lease, writes) = (Arc::clone(lease), Arc::clone(&batch));
        let job = move |tx: &mut Tx<'_>| transaction::apply_writes(tx, &lease, &writes.take());
        let written = match urgency == Urgency::Immediate {
            true => store.write(job),
            false => store.write_deferred(job),
        };
        self.open = (!alone).then_some(batch);
        self.count += 1;
        self.sent.push(PendingCommit { number: self.count, urgency, written: written.shared() });
    }

    /// Adds a session change to the write of the previous entry. Returns the change if that write is already running.
    pub(super) fn add_session_update(
        &self,
        entry_no: u64,
        change: SessionUpdate,
    ) -> Option<SessionUpdate> {
        match &self.open {
            Some(open) => open.add_session_update(entry_no, change),
            None => Some(change),
        }
    }

    /// Requests an immediate commit of all sent jobs. Returns the jobs without a known result.
    pub(super) fn start_flush(&mut self, store: &Store, lease: &Arc<Lease>) -> Vec<PendingCommit> {
        self.send_staged(store, lease);
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

/// Waits until all writes sent so far are persisted. Returns the first error of a write.
pub(super) async fn flush(
    outgoing: &Mutex<JournalWriter>,
    store: &Store,
    lease: &Arc<Lease>,
) -> Result<(), EngineError> {
    let waiting = outgoing.lock().start_flush(store, lease);
    let Some(last) = waiting.last().map(|sent| sent.number) else { return Ok(()) };
    let mut outcome = Ok(());
    for sent in waiting {
        outcome = sent.written.await;
        if outcome.is_err() {
            break;
        }
    }
    outgoing.lock().remove_finished(last);
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
    fn a_session_change_joins_the_previous_entry_until_the_batch_is_taken() {
        let commits = |entry_no| {
            StepWrite::commit(
                entry_no,
                StepKind::ToolCall,
                entry_no,
                StoredText::Inline("{}".into()),
            )
        };
        let batch = WriteBatch::of(None, commits(3));
        assert_eq!(
            batch.add_session_update(5, change()),
            Some(change()),
            "another entry is in between"
        );
        assert_eq!(batch.add_session_update(4, change()), None);
        assert_eq!(batch.add_session_update(4, change()), Some(change()), "it has one already");
        let written = batch.take();
        assert!(written[0].saved && written[0].session == Some(change()));

        let batch = WriteBatch::of(None, commits(3));
        batch.join(None, StepWrite::begin(4, StepKind::ModelCall));
        assert_eq!(
            batch.add_session_update(4, change()),
            Some(change()),
            "the start of a step commits no entry"
        );
        let batch = WriteBatch::of(None, commits(3));
        batch.take();
        assert_eq!(batch.add_session_update(4, change()), Some(change()), "the batch was taken");
    }
}
