//! Workspace of a run: after a crash it is intact, or the run learns that files are lost.
//!
//! Invariant: the loss is in the event log before the run uses the remaining files. A resumed run checks its
//! workspace before it does anything, and a call that finds the loss reports it to the journal first.

use std::sync::Arc;

use futures::future::BoxFuture;
use provost_core::durable::{DurableEvent, WorkspaceReset};
use provost_store::table::work::run;
use provost_store::{Store, Tx};

use crate::engine::EngineInner;
use crate::error::EngineError;
use crate::journal::RunJournal;
use crate::journal::transaction::fenced_error;
use crate::run::event;
use crate::worker::lease::Lease;

/// Reason in the event for a resumed run. The first call that uses the workspace finds out which files are lost.
const INTERRUPTED: &str = "what was changed before the run was interrupted is lost";

/// Checks the workspaces of resumed runs.
pub trait WorkspaceProbe: Send + Sync + 'static {
    /// Returns true if the workspace contains the files that the run left there. Called before the new attempt
    /// executes anything.
    fn is_intact<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, bool>;
}

/// Checks the workspace of a resumed run. If files are lost, appends an event, once per attempt.
pub(crate) async fn check_workspace(
    shared: &EngineInner,
    lease: &Arc<Lease>,
    journal: &RunJournal,
) -> Result<(), EngineError> {
    let Some(workspaces) = &shared.workspaces else { return Ok(()) };
    if workspaces.is_intact(lease).await {
        return Ok(());
    }
    record_reset(&shared.store, lease, INTERRUPTED).await?;
    journal.mark_reset_recorded();
    Ok(())
}

/// Appends the event that files of a run are lost.
pub(crate) async fn record_reset(
    store: &Store,
    lease: &Arc<Lease>,
    reason: &str,
) -> Result<(), EngineError> {
    let (lease, reason) = (Arc::clone(lease), reason.to_owned());
    store.write(move |tx| push_reset(tx, &lease, &reason)).await
}

/// Appends the event `WorkspaceReset` inside a transaction. Fails if another attempt has the run.
fn push_reset(tx: &mut Tx<'_>, lease: &Lease, reason: &str) -> Result<(), EngineError> {
    let row = run::lock(tx, lease.run)?.filter(|row| row.epoch == lease.epoch);
    let Some(mut row) = row else { return Err(fenced_error(tx, lease)?) };
    let reset = WorkspaceReset { attempt: lease.attempt, reason: reason.to_owned() };
    event::append_event(tx, &mut row, DurableEvent::WorkspaceReset(reset))?;
    row.save(tx)?;
    Ok(())
}
