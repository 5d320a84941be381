//! The event log. The events of each run are numbered from 1 without gaps; all events are ordered by commit.

use provost_core::{DurableEventKind, MessageId, RunId, Timestamp};

use crate::{FromColumn, StoreError, ToColumn, Tx, Value, params};

/// A position in the whole log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition(u64);

impl LogPosition {
    /// Placeholder of an event that is not stored yet. The database assigns the position.
    pub const NEXT: Self = Self(0);

    /// Returns the position as a number, starting at 1.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl ToColumn for LogPosition {
    fn to_value(&self) -> Value<'_> {
        if *self == Self::NEXT { Value::Null } else { self.0.to_value() }
    }
}

impl FromColumn for LogPosition {
    fn from_value(value: Value<'_>) -> Result<Self, String> {
        u64::from_value(value).map(Self)
    }
}

#[cfg(test)]
impl crate::table::tests::Sample for LogPosition {
    fn sample(seed: u64) -> Self {
        Self(seed + 1)
    }
}

table! {
    /// An event.
    RunEventRow in "run_event" {
        /// Position in the whole log.
        pos: LogPosition,
        /// The run.
        run_id: RunId,
        /// Sequence number within the run.
        seq: u64,
        /// The epoch that wrote the event.
        epoch: u64,
        /// The attempt that wrote the event.
        attempt_no: u64,
        /// Kind of the event.
        kind: String,
        /// Time of the event.
        at: Timestamp,
        /// The message of the event.
        message_id: Option<MessageId>,
        /// Data of the event as JSON, if it is small.
        body: Option<String>,
        /// Hash of the blob with the data, if it is large.
        blob: Option<String>,
    }
}

/// Returns the event of a run with this number. `None` if it does not exist.
pub fn get(tx: &mut Tx<'_>, run_id: RunId, seq: u64) -> Result<Option<RunEventRow>, StoreError> {
    tx.fetch_optional(&RunEventRow::select("WHERE run_id = ?1 AND seq = ?2"), params![run_id, seq])
}

/// Returns the events of a run after the number `after`, in order.
pub fn after(
    tx: &mut Tx<'_>,
    run_id: RunId,
    after: u64,
    limit: u64,
) -> Result<Vec<RunEventRow>, StoreError> {
    let sql = RunEventRow::select("WHERE run_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3");
    tx.fetch_all(&sql, params![run_id, after, limit])
}

/// Returns the last event of a run. `None` if there is none.
pub fn last(tx: &mut Tx<'_>, run_id: RunId) -> Result<Option<RunEventRow>, StoreError> {
    let sql = RunEventRow::select("WHERE run_id = ?1 ORDER BY seq DESC LIMIT 1");
    tx.fetch_optional(&sql, params![run_id])
}

/// Returns the number of the oldest event of a run that retention has not removed. `None` if there is none.
pub fn first_retained(tx: &mut Tx<'_>, run_id: RunId) -> Result<Option<u64>, StoreError> {
    tx.fetch_one("SELECT min(seq) FROM run_event WHERE run_id = ?1", params![run_id])
}

/// Returns the position of the last event in the log; zero if the log is empty.
pub fn last_pos(tx: &mut Tx<'_>) -> Result<u64, StoreError> {
    tx.fetch_one("SELECT coalesce(max(pos), 0) FROM run_event", params![])
}

/// Returns the position of the oldest event in the log; zero if the log is empty.
pub fn first_pos(tx: &mut Tx<'_>) -> Result<u64, StoreError> {
    tx.fetch_one("SELECT coalesce(min(pos), 0) FROM run_event", params![])
}

/// Returns the events of a run after the number `after` that have one of the kinds, in order.
pub fn after_of(
    tx: &mut Tx<'_>,
    run_id: RunId,
    kinds: &[DurableEventKind],
    after: u64,
    limit: u64,
) -> Result<Vec<RunEventRow>, StoreError> {
    let places: Vec<String> = (4..kinds.len() + 4).map(|place| format!("?{place}")).collect();
    let sql = RunEventRow::select(&format!(
        "WHERE run_id = ?1 AND seq > ?2 AND kind IN ({}) ORDER BY seq LIMIT ?3",
        places.join(", ")
    ));
    let mut values = params![run_id, after, limit].to_vec();
    values.extend(kinds.iter().map(|kind| kind.as_str().to_value()));
    tx.fetch_all(&sql, &values)
}

/// Returns the last events of a run that have one of the kinds, newest first.
pub fn last_of(
    tx: &mut Tx<'_>,
    run_id: RunId,
    kinds: &[DurableEventKind],
    limit: u64,
) -> Result<Vec<RunEventRow>, StoreError> {
    let places: Vec<String> = (3..kinds.len() + 3).map(|place| format!("?{place}")).collect();
    let sql = RunEventRow::select(&format!(
        "WHERE run_id = ?1 AND kind IN ({}) ORDER BY seq DESC LIMIT ?2",
        places.join(", ")
    ));
    let mut values = params![run_id, limit].to_vec();
    values.extend(kinds.iter().map(|kind| kind.as_str().to_value()));
    tx.fetch_all(&sql, &values)
}
