//! Runs whose worker is lost: what becomes of them depends on what they were doing.

use std::path::PathBuf;
use std::time::Duration;

use provost_core::durable::{DurableEvent, WorkerLost};
use provost_core::lifecycle::{ExpiryAction, Loss, OpenStep, RunEvent, StepKind, at_expiry};
use provost_core::recovery::OutcomeCode;
use provost_core::{RunId, WorkerId};
use provost_failpoint::failpoint;
use provost_store::table::scheduling::worker;
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::{journal, run_step};
use provost_store::{Locked, Tx, is_free};

use super::BATCH;
use crate::engine::Shared;
use crate::error::EngineError;
use crate::queue;
use crate::run::end::{self, Ending};
use crate::run::event;
use crate::run::lifecycle::{move_run, policy, word};
use crate::run::settle;

/// What is known about workers that are lost.
#[derive(Debug, Clone, Copy)]
struct Circumstances {
    loss: Loss,
    /// One more lease: for those who may be alive and have not noticed.
    grace: Duration,
}

impl Circumstances {
    fn new(shared: &Shared, proven_dead: bool) -> Self {
        let on_unknown = shared.options.on_unknown;
        let loss = Loss { on_unknown, proven_dead, ..Loss::default() };
        Self { loss, grace: shared.options.lease }
    }
}

/// Takes runs from workers whose leases ran out.
pub(crate) async fn sweep(shared: &Shared) -> Result<(), EngineError> {
    let found = shared.store.read(|tx| Ok::<_, EngineError>(run::expired_leases(tx, BATCH)?));
    let circumstances = Circumstances::new(shared, /*proven_dead*/ false);
    let expired = found.await?;
    let jobs: Vec<_> = expired
        .into_iter()
        .map(|row| {
            shared.store.write(move |tx| {
                let now = tx.now();
                let still = |row: &RunRow| row.lease_until.is_some_and(|until| until <= now);
                lose_if(tx, row.id, row.epoch, still, circumstances)
            })
        })
        .collect();
    for job in jobs {
        job.await?;
        failpoint!("keeper.swept");
    }
    Ok(())
}

/// Takes runs from workers that are proven dead: their lock is free.
pub(crate) async fn take_over_the_dead(shared: &Shared) -> Result<(), EngineError> {
    let live = shared.store.read(|tx| Ok::<_, EngineError>(worker::live(tx)?)).await?;
    for row in live {
        if is_free(&PathBuf::from(&row.lock_path))? {
            take_over(shared, row.id).await?;
            failpoint!("keeper.took_over");
        }
    }
    Ok(())
}

