//! Repairs values that other rows determine, after a manual change or a defect.

use provost_core::scheduling::TimerKind;
use provost_store::table::scheduling::{concurrency_limit, execution_class, timer};
use provost_store::table::work::run_state::DEFERRED;
use provost_store::table::work::{run, session};

use super::BATCH;
use crate::engine::EngineInner;
use crate::error::EngineError;
use crate::submit::queue;

/// Corrects the counters of running runs, the marks of ready runs, and missing timers. Logs each correction.
pub(crate) async fn reconcile(shared: &EngineInner) -> Result<(), EngineError> {
    let repaired = shared.store.write(|tx| {
        let classes = execution_class::recount(tx)?;
        let limits = concurrency_limit::recount(tx)?;
        Ok::<_, EngineError>(classes || limits)
    });
    if repaired.await? {
        tracing::warn!("a count of active runs was wrong and was repaired");
    }
    repair_ready(shared).await?;
    repair_timers(shared).await
}

/// Marks the runs that should be ready, and only those.
async fn repair_ready(shared: &EngineInner) -> Result<(), EngineError> {
    let found = shared
        .store
        .read(|tx| Ok::<_, EngineError>(run::sessions_with_wrong_ready_flag(tx, BATCH)?));
    for (namespace, session) in found.await? {
        tracing::warn!(
            namespace,
            session,
            "the next run of a session was not marked as ready and was repaired"
        );
        let repaired = shared.store.write(move |tx| {
            session::lock(tx, &namespace, &session)?;
            queue::refresh(tx, &namespace, &session)
        });
        repaired.await?;
    }
    Ok(())
}

/// Sets the missing timers of delayed runs.
async fn repair_timers(shared: &EngineInner) -> Result<(), EngineError> {
    let found = shared.store.read(|tx| {
        Ok::<_, EngineError>(run::without_timer(tx, TimerKind::RunDue, DEFERRED, BATCH)?)
    });
    for (id, at) in found.await? {
        tracing::warn!(run = %id, "a delayed run had no timer and was repaired");
        let set = shared.store.write(move |tx| {
            timer::set(tx, TimerKind::RunDue, &id.to_string(), at)?;
            Ok::<_, EngineError>(())
        });
        set.await?;
    }
    Ok(())
}
