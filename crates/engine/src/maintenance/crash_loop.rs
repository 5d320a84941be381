//! Crash loop detection: after too many crashes, a service starts without claiming runs, so that an operator can
//! repair it.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use provost_core::Timestamp;
use provost_store::table::scheduling::{process_start, worker};
use provost_store::{Tx, is_unlocked};

use crate::engine::EngineInner;
use crate::error::EngineError;

/// Threshold of the crash loop detection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrashLoopGuard {
    /// Number of crashed processes that make a crash loop. Default: 3.
    pub unclean_max: usize,
    /// Period in which the crashes count. Default: 5 min.
    pub window: Duration,
}

impl Default for CrashLoopGuard {
    fn default() -> Self {
        Self { unclean_max: 3, window: Duration::from_secs(300) }
    }
}

/// Returns the time before which nothing may be claimed. `None` if the service is in no crash loop.
pub(crate) async fn check_crash_loop(
    shared: &EngineInner,
) -> Result<Option<Timestamp>, EngineError> {
    let Some(guard) = shared.options.crash_loop_guard else { return Ok(None) };
    let until = shared.store.read(move |tx| guarded_until(tx, guard)).await?;
    if let Some(until) = until {
        tracing::error!(%until, "the service is in a crash loop and claims no runs until then");
    }
    Ok(until)
}

/// Returns the end of the crash loop: the time at which fewer than the maximum of crashes are recent. `None` if there
/// is none.
fn guarded_until(tx: &mut Tx<'_>, guard: CrashLoopGuard) -> Result<Option<Timestamp>, EngineError> {
    let since = tx.now().before(guard.window);
    // A worker that was dropped in a living process is no crash, and several workers of one process are one crash.
    let mut dead = BTreeSet::from([u64::from(std::process::id())]);
    let mut crashes = 0;
    for row in process_start::unclean_since(tx, since)? {
        let Some(node) = worker::get(tx, row.worker()?)? else { continue };
        if !is_unlocked(&PathBuf::from(&node.lock_path))? || !dead.insert(node.pid) {
            continue;
        }
        crashes += 1;
        if crashes == guard.unclean_max {
            // At that time, this crash is too old to count.
            return Ok(Some(row.started.after(guard.window)));
        }
    }
    Ok(None)
}