async fn take_over(shared: &Shared, dead: WorkerId) -> Result<(), EngineError> {
    let owned = shared.store.read(move |tx| Ok::<_, EngineError>(run::owned_by(tx, dead)?)).await?;
    let circumstances = Circumstances::new(shared, /*proven_dead*/ true);
    let mut jobs: Vec<_> = owned
        .into_iter()
        .map(|row| {
            shared.store.write(move |tx| {
                let still = |row: &RunRow| row.lease_owner == Some(dead);
                lose_if(tx, row.id, row.epoch, still, circumstances)
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

/// Takes a run from an attempt of this process that is known to have ended without settling it.
pub(crate) async fn lose_run(shared: &Shared, id: RunId, epoch: u64) -> Result<(), EngineError> {
    let circumstances = Circumstances::new(shared, /*proven_dead*/ true);
    shared.store.write(move |tx| lose_if(tx, id, epoch, |_| true, circumstances)).await
}

/// Takes a run from the attempt that has the epoch, if it still holds it and the rest is still true.
fn lose_if(
    tx: &mut Tx<'_>,
    id: RunId,
    epoch: u64,
    still: impl Fn(&RunRow) -> bool,
    circumstances: Circumstances,
) -> Result<(), EngineError> {
    let held = |row: &Locked<RunRow>| row.phase == "leased" && row.epoch == epoch && still(row);
    match run::lock(tx, id)?.filter(held) {
        Some(row) => lose(tx, row, circumstances),
        None => Ok(()),
    }
}

/// A worker that ends in order gives back what it could not finish; nothing of it counts as a crash.
pub(crate) fn give_back(tx: &mut Tx<'_>, id: WorkerId) -> Result<(), EngineError> {
    for row in run::owned_by(tx, id)? {
        let still = |row: &Locked<RunRow>| row.phase == "leased" && row.lease_owner == Some(id);
        let Some(mut row) = run::lock(tx, row.id)?.filter(still) else { continue };
        if row.cancel_requested.is_some() {
            let ending = settle::cancelled(&row)?;
            end::end_run(tx, &mut row, &ending)?;
        } else {
            settle::go_back(tx, &mut row, "its worker stopped", Duration::ZERO)?;
        }
    }
    Ok(())
}

/// The worker of a run is lost.
fn lose(
    tx: &mut Tx<'_>,
    mut row: Locked<RunRow>,
    circumstances: Circumstances,
) -> Result<(), EngineError> {
    let open = open_steps(tx, row.id)?;
    let loss = Loss {
        cancel_requested: row.cancel_requested.is_some(),
        // Progress has set it to zero.
        crashes: u32::try_from(row.crash_count).unwrap_or(u32::MAX),
        ..circumstances.loss
    };
    match at_expiry(&open, loss, circumstances.grace) {
        ExpiryAction::Cancel => {
            let ending = settle::cancelled(&row)?;
            end::end_run(tx, &mut row, &ending)
        }
        ExpiryAction::CrashLoop => {
            row.crash_count = u64::from(loss.crashes_now());
            let detail = "it crashed again and again without getting anywhere";
            if policy(&row)?.retry.pause_at_end {
                return settle::pause(tx, &mut row, OutcomeCode::CrashLoop, detail);
            }
            end::end_run(tx, &mut row, &Ending::because(OutcomeCode::CrashLoop, detail))
        }
        ExpiryAction::Fail => {
            let detail = "the outcome of a tool call is unknown after an interruption";
            end::end_run(tx, &mut row, &Ending::because(OutcomeCode::ToolError, detail))
        }
        // A question is asked by the next attempt, which knows the call.
        ExpiryAction::Park => requeue(tx, &mut row, loss, Duration::ZERO),
        ExpiryAction::Requeue { after, .. } => requeue(tx, &mut row, loss, after),
    }
}

fn requeue(
    tx: &mut Tx<'_>,
    row: &mut Locked<RunRow>,
    loss: Loss,
    after: Duration,
) -> Result<(), EngineError> {
    let detail = "its worker was lost";
    end::release(tx, row, Some(OutcomeCode::WorkerLost), Some(detail))?;
    journal::lose_open_steps(tx, row.id)?;
    row.crash_count = u64::from(loss.crashes_now());
    move_run(row, RunEvent::Requeued)?;
    let at = tx.now().after(after);
    queue::schedule(tx, row, at)?;
    let lost = WorkerLost { attempt: row.attempt_no, crashes: row.crash_count, at };
    event::append_event(tx, row, DurableEvent::WorkerLost(lost))?;
    row.save(tx)?;
    settle::requeue_task(tx, row)?;
    queue::refresh(tx, &row.namespace, &row.session_id)
}

fn open_steps(tx: &mut Tx<'_>, id: RunId) -> Result<Vec<OpenStep>, EngineError> {
    let mut open = Vec::new();
    for row in run_step::open(tx, id)? {
        let kind: StepKind = word(&row.kind)?;
        let class = row.effect_class.as_deref().map(word).transpose()?;
        let class = class.or(kind.own_class()).unwrap_or_default();
        open.push(OpenStep { kind, state: word(&row.state)?, class });
    }
    Ok(open)
}
