//! The event log: of each run numbered from one, without a gap, and of all runs in the order of their commits.

use provost_core::{DurableEventKind, MessageId, RunId, Timestamp};

use crate::{FromColumn, StoreError, ToColumn, Tx, Value, params};

/// A position in the whole log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pos(u64);

impl Pos {
    /// The next one: the database gives it out when the event is stored.
    pub const NEXT: Self = Self(0);

    /// The position as a number; positions begin with one.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl ToColumn for Pos {
    fn to_value(&self) -> Value<'_> {
        if *self == Self::NEXT { Value::Null } else { self.0.to_value() }
    }
}

impl FromColumn for Pos {
    fn from_value(value: Value<'_>) -> Result<Self, String> {
        u64::from_value(value).map(Self)
    }
}

#[cfg(test)]
impl crate::table::tests::Sample for Pos {
    fn sample(seed: u64) -> Self {
        Self(seed + 1)
    }
}

table! {
    /// One event.
    RunEventRow in "run_event" {
        /// The position in the whole log.
        pos: Pos,
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

/// The position of the last event of all; zero if there is none.
pub fn last_pos(tx: &mut Tx<'_>) -> Result<u64, StoreError> {
    tx.one("SELECT coalesce(max(pos), 0) FROM run_event", params![])
}

/// The position of the oldest event that is still kept; zero if there is none.
pub fn first_pos(tx: &mut Tx<'_>) -> Result<u64, StoreError> {
    tx.one("SELECT coalesce(min(pos), 0) FROM run_event", params![])
}

/// The events of a run after a number that are of one of these kinds, in order.
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
    tx.all(&sql, &values)
}

/// The last events of a run that are of one of these kinds, the newest first.
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
    tx.all(&sql, &values)
}
