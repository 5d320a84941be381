//! One attempt's pen: the driver's effects, feeds and transcript, written down under the attempt's lease.
//!
//! Every write is fenced by the run's epoch. A feed is enqueued without waiting; the writer keeps the order, so the outcome of
//! a step and the beginning of the next one share a job and a commit.

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

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use provost_agent::journal::{Begun, Effect, Journal, JournalError, JournalFuture};
use provost_agent::run::{Feed, Run, RunStarted};
use provost_core::durable::{DurableEvent, StateChanged};
use provost_core::recovery::{EffectKey, OnUnknown};
use provost_core::{ErrorInfo, Message, StateChange};
use provost_failpoint::failpoint;
use provost_store::Store;

pub(crate) use self::state::{JournalState, OpenStep, StoredMessage};
use crate::attempt::workspace;
use crate::error::EngineError;
use crate::input;
use crate::journal::snapshot::Snapshot;
use crate::journal::transaction::StepWrite;
use crate::journal::transactional::{Transactional, Works};
use crate::journal::writer::{Haste, Outgoing};
use crate::worker::lease::Lease;

/// Where an attempt writes.
pub(crate) struct RunJournal {
    store: Store,
    lease: Arc<Lease>,
    on_unknown: OnUnknown,
    budgeted: bool,
    state: Mutex<JournalState>,
    /// Writes whose end nobody has waited for yet.
    outgoing: Mutex<Outgoing>,
    /// True if something may have been said to the run.
    may_have_inputs: Arc<AtomicBool>,
    /// True once the attempt was given up: nothing more is written, whatever still runs.
    closed: AtomicBool,
    /// The step that was committed last; what follows is written only if that is on disk.
    last_step: AtomicU64,
    /// The last step that is known to be on disk.
    confirmed_step: AtomicU64,
    /// What calls want to have done in the transactions that commit their results.
    transactional: Arc<Transactional>,
    /// True if the log says already that files are lost, as the call will find that comes to them first.
    has_told_of_loss: AtomicBool,
}

impl RunJournal {
    pub(crate) fn new(
        store: Store,
        lease: Arc<Lease>,
        state: JournalState,
        on_unknown: OnUnknown,
        budgeted: bool,
    ) -> Self {
        Self {
            transactional: Arc::new(Transactional::new(store.clone())),
            last_step: AtomicU64::new(0),
            confirmed_step: AtomicU64::new(0),
            store,
            lease,
            on_unknown,
            budgeted,
            state: Mutex::new(state),
            outgoing: Mutex::default(),
            may_have_inputs: Arc::new(AtomicBool::new(true)),
            closed: AtomicBool::new(false),
            has_told_of_loss: AtomicBool::new(false),
        }
    }

    /// Files are lost, and the log says so.
    pub(crate) fn told_of_loss(&self) {
        self.has_told_of_loss.store(true, Ordering::Release);
    }

    /// Writes nothing more.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// A value that, when it goes, closes the journal: nothing more is written.
    pub(crate) fn closing(&self) -> Closing<'_> {
        Closing(self)
    }

    /// Looks for inputs at the next boundary.
    pub(crate) fn hint_input(&self) {
        self.may_have_inputs.store(true, Ordering::Release);
    }

    /// The last step that was committed, unless it is known to be on disk; else 0.
    pub(crate) fn unconfirmed_step(&self) -> u64 {
        let last = self.last_step.load(Ordering::Acquire);
        if last == self.confirmed_step.load(Ordering::Acquire) { 0 } else { last }
    }

    /// No step before this one is without an outcome, once everything recorded so far is on disk.
    pub(crate) fn open_from(&self) -> u64 {
        self.lock().open_from()
    }

    /// Waits until everything recorded so far is on disk.
    pub(crate) async fn confirm(&self) -> Result<(), EngineError> {
        let last = self.last_step.load(Ordering::Acquire);
        crate::journal::writer::confirm(&self.outgoing, &self.store, &self.lease).await?;
        self.confirmed_step.fetch_max(last, Ordering::AcqRel);
        Ok(())
    }

    /// Where calls leave what is done in the transactions that commit their results.
    pub(crate) fn transactional(&self) -> Arc<Transactional> {
        Arc::clone(&self.transactional)
    }

    /// The step of a call that is under way.
    pub(crate) fn step_of(&self, key: &EffectKey) -> Option<u64> {
        self.lock().open.iter().find(|open| open.key.as_ref() == Some(key)).map(|open| open.step)
    }

    /// What a call that has its result wants to have done with it; nothing, if it failed.
    fn works_of(&self, feed: &Feed) -> Works {
        let Feed::ToolFinished { result, .. } = feed else { return Works::default() };
        let of_call = |open: &&OpenStep| open.call_id.as_ref() == Some(&result.call_id);
        let key = self.lock().open.iter().find(of_call).and_then(|open| open.key.clone());
        let works = key.map(|key| self.transactional.take(&key)).unwrap_or_default();
        if result.is_error { Works::default() } else { Works(works) }
    }

    /// For whom the run is, if that is known.
    pub(crate) fn user(&self) -> Option<String> {
        self.lock().user.clone()
    }

    fn shared_works(&self, changes: &[StateChange]) -> Works {
        shared_state::works(&self.lease, self.lock().user.as_deref(), changes)
    }

    fn lock(&self) -> MutexGuard<'_, JournalState> {
        lock(&self.state)
    }

    fn enqueue(&self, mut write: StepWrite, haste: Haste) -> Result<(), EngineError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(EngineError::Stopping);
        }
        write.after = self.unconfirmed_step();
        if write.fed.is_some() {
            self.last_step.store(write.step, Ordering::Release);
        }
        let mut outgoing = lock(&self.outgoing);
        match haste {
            Haste::WithNext => outgoing.hold(&self.store, &self.lease, write),
            _ => outgoing.send(&self.store, &self.lease, write, haste),
        }
        Ok(())
    }

    async fn write(&self, write: StepWrite) -> Result<(), EngineError> {
        self.enqueue(write, Haste::Now)?;
        self.confirm().await
    }

    /// Like [`Self::write`], in one commit with what begins beside it.
    async fn write_together(&self, write: StepWrite) -> Result<(), EngineError> {
        if self.lock().one_call {
            return self.write(write).await;
        }
        self.enqueue(write, Haste::Along)?;
        // The others come to their writes before the writer hears of this one.
        tokio::task::yield_now().await;
        self.confirm().await
    }
}

