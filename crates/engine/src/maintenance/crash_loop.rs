//! A service that crashes again and again starts without its work, so that somebody can look and repair.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use provost_core::{Timestamp, WorkerId};
use provost_store::table::scheduling::{process_start, worker};
use provost_store::{Tx, is_free};

use crate::engine::Shared;
use crate::error::EngineError;
use crate::run::lifecycle::word;

/// When a service counts as crashing again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BootGuard {
    /// So many processes that did not end in order.
    pub unclean_max: usize,
    /// Within this time.
    pub window: Duration,
}

impl Default for BootGuard {
    fn default() -> Self {
        Self { unclean_max: 3, window: Duration::from_secs(300) }
    }
}

/// Until when nothing is claimed, if the service has crashed too often of late.
pub(crate) async fn guard_boot(shared: &Shared) -> Result<Option<Timestamp>, EngineError> {
    let Some(guard) = shared.options.boot_guard else { return Ok(None) };
    let until = shared.store.read(move |tx| guarded_until(tx, guard)).await?;
    if let Some(until) = until {
        tracing::error!(%until, "the service crashed again and again: it claims no runs until then");
    }
    Ok(until)
}

/// Until when the processes that crashed of late keep a service from its work.
fn guarded_until(tx: &mut Tx<'_>, guard: BootGuard) -> Result<Option<Timestamp>, EngineError> {
    let since = tx.now().before(guard.window);
    // A worker that was dropped inside a living process is no crash, and one process is one crash.
    let mut dead = BTreeSet::from([u64::from(std::process::id())]);
    let mut crashes = 0;
    for row in process_start::unclean_since(tx, since)? {
        let Some(node) = worker::get(tx, word::<WorkerId>(&row.id)?)? else { continue };
        if !is_free(&PathBuf::from(&node.lock_path))? || !dead.insert(node.pid) {
            continue;
        }
        crashes += 1;
        if crashes == guard.unclean_max {
            // From then on this crash is too long ago to count.
            return Ok(Some(row.started.after(guard.window)));
        }
    }
    Ok(None)
}
