//! Where a run works: after a crash it finds there what it left, or it is told that it does not.

use futures::future::BoxFuture;
use provost_store::Tx;
use provost_store::row::run;
use serde_json::json;

use crate::engine::Shared;
use crate::error::EngineError;
use crate::event;
use crate::lease::Lease;
use crate::write::fenced;

/// Knows the places in which runs work.
pub trait Workspaces: Send + Sync + 'static {
    /// Is the workspace of a run that goes on what the run left behind? Asked before anything of the new attempt runs.
    fn survived<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, bool>;
}

/// A run goes on: if its workspace is not what it left, its log says so.
pub(crate) async fn check(shared: &Shared, lease: &Lease) -> Result<(), EngineError> {
    let Some(workspaces) = shared.outside.workspaces() else { return Ok(()) };
    if workspaces.survived(lease).await {
        return Ok(());
    }
    let lease = lease.clone();
    shared.store.write(move |tx| note_reset(tx, &lease)).await
}

fn note_reset(tx: &mut Tx<'_>, lease: &Lease) -> Result<(), EngineError> {
    let row = run::get(tx, lease.run)?.filter(|row| row.epoch == lease.epoch);
    let Some(mut row) = row else { return Err(fenced(tx, lease)?) };
    event::push(tx, &mut row, "workspace_reset", json!({ "attempt": lease.attempt }))?;
    row.update(tx)?;
    Ok(())
}
