//! Snapshots of long runs, so that a resume does not replay the journal from its start.
//!
//! A snapshot is written when more entries follow the last snapshot than precede it. So all snapshots of a run
//! together cost at most a constant part of its journal, and a resume replays at most half of the entries. Short runs
//! have no snapshot.
//!
//! Invariant: a snapshot is only a shortcut. Without it, the journal entries give the same state machine.

use provost_agent::run::{RUN_VERSION, Run};
use provost_core::RunId;
use provost_store::table::work::run_snapshot::{self, RunSnapshotRow};
use provost_store::table::work::{journal, run};
use provost_store::{StoredText, Tx, load_text};
use serde_json::Value;

use crate::error::EngineError;
use crate::worker::lease::Lease;

/// Entries before the first snapshot.
const ENTRIES_MIN: u64 = 256;

/// Returns true if a snapshot is due after an entry: the journal has more than doubled since `last`, the entry of the last
/// snapshot, and grown by more than [`ENTRIES_MIN`].
pub(crate) fn is_due(entry_no: u64, last: u64) -> bool {
    entry_no.saturating_sub(last) > last.max(ENTRIES_MIN)
}

/// A snapshot to store.
pub(crate) struct RunSnapshot {
    /// Number of its last entry.
    pub(crate) entry_no: u64,
    /// Step that stores that entry.
    pub(crate) step: u64,
    body: StoredText,
}

impl RunSnapshot {
    /// Creates a snapshot of the state machine after an entry.
    pub(crate) fn new(machine: &Run, entry_no: u64, step: u64) -> Result<Self, EngineError> {
        let body = StoredText::new(serde_json::to_string(machine)?)?;
        Ok(Self { entry_no, step, body })
    }

    /// Stores the snapshot and removes older ones. Does nothing if another attempt has the run, or if the entry was
    /// not persisted.
    pub(crate) fn put(&self, tx: &mut Tx<'_>, lease: &Lease) -> Result<(), EngineError> {
        let is_leased = run::get(tx, lease.run)?.is_some_and(|row| row.epoch == lease.epoch);
        if !is_leased || !journal::is_committed(tx, lease.run, self.step)? {
            return Ok(());
        }
        let (body, blob) = self.body.store(tx)?;
        let (run_id, entry_no, created) = (lease.run, self.entry_no, tx.now());
        RunSnapshotRow { run_id, entry_no, body, blob, created }.insert_new(tx)?;
        run_snapshot::prune(tx, lease.run, self.entry_no)?;
        Ok(())
    }
}

/// Returns the newest snapshot of a run up to the entry `until`, with its last entry number. `None` if there is none,
/// or if another program version stored it. The state machine gets the id of the continuing run.
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
    let text = load_text(tx, row.body, row.blob.as_deref())?.unwrap_or_default();
    let mut stored: Value = serde_json::from_str(&text)?;
    if stored["version"] != RUN_VERSION {
        // Another program version stored it; the journal entries replace it.
        return Ok(None);
    }
    if run != id {
        stored["id"] = Value::String(id.to_string());
    }
    Ok(Some((serde_json::from_value(stored)?, row.entry_no)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_come_at_doubling_distances() {
        let mut taken = Vec::new();
        for entry_no in 1..100_000 {
            if is_due(entry_no, taken.last().copied().unwrap_or(0)) {
                taken.push(entry_no);
            }
        }
        assert_eq!(taken.first(), Some(&257));
        assert!(taken.windows(2).all(|pair| pair[1] == 2 * pair[0] + 1), "{taken:?}");
    }
}