/// Closes the journal when it goes.
pub(crate) struct Closing<'a>(&'a RunJournal);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Journal for RunJournal {
    fn began<'a>(&'a self, beginning: &'a RunStarted) -> JournalFuture<'a, ()> {
        async move {
            let record = entry::beginning(beginning).map_err(EngineError::from)?;
            let mut write = self.lock().commit(record, /*feed*/ None)?;
            if !beginning.shared.is_empty() {
                write.shared = self.shared_works(&beginning.shared);
                let changes = beginning.shared.clone();
                write.events.push(DurableEvent::StateChanged(StateChanged { changes }));
            }
            // The claim has told the row already, unless it could not know.
            let revision = Some(self.lock().revision);
            write.base_revision = revision.filter(|_| revision != self.lease.base_revision);
            // Something may have been said to the run before anybody knew that it is here.
            write.looks_for_inputs = Some(Arc::clone(&self.may_have_inputs));
            // On disk with the first effect, before that happens.
            self.enqueue(write, Haste::Along)?;
            Ok(())
        }
        .boxed()
    }

    fn begin(&self, effect: Effect) -> JournalFuture<'_, Begun> {
        async move { Ok(self.begin_effect(effect).await?) }.boxed()
    }

    fn record(&self, feed: &Feed) -> Result<(), JournalError> {
        // The transcript commits this one together with what it stands for.
        if matches!(feed, Feed::Saved) {
            return Ok(());
        }
        let record = entry::feed(feed).map_err(EngineError::from)?;
        let works = self.works_of(feed);
        let mut write = self.lock().commit(record, Some(feed))?;
        write.works = works;
        if let Feed::Noted { shared, .. } = feed {
            write.shared = self.shared_works(shared);
        }
        mark_outcome(feed);
        let haste = match feed {
            // The call that changed them may be made again if its outcome is lost, and then changes them again.
            Feed::Noted { .. } => Haste::WithNext,
            _ => Haste::Along,
        };
        self.enqueue(write, haste)?;
        Ok(())
    }

    fn is_budgeted(&self) -> bool {
        self.budgeted
    }

    fn settled(&self, run: &Run) {
        let fed = {
            let mut state = self.lock();
            let fed = state.next_fed.saturating_sub(1);
            if !snapshot::is_due(fed, state.snapshot_fed) {
                return;
            }
            state.snapshot_fed = fed;
            fed
        };
        let lease = Arc::clone(&self.lease);
        match Snapshot::new(run, fed, self.last_step.load(Ordering::Acquire)) {
            // Whether it is stored does not matter to the run.
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
            if self.has_told_of_loss.swap(false, Ordering::AcqRel) {
                return Ok(());
            }
            let noted = workspace::note_reset(&self.store, &self.lease, reason).await;
            Ok(noted?)
        }
        .boxed()
    }

    fn inputs(&self) -> JournalFuture<'_, Vec<Arc<Message>>> {
        async move {
            if !self.may_have_inputs.swap(false, Ordering::AcqRel) {
                return Ok(Vec::new());
            }
            // What was taken in before must be seen as taken in.
            self.confirm().await?;
            let lease = Arc::clone(&self.lease);
            let waiting = input::take(&self.store, lease).await?;
            let mut state = self.lock();
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

/// The places between an effect and its record.
fn mark_outcome(feed: &Feed) {
    match feed {
        Feed::ModelAnswered { .. } => failpoint!("model.answered"),
        Feed::ToolFinished { .. } => failpoint!("tool.finished"),
        Feed::ContextFitted { .. } => failpoint!("compaction.fitted"),
        Feed::UserSaid { .. } => failpoint!("input.heard"),
        _ => {}
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
