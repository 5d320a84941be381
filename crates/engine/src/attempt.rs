//! One run attempt: an executor drives the run, then the outcome is settled.

mod agent_executor;
mod drive;
pub(crate) mod events;
pub(crate) mod executor;
mod instructions;
pub(crate) mod outcome;
pub(crate) mod restore;
pub(crate) mod workspace;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;
use provost_core::recovery::OutcomeCode;
use provost_failpoint::failpoint;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::approval::ApprovalSettings;
use crate::attempt::events::{AttemptEvents, LiveEventPublisher};
use crate::attempt::executor::{ExecutionResult, JournalPosition};
use crate::attempt::outcome::AttemptOutcome;
use crate::engine::EngineInner;
use crate::error::EngineError;
use crate::journal::RunJournal;
use crate::run::settle::{self, SettleParams, SettleResult};
use crate::worker::lease::Lease;

/// First delay before a failed settlement is retried.
const SETTLE_RETRY: Duration = Duration::from_millis(50);
/// Longest delay between retries of a settlement.
const SETTLE_RETRY_MAX: Duration = Duration::from_secs(5);

/// Command to a running attempt. A stronger one replaces a weaker one, never the reverse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AttemptSignal {
    /// Continue.
    Continue,
    /// Requeue the run at the next step boundary, because the worker stops.
    Drain,
    /// End the run or restart it with a newer message. The run row contains the reason.
    Stop,
    /// Write nothing more: the lease is lost or the worker has stopped.
    Abandon,
}

/// An attempt that runs in this process or is still unwinding.
pub(crate) struct RunningAttempt {
    pub(crate) lease: Arc<Lease>,
    signal: watch::Sender<AttemptSignal>,
    journal: Mutex<Option<Arc<RunJournal>>>,
    /// Cancelled when the attempt has been settled or abandoned.
    pub(crate) finished: CancellationToken,
    /// Its events, for live viewers.
    pub(crate) events: AttemptEvents,
}

impl RunningAttempt {
    pub(crate) fn new(lease: Lease, publisher: &Arc<LiveEventPublisher>) -> Self {
        Self {
            events: AttemptEvents::new(&lease, Arc::clone(publisher)),
            lease: Arc::new(lease),
            signal: watch::Sender::new(AttemptSignal::Continue),
            journal: Mutex::default(),
            finished: CancellationToken::new(),
        }
    }

    /// Waits until the attempt has been settled or abandoned.
    pub(crate) async fn wait_until_finished(&self) {
        self.finished.cancelled().await;
    }

    /// Sends a command to the attempt, unless a stronger one was sent. [`AttemptSignal::Abandon`] closes the journal,
    /// so that the attempt writes nothing more, even if its tools still run.
    pub(crate) fn signal(&self, signal: AttemptSignal) {
        let journal = self.journal.lock();
        self.signal.send_if_modified(|now| {
            let stronger = signal > *now;
            *now = signal.max(*now);
            stronger
        });
        if let (AttemptSignal::Abandon, Some(journal)) = (signal, &*journal) {
            journal.close();
        }
    }

    /// Makes the run check for inputs at its next step boundary. Does nothing before the attempt has a journal.
    pub(crate) fn check_inputs_soon(&self) {
        if let Some(journal) = &*self.journal.lock() {
            journal.check_inputs_soon();
        }
    }

    /// Sets the journal of the attempt. Closes it at once if the attempt was abandoned.
    fn write_to(&self, journal: &Arc<RunJournal>) {
        let mut slot = self.journal.lock();
        if *self.signal.borrow() == AttemptSignal::Abandon {
            journal.close();
        }
        *slot = Some(Arc::clone(journal));
    }
}

/// Executes an attempt, settles its outcome and marks it as finished.
pub(crate) async fn run_attempt(shared: &EngineInner, live: &RunningAttempt) {
    let executed = AssertUnwindSafe(execute(shared, live)).catch_unwind().await;
    let ExecutionResult { outcome, position } = match executed {
        Ok(Ok(Some(executed))) => executed,
        Ok(Ok(None)) => return,
        Ok(Err(error)) if error.is_fenced() => return live.events.fenced(),
        Ok(Err(error)) => ExecutionResult::failed(AttemptOutcome::from_engine_error(&error)),
        // The agent factory is foreign code and can panic.
        Err(_) => {
            let detail = "the attempt panicked";
            ExecutionResult::failed(AttemptOutcome::failed(OutcomeCode::Internal, detail))
        }
    };
    failpoint!("attempt.before_settle");
    settle(shared, live, outcome, position).await;
    failpoint!("attempt.settled");
}

/// Executes an attempt with the executor of its kind. `None` if the attempt was abandoned.
async fn execute(
    shared: &EngineInner,
    live: &RunningAttempt,
) -> Result<Option<ExecutionResult>, EngineError> {
    shared.executors.get(live.lease.kind)?.execute(shared, live).await
}

/// Settles an attempt. Retries until the database accepts the outcome, because completed effects must not run again.
async fn settle(
    shared: &EngineInner,
    live: &RunningAttempt,
    mut outcome: AttemptOutcome,
    mut position: JournalPosition,
) {
    let options = &shared.options;
    let (expiry, fallback) = (options.approval_expiry, options.fallback);
    let approval_settings = ApprovalSettings { id: shared.env.id(), expiry, fallback };
    let chance = shared.env.random_unit();
    let mut signal = live.signal.subscribe();
    let mut delay = SETTLE_RETRY;
    let journal = live.journal.lock().clone();
    loop {
        let (lease, settled) = (Arc::clone(&live.lease), outcome.clone());
        let JournalPosition { last_step: after, first_in_flight_step } = position;
        let params = SettleParams { chance, approval_settings, after, first_in_flight_step };
        let settled = shared.store.write(move |tx| settle::settle(tx, &lease, &settled, params));
        let error = match (settled.await, &journal) {
            (Ok(SettleResult::WriteLost), Some(journal)) => {
                position = JournalPosition::default();
                match journal.flush().await {
                    Err(error) if error.is_fenced() => return live.events.fenced(),
                    Err(error) => outcome = AttemptOutcome::from_engine_error(&error),
                    Ok(()) if matches!(outcome, AttemptOutcome::Completed(_)) => {
                        outcome = AttemptOutcome::NotPersisted(
                            "the last write of the attempt was lost".to_owned(),
                        );
                    }
                    Ok(()) => {}
                }
                continue;
            }
            (Ok(_), _) => return,
            (Err(error), _) => error,
        };
        if error.is_fenced() {
            return live.events.fenced();
        }
        tracing::warn!(run = %live.lease.run, %error, "an attempt could not be settled");
        if !error.kind().retryable() {
            // The heartbeat of the worker detects the orphaned run and requeues it.
            return;
        }
        tokio::select! {
            biased;
            _ = signal.wait_for(|signal| *signal == AttemptSignal::Abandon) => return,
            () = tokio::time::sleep(delay) => delay = (delay * 2).min(SETTLE_RETRY_MAX),
        }
    }
}
