//! What an attempt has sent to the writer and nobody has waited for yet.
//!
//! Writes that follow each other before the writer comes to them become one job: one look at the fence, one
//! answer. A write that can be refused for itself is a job of its own, so that nothing else is lost with it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::Shared;
use provost_store::{Pending, Store, Tx};

use crate::error::EngineError;
use crate::journal::transaction::{self, SessionWrite, StepWrite};
use crate::worker::lease::Lease;

/// Does anybody wait for a write?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Haste {
    /// It is sent with what follows, and not before.
    WithNext,
    /// It shares the commit of what follows: the beginning of the next step, or the next look at the disk.
    Along,
    /// An effect waits for it.
    Now,
}

/// The writes of one job, until the writer takes them.
struct Batch(Mutex<Writes>);

struct Writes {
    writes: Arc<Vec<StepWrite>>,
    taken: bool,
}

impl Batch {
    fn of(note: Option<StepWrite>, write: StepWrite) -> Self {
        let writes = Arc::new(note.into_iter().chain([write]).collect());
        Self(Mutex::new(Writes { writes, taken: false }))
    }

    /// Adds a write with the note before it; gives them back if the writer was here before.
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

    /// Adds a change of the session to the last write; gives it back if that commits another feed or the writer was here before.
    fn save(&self, fed: u64, change: SessionWrite) -> Option<SessionWrite> {
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

    /// The writes; there will be no more of them.
    fn take(&self) -> Arc<Vec<StepWrite>> {
        let mut state = self.lock();
        state.taken = true;
        Arc::clone(&state.writes)
    }

    fn lock(&self) -> MutexGuard<'_, Writes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A job that was sent.
#[derive(Clone)]
pub(super) struct Sent {
    number: u64,
    haste: Haste,
    written: Shared<Pending<(), EngineError>>,
}

/// The jobs of one attempt, in order.
#[derive(Default)]
pub(super) struct Outgoing {
    /// The last job, if more may join it.
    open: Option<Arc<Batch>>,
    /// Notes that a call has changed, until its outcome comes: both are on disk, or neither.
    note: Option<StepWrite>,
    sent: Vec<Sent>,
    count: u64,
}

impl Outgoing {
    /// Keeps a note for the write that follows it.
    pub(super) fn hold(&mut self, store: &Store, lease: &Arc<Lease>, note: StepWrite) {
        self.send_note(store, lease);
        self.note = Some(note);
    }

    /// Sends a note that nothing has followed.
    fn send_note(&mut self, store: &Store, lease: &Arc<Lease>) {
        if let Some(note) = self.note.take() {
            self.send(store, lease, note, Haste::Along);
        }
    }

    /// Sends a write with the last job, or as a new one.
    pub(super) fn send(
        &mut self,
        store: &Store,
        lease: &Arc<Lease>,
        write: StepWrite,
        haste: Haste,
    ) {
        let alone = write.is_refusable(lease);
        let note = self.note.take();
        let rest = match &self.open {
            Some(open) if !alone => open.join(note, write),
            _ => Some((note, write)),
        };
        let Some((note, write)) = rest else { return };
        let batch = Arc::new(Batch::of(note, write));
        let (lease, writes) = (Arc::clone(lease), Arc::clone(&batch));
        let job = move |tx: &mut Tx<'_>| transaction::steps(tx, &lease, &writes.take());
        let written = match haste {
            Haste::Along | Haste::WithNext => store.write_deferred(job),
            Haste::Now => store.write(job),
        };
        self.open = (!alone).then_some(batch);
        self.count += 1;
        self.sent.push(Sent { number: self.count, haste, written: written.shared() });
    }

    /// Sends a change of the session with the write of the feed before it; gives it back if that is on its way already.
    pub(super) fn save(&self, fed: u64, change: SessionWrite) -> Option<SessionWrite> {
        match &self.open {
            Some(open) => open.save(fed, change),
            None => Some(change),
        }
    }

    /// Everything that was sent and is not confirmed. Somebody waits for it from now on.
    pub(super) fn hurry(&mut self, store: &Store, lease: &Arc<Lease>) -> Vec<Sent> {
        self.send_note(store, lease);
        if self.sent.iter().any(|sent| sent.haste == Haste::Along) {
            store.flush();
        }
        for sent in &mut self.sent {
            sent.haste = Haste::Now;
        }
        self.sent.clone()
    }

    /// Forgets the jobs up to this one: their outcome was heard.
    fn confirmed(&mut self, number: u64) {
        self.sent.retain(|sent| sent.number > number);
    }
}

/// Waits until everything that was sent so far is on disk.
pub(super) async fn confirm(
    outgoing: &Mutex<Outgoing>,
    store: &Store,
    lease: &Arc<Lease>,
) -> Result<(), EngineError> {
    let waiting = super::lock(outgoing).hurry(store, lease);
    let Some(last) = waiting.last().map(|sent| sent.number) else { return Ok(()) };
    let mut outcome = Ok(());
    for sent in waiting {
        outcome = sent.written.await;
        if outcome.is_err() {
            break;
        }
    }
    super::lock(outgoing).confirmed(last);
    outcome
}

#[cfg(test)]
mod tests {
    use provost_core::lifecycle::StepKind;
    use provost_store::Body;

    use super::*;

    fn change() -> SessionWrite {
        SessionWrite { base: 1, pop: 0, entries: Vec::new() }
    }

    #[test]
    fn a_change_of_the_session_joins_the_feed_before_it_until_the_writer_has_come() {
        let commits =
            |fed| StepWrite::commit(fed, StepKind::ToolCall, fed, Body::Inline("{}".into()));
        let batch = Batch::of(None, commits(3));
        assert_eq!(batch.save(5, change()), Some(change()), "another feed is in between");
        assert_eq!(batch.save(4, change()), None);
        assert_eq!(batch.save(4, change()), Some(change()), "it has one already");
        let written = batch.take();
        assert!(written[0].saved && written[0].session == Some(change()));

        let batch = Batch::of(None, commits(3));
        batch.join(None, StepWrite::begin(4, StepKind::ModelCall));
        assert_eq!(batch.save(4, change()), Some(change()), "what begins feeds nothing");
        let batch = Batch::of(None, commits(3));
        batch.take();
        assert_eq!(batch.save(4, change()), Some(change()), "it is on its way");
    }
}
