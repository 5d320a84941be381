//! The machine of a long run as it stood, so that a resume need not fold it from the beginning.
//!
//! A snapshot is written when more was fed since the last one than before it, so all snapshots of a run together cost no more
//! than a constant part of it, and a fold never repeats more than half of what was fed. Short runs have none.
//!
//! Invariant: a snapshot is a shortcut and nothing else. A run that loses it is folded from its feeds to the same machine.

use provost_agent::run::{RUN_VERSION, Run};
use provost_core::RunId;
use provost_store::table::work::run_snapshot::{self, RunSnapshotRow};
use provost_store::table::work::{journal, run};
use provost_store::{Body, Tx, load_body};
use serde_json::Value;

use crate::error::EngineError;
use crate::worker::lease::Lease;

/// What is fed before the first snapshot is worth its bytes.
const FED_MIN: u64 = 256;

/// Is it time for a snapshot after the feed `fed`, where the last one was taken after the feed `last`?
pub(crate) fn is_due(fed: u64, last: u64) -> bool {
    fed.saturating_sub(last) > last.max(FED_MIN)
}

/// A snapshot on its way to the database.
pub(crate) struct Snapshot {
    /// The last feed that is in it.
    pub(crate) fed: u64,
    /// The step that holds that feed.
    pub(crate) step: u64,
    body: Body,
}

impl Snapshot {
    /// The machine after a feed.
    pub(crate) fn new(machine: &Run, fed: u64, step: u64) -> Result<Self, EngineError> {
        let body = Body::new(serde_json::to_string(machine)?)?;
        Ok(Self { fed, step, body })
    }

    /// Stores it in place of the older ones, unless the run was taken away or the feed was lost.
    pub(crate) fn put(&self, tx: &mut Tx<'_>, lease: &Lease) -> Result<(), EngineError> {
        let held = run::get(tx, lease.run)?.is_some_and(|row| row.epoch == lease.epoch);
        if !held || !journal::is_committed(tx, lease.run, self.step)? {
            return Ok(());
        }
        let (body, blob) = self.body.store(tx)?;
        let (run_id, fed, created) = (lease.run, self.fed, tx.now());
        RunSnapshotRow { run_id, fed, body, blob, created }.insert_new(tx)?;
        run_snapshot::prune(tx, lease.run, self.fed)?;
        Ok(())
    }
}

/// The newest machine of a run that was kept, not after the feed `until`, with its last feed. It gets the id of the run that
/// goes on with it.
pub(crate) fn latest(
    tx: &mut Tx<'_>,
    run: RunId,
    until: Option<u64>,
    id: RunId,
) -> Result<Option<(Run, u64)>, EngineError> {
    let row = match until {
        Some(until) => run_snapshot::at(tx, run, until)?,
        None => run_snapshot::latest(tx, run)?,
    };
    let Some(row) = row else { return Ok(None) };
    let text = load_body(tx, row.body, row.blob.as_deref())?.unwrap_or_default();
    let mut stored: Value = serde_json::from_str(&text)?;
    if stored["version"] != RUN_VERSION {
        // Another program kept it; the feeds are still there.
        return Ok(None);
    }
    if run != id {
        stored["id"] = Value::String(id.to_string());
    }
    Ok(Some((serde_json::from_value(stored)?, row.fed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_come_at_doubling_distances() {
        let mut taken = Vec::new();
        for fed in 1..100_000 {
            if is_due(fed, taken.last().copied().unwrap_or(0)) {
                taken.push(fed);
            }
        }
        assert_eq!(taken.first(), Some(&257));
        assert!(taken.windows(2).all(|pair| pair[1] == 2 * pair[0] + 1), "{taken:?}");
    }
}
