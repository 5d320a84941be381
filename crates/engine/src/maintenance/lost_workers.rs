//! Recovery of runs whose worker is lost. The action depends on their in-flight steps.

use std::path::PathBuf;
use std::time::Duration;

use provost_core::durable::{DurableEvent, WorkerLost};
use provost_core::lifecycle::{
    InFlightStep, LeaseExpiryAction, LostWorkerContext, RunPhase, RunTransition, StepKind,
    on_lease_expired,
};
use provost_core::recovery::OutcomeCode;
use provost_core::{RunId, WorkerId};
use provost_failpoint::failpoint;
use provost_store::table::scheduling::worker;
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::{journal, run_step};
use provost_store::{Locked, Tx, is_unlocked};

use super::BATCH;
use crate::engine::EngineInner;
use crate::error::EngineError;
use crate::run::end::{self, RunEnd};
use crate::run::event;
use crate::run::lifecycle::transition_run;
use crate::run::settle;
use crate::submit::queue;

/// What recovery knows about a lost worker, for all of its runs.
#[derive(Debug, Clone, Copy)]
struct LossContext {
    loss: LostWorkerContext,
    /// Additional delay of one lease, for workers that may be alive and have not noticed the loss.
    grace: Duration,
}

impl LossContext {
    /// Creates the facts of a lost worker. Its crash history comes from the run.
    fn new(shared: &EngineInner, is_proven_dead: bool) -> Self {
        let on_unknown = shared.options.on_unknown;
        let loss = LostWorkerContext {
            on_unknown,
            confirmed_dead: is_proven_dead,
            ..LostWorkerContext::default()
        };
        Self { loss, grace: shared.options.lease }
    }
}

/// Requeues or ends a batch of runs whose leases have expired.
pub(crate) async fn reclaim_expired_leases(shared: &EngineInner) -> Result<(), EngineError> {
    let found = shared.store.read(|tx| Ok::<_, EngineError>(run::expired_leases(tx, BATCH)?));
    let context = LossContext::new(shared, /*is_proven_dead*/ false);
    let expired = found.await?;
    let jobs: Vec<_> = expired
        .into_iter()
        .map(|row| {
            shared.store.write(move |tx| {
                let now = tx.now();
                let still = |row: &RunRow| row.lease_until.is_some_and(|until| until <= now);
                reclaim_if(tx, row.id, row.epoch, still, context)
            })
        })
        .collect();
    for job in jobs {
        job.await?;
        failpoint!("keeper.swept");
    }
    Ok(())
}

/// Reclaims runs of workers that are proven dead: their lock is free.
pub(crate) async fn reclaim_dead_workers(shared: &EngineInner) -> Result<(), EngineError> {
    let live = shared.store.read(|tx| Ok::<_, EngineError>(worker::live(tx)?)).await?;
    for row in live {
        if is_unlocked(&PathBuf::from(&row.lock_path))? {
            reclaim_worker(shared, row.id).await?;
            failpoint!("keeper.took_over");
        }
    }
    Ok(())
}

/// Requeues or ends all runs of a dead worker, and marks the worker as stopped.
async fn reclaim_worker(shared: &EngineInner, dead: WorkerId) -> Result<(), EngineError> {
    let owned =
        shared.store.read(move |tx| Ok::<_, EngineError>(run::leased_by(tx, dead)?)).await?;
    let context = LossContext::new(shared, /*is_proven_dead*/ true);
    let mut jobs: Vec<_> = owned
        .into_iter()
        .map(|row| {
            shared.store.write(move |tx| {
                let still = |row: &RunRow| row.lease_owner == Some(dead);
                reclaim_if(tx, row.id, row.epoch, still, context)
            })
        })
        .collect();
    jobs.push(shared.store.write(move |tx| {
        worker::stop(tx, dead)?;
        Ok(())
    }));
    for job in jobs {
        job.await?;
    }
    Ok(())
}

/// Reclaims a run from an attempt of this process that has ended without settling it.
pub(crate) async fn handle_lost_run(
    shared: &EngineInner,
    id: RunId,
    epoch: u64,
) -> Result<(), EngineError> {
    let context = LossContext::new(shared, /*is_proven_dead*/ true);
    shared.store.write(move |tx| reclaim_if(tx, id, epoch, |_| true, context)).await
}

