//! The event log of a run: numbered from one, without a gap.

use provost_core::{MessageId, RunId, Timestamp};

use crate::{StoreError, Tx, params};

table! {
    /// One event.
    RunEventRow in "run_event" {
        /// The run.
        run_id: RunId,
        /// Its number.
        seq: u64,
        /// The epoch that wrote it.
        epoch: u64,
        /// The attempt that wrote it.
        attempt_no: u64,
        /// What happened.
        kind: String,
        /// When.
        at: Timestamp,
        /// The message it is about.
        message_id: Option<MessageId>,
        /// More about it as JSON, if it is small.
        body: Option<String>,
        /// The blob that holds it, if it is not.
        blob: Option<String>,
    }
}

/// The event of a run with the number.
pub fn get(tx: &mut Tx<'_>, run_id: RunId, seq: u64) -> Result<Option<RunEventRow>, StoreError> {
    tx.optional(&RunEventRow::select("WHERE run_id = ?1 AND seq = ?2"), params![run_id, seq])
}

/// The events of a run after the number `after`, in order.
pub fn after(
    tx: &mut Tx<'_>,
    run_id: RunId,
    after: u64,
    limit: u64,
) -> Result<Vec<RunEventRow>, StoreError> {
    let sql = RunEventRow::select("WHERE run_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3");
    tx.all(&sql, params![run_id, after, limit])
}

/// The last event of a run.
pub fn last(tx: &mut Tx<'_>, run_id: RunId) -> Result<Option<RunEventRow>, StoreError> {
    let sql = RunEventRow::select("WHERE run_id = ?1 ORDER BY seq DESC LIMIT 1");
    tx.optional(&sql, params![run_id])
}

/// The number of the oldest event that is still kept.
pub fn first_kept(tx: &mut Tx<'_>, run_id: RunId) -> Result<Option<u64>, StoreError> {
    tx.one("SELECT min(seq) FROM run_event WHERE run_id = ?1", params![run_id])
}
