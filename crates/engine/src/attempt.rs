//! One attempt: an executor drives the run, then the outcome is settled.

mod agent_executor;
mod drive;
pub(crate) mod executor;
pub(crate) mod follow;
mod instructions;
pub(crate) mod live_events;
pub(crate) mod outcome;
pub(crate) mod restore;
pub(crate) mod timeouts;
pub(crate) mod workspace;

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use provost_core::recovery::OutcomeCode;
use provost_failpoint::failpoint;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::approval::Asking;
use crate::attempt::executor::{Executed, Written};
use crate::attempt::follow::Show;
use crate::attempt::live_events::{Tap, place_of};
use crate::attempt::outcome::Verdict;
use crate::engine::Shared;
use crate::error::EngineError;
use crate::journal::RunJournal;
use crate::run::settle::{self, Settled, Terms};
use crate::worker::lease::Lease;

/// The first wait before a settlement that the database did not take is tried again.
const SETTLE_RETRY: Duration = Duration::from_millis(50);
/// The longest of these waits.
const SETTLE_RETRY_MAX: Duration = Duration::from_secs(5);

/// What an attempt is told from outside; what is stronger replaces what is weaker, and never the reverse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Signal {
    /// Go on.
    Work,
    /// Give the run back at the next boundary: the worker stops.
    Drain,
    /// End the run, or make room for a newer message: the reason is in its row.
    Stop,
    /// The lease is gone or the worker is: write nothing more.
    Abandon,
}

/// An attempt that is under way in this process, or that is being unwound.
pub(crate) struct Live {
    pub(crate) lease: Arc<Lease>,
    signal: watch::Sender<Signal>,
    journal: Mutex<Option<Arc<RunJournal>>>,
    /// Set when the attempt is settled or given up.
    pub(crate) over: CancellationToken,
    /// What whoever watches sees of it.
    pub(crate) show: Show,
}

impl Live {
    pub(crate) fn new(lease: Lease, tap: &Arc<Tap>) -> Self {
        Self {
            show: Show::new(place_of(&lease), Arc::clone(tap)),
            lease: Arc::new(lease),
            signal: watch::Sender::new(Signal::Work),
            journal: Mutex::default(),
            over: CancellationToken::new(),
        }
    }

    /// Waits until the attempt is over and settled.
    pub(crate) async fn ended(&self) {
        self.over.cancelled().await;
    }

    /// Tells the attempt what to do. Once it is given up nothing of it is written any more, whatever still runs.
    pub(crate) fn tell(&self, signal: Signal) {
        let journal = self.journal();
        self.signal.send_if_modified(|now| {
            let stronger = signal > *now;
            *now = signal.max(*now);
            stronger
        });
        if let (Signal::Abandon, Some(journal)) = (signal, &*journal) {
            journal.close();
        }
    }

    /// Looks for inputs at the next boundary.
    pub(crate) fn hint_input(&self) {
        if let Some(journal) = &*self.journal() {
            journal.hint_input();
        }
    }

    fn write_to(&self, journal: &Arc<RunJournal>) {
        let mut slot = self.journal();
        if *self.signal.borrow() == Signal::Abandon {
            journal.close();
        }
        *slot = Some(Arc::clone(journal));
    }

    fn journal(&self) -> MutexGuard<'_, Option<Arc<RunJournal>>> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Carries an attempt to its end and settles it.
pub(crate) async fn carry(shared: &Shared, live: &Live) {
    let executed = AssertUnwindSafe(execute(shared, live)).catch_unwind().await;
    let Executed { verdict, written } = match executed {
        Ok(Ok(Some(executed))) => executed,
        Ok(Ok(None)) => return,
        Ok(Err(error)) if error.is_fenced() => return live.show.fenced(),
        Ok(Err(error)) => Executed::failed(Verdict::of_engine(&error)),
        // What builds agents is not ours and may panic.
        Err(_) => {
            let detail = "the attempt panicked";
            Executed::failed(Verdict::failed(OutcomeCode::Internal, detail))
        }
    };
    failpoint!("attempt.before_settle");
    settle(shared, live, verdict, written).await;
    failpoint!("attempt.settled");
}

async fn execute(shared: &Shared, live: &Live) -> Result<Option<Executed>, EngineError> {
    shared.executors.get(live.lease.kind)?.execute(shared, live).await
}

/// Settles an attempt, however long the database does not take it: what was done must not be done again.
async fn settle(shared: &Shared, live: &Live, mut verdict: Verdict, mut written: Written) {
    let options = &shared.options;
    let (expiry, fallback) = (options.approval_expiry, options.fallback);
    let asking = Asking { id: shared.env.id(), expiry, fallback };
    let chance = shared.env.random_unit();
    let mut signal = live.signal.subscribe();
    let mut wait = SETTLE_RETRY;
    let journal = live.journal().clone();
    loop {
        let (lease, settled) = (Arc::clone(&live.lease), verdict.clone());
        let Written { after, open_from } = written;
        let terms = Terms { chance, asking, after, open_from };
        let settled = shared.store.write(move |tx| settle::settle(tx, &lease, &settled, terms));
        let error = match (settled.await, &journal) {
            (Ok(Settled::WriteLost), Some(journal)) => {
                written = Written::default();
                match journal.confirm().await {
                    Err(error) if error.is_fenced() => return live.show.fenced(),
                    Err(error) => verdict = Verdict::of_engine(&error),
                    Ok(()) if matches!(verdict, Verdict::Ok(_)) => {
                        verdict = Verdict::Unwritten("what it wrote last was lost".to_owned());
                    }
                    Ok(()) => {}
                }
                continue;
            }
            (Ok(_), _) => return,
            (Err(error), _) => error,
        };
        if error.is_fenced() {
            return live.show.fenced();
        }
        tracing::warn!(run = %live.lease.run, %error, "an attempt could not be settled");
        if !error.kind().retryable() {
            // The worker finds that nobody works on it any more and gives it to another attempt.
            return;
        }
        tokio::select! {
            biased;
            _ = signal.wait_for(|signal| *signal == Signal::Abandon) => return,
            () = tokio::time::sleep(wait) => wait = (wait * 2).min(SETTLE_RETRY_MAX),
        }
    }
}