/// Reclaims a run from the attempt with this epoch, if it still has the lease and `still` holds.
fn reclaim_if(
    tx: &mut Tx<'_>,
    id: RunId,
    epoch: u64,
    still: impl Fn(&RunRow) -> bool,
    context: LossContext,
) -> Result<(), EngineError> {
    let held =
        |row: &Locked<RunRow>| row.phase == RunPhase::Leased && row.epoch == epoch && still(row);
    match run::lock(tx, id)?.filter(held) {
        Some(row) => recover(tx, row, context),
        None => Ok(()),
    }
}

/// Requeues the unfinished runs of a worker that stops in order. This does not count as a crash.
pub(crate) fn requeue_all(tx: &mut Tx<'_>, id: WorkerId) -> Result<(), EngineError> {
    for row in run::leased_by(tx, id)? {
        let still =
            |row: &Locked<RunRow>| row.phase == RunPhase::Leased && row.lease_owner == Some(id);
        let Some(mut row) = run::lock(tx, row.id)?.filter(still) else { continue };
        if row.cancel_requested.is_some() {
            let ending = settle::cancelled(&row)?;
            end::end_run(tx, &mut row, &ending)?;
        } else {
            settle::requeue(tx, &mut row, "its worker stopped", Duration::ZERO)?;
        }
    }
    Ok(())
}

/// Applies the recovery action to a run whose worker is lost.
fn recover(
    tx: &mut Tx<'_>,
    mut row: Locked<RunRow>,
    context: LossContext,
) -> Result<(), EngineError> {
    let open = open_steps(tx, row.id)?;
    let loss = LostWorkerContext {
        cancel_requested: row.cancel_requested.is_some(),
        // Progress has reset it to zero.
        crashes: u32::try_from(row.crash_count).unwrap_or(u32::MAX),
        ..context.loss
    };
    match on_lease_expired(&open, loss, context.grace) {
        LeaseExpiryAction::Cancel => {
            let ending = settle::cancelled(&row)?;
            end::end_run(tx, &mut row, &ending)
        }
        LeaseExpiryAction::CrashLoop => {
            row.crash_count = u64::from(loss.consecutive_crashes());
            let detail = "it crashed repeatedly without progress";
            if row.execution_policy()?.retry.pause_at_end {
                return settle::park_for_operator(tx, &mut row, OutcomeCode::CrashLoop, detail);
            }
            end::end_run(tx, &mut row, &RunEnd::with_code(OutcomeCode::CrashLoop, detail))
        }
        LeaseExpiryAction::Fail => {
            let detail = "the outcome of a tool call is unknown after an interruption";
            end::end_run(tx, &mut row, &RunEnd::with_code(OutcomeCode::ToolError, detail))
        }
        // The next attempt requests the approval, because it knows the call.
        LeaseExpiryAction::Park => requeue_lost(tx, &mut row, loss, Duration::ZERO),
        LeaseExpiryAction::Requeue { after, .. } => requeue_lost(tx, &mut row, loss, after),
    }
}

/// Requeues a run whose worker was lost, and counts the crash. Steps in flight get an unknown outcome.
fn requeue_lost(
    tx: &mut Tx<'_>,
    row: &mut Locked<RunRow>,
    loss: LostWorkerContext,
    after: Duration,
) -> Result<(), EngineError> {
    let detail = "its worker was lost";
    end::release_attempt(tx, row, Some(OutcomeCode::WorkerLost), Some(detail))?;
    journal::mark_open_steps_unknown(tx, row.id)?;
    row.crash_count = u64::from(loss.consecutive_crashes());
    transition_run(row, RunTransition::Requeued)?;
    let at = tx.now().after(after);
    queue::schedule(tx, row, at)?;
    let lost = WorkerLost { attempt: row.attempt_no, crashes: row.crash_count, at };
    event::append_event(tx, row, DurableEvent::WorkerLost(lost))?;
    row.save(tx)?;
    settle::requeue_task(tx, row)?;
    queue::refresh(tx, &row.namespace, &row.session_id)
}

/// Returns the steps of a run without an outcome.
fn open_steps(tx: &mut Tx<'_>, id: RunId) -> Result<Vec<InFlightStep>, EngineError> {
    let mut open = Vec::new();
    for row in run_step::open(tx, id)? {
        let kind: StepKind = row.kind;
        let class = row.effect_class;
        let class = class.or(kind.own_class()).unwrap_or_default();
        open.push(InFlightStep { kind, state: row.state, class });
    }
    Ok(open)
}
