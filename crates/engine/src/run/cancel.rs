//! Cancellation: stored in the run row first, so a lost wakeup only delays it. Descendants are cancelled too.

use provost_core::durable::{CancelRequested, DurableEvent};
use provost_core::id::name::Namespace;
use provost_core::lifecycle::{RunPhase, TaskTransition};
use provost_core::recovery::OutcomeCode;
use provost_core::{RunId, TaskId};
use provost_failpoint::failpoint;
use provost_store::table::work::run::{self, RunRow};
use provost_store::{Locked, Tx, Wakeup};

use crate::error::EngineError;
use crate::run::end::{self, RunEnd};
use crate::run::event;
use crate::run::lifecycle::try_transition_task;
use crate::submit::lock_task;
use crate::tasks::Tasks;
use crate::{child, input};

/// Result of a cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelResult {
    /// The run has ended. No worker had leased it.
    Ended,
    /// The worker stops the run as soon as possible. If the worker is gone, the run ends when its lease expires.
    Requested,
    /// The run had ended before.
    AlreadyEnded,
}

impl Tasks<'_> {
    /// Cancels a task: its run, its pending inputs, and all descendants.
    pub async fn cancel(
        self,
        namespace: &Namespace,
        id: TaskId,
    ) -> Result<CancelResult, EngineError> {
        let namespace = namespace.clone();
        let cancelled = self.engine.store().write(move |tx| cancel_task(tx, &namespace, id)).await;
        failpoint!("cancel.committed");
        cancelled
    }
}

/// Withdraws the inputs of a task, cancels its runs and all descendants.
fn cancel_task(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    id: TaskId,
) -> Result<CancelResult, EngineError> {
    let task = lock_task(tx, namespace, id)?;
    if task.state.is_terminal() {
        return Ok(CancelResult::AlreadyEnded);
    }
    // Inputs first, so that the end of a run does not start the next one.
    input::withdraw_all(tx, id)?;
    let mut found = CancelResult::Ended;
    for run in run::lock_live_of_task(tx, id)? {
        if cancel(tx, run, OutcomeCode::CancelledByUser)? == CancelResult::Requested {
            found = CancelResult::Requested;
        }
    }
    child::cancel_descendants(tx, id)?;
    let mut task = lock_task(tx, namespace, id)?;
    if found == CancelResult::Ended {
        let _applied = try_transition_task(tx, &mut task, TaskTransition::Cancelled)?;
    }
    Ok(found)
}

/// Cancels a run of the namespace and its children with an outcome code. Fails if the run does not exist.
pub(crate) fn cancel_run(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    id: RunId,
    code: OutcomeCode,
) -> Result<CancelResult, EngineError> {
    let row = run::lock_in(tx, namespace.as_str(), id)?
        .ok_or_else(|| EngineError::not_found("run", id))?;
    cancel(tx, row, code)
}

/// Ends a run that no worker executes. Otherwise records the request, cancels the children and signals the worker.
pub(crate) fn cancel(
    tx: &mut Tx<'_>,
    mut row: Locked<RunRow>,
    code: OutcomeCode,
) -> Result<CancelResult, EngineError> {
    if row.state()?.is_terminal() {
        return Ok(CancelResult::AlreadyEnded);
    }
    if row.phase != RunPhase::Leased {
        let detail = match code {
            OutcomeCode::DeadlineExceeded => "the deadline has passed",
            _ => "it was cancelled",
        };
        end::end_run(tx, &mut row, &RunEnd::with_code(code, detail))?;
        return Ok(CancelResult::Ended);
    }
    if row.cancel_requested.is_none() {
        row.cancel_requested = Some(tx.now());
        row.cancel_code = Some(code);
        let requested = DurableEvent::CancelRequested(CancelRequested { code });
        event::append_event(tx, &mut row, requested)?;
        row.save(tx)?;
        // The children need not wait until their parent has stopped.
        child::cancel_children(tx, &row)?;
    }
    tx.wake(Wakeup::Cancel(row.id));
    Ok(CancelResult::Requested)
}
