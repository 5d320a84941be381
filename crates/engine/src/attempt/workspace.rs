//! Where a run works: after a crash it finds there what it left, or it is told that it does not.
//!
//! Invariant: a loss is in the log before anything is done with the files that are left, whoever finds it: a run that goes on
//! asks before it does anything, and a call that comes to its files first tells its journal.

use std::sync::Arc;

use futures::future::BoxFuture;
use provost_core::durable::{DurableEvent, WorkspaceReset};
use provost_store::table::work::run;
use provost_store::{Store, Tx};

use crate::engine::Shared;
use crate::error::EngineError;
use crate::journal::RunJournal;
use crate::journal::transaction::fenced;
use crate::run::event;
use crate::worker::lease::Lease;

/// What a run is told that goes on without its files. Which they are, its first call will find.
const INTERRUPTED: &str = "what was changed before the run was interrupted is lost";

/// Knows the places in which runs work.
pub trait Workspaces: Send + Sync + 'static {
    /// Is the workspace of a run that goes on what the run left behind? Asked before anything of the new attempt runs.
    fn survived<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, bool>;
}

/// A run goes on: if its workspace is not what it left, its log says so.
pub(crate) async fn check(
    shared: &Shared,
    lease: &Arc<Lease>,
    journal: &RunJournal,
) -> Result<(), EngineError> {
    let Some(workspaces) = &shared.workspaces else { return Ok(()) };
    if workspaces.survived(lease).await {
        return Ok(());
    }
    note_reset(&shared.store, lease, INTERRUPTED).await?;
    journal.told_of_loss();
    Ok(())
}

/// Files of a run are lost: its log says so.
pub(crate) async fn note_reset(
    store: &Store,
    lease: &Arc<Lease>,
    reason: &str,
) -> Result<(), EngineError> {
    let (lease, reason) = (Arc::clone(lease), reason.to_owned());
    store.write(move |tx| push_reset(tx, &lease, &reason)).await
}

fn push_reset(tx: &mut Tx<'_>, lease: &Lease, reason: &str) -> Result<(), EngineError> {
    let row = run::lock(tx, lease.run)?.filter(|row| row.epoch == lease.epoch);
    let Some(mut row) = row else { return Err(fenced(tx, lease)?) };
    let reset = WorkspaceReset { attempt: lease.attempt, reason: reason.to_owned() };
    event::append_event(tx, &mut row, DurableEvent::WorkspaceReset(reset))?;
    row.save(tx)?;
    Ok(())
}
