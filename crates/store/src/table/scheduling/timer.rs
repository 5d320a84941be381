//! Timers: actions that the engine performs at a given time.

use provost_core::Timestamp;
use provost_core::scheduling::TimerKind;

use crate::transaction::value::TextColumn;
use crate::{FromColumn, StoreError, Tx, params};

table! {
    /// A timer. The transaction that lets it fire also removes it.
    TimerRow in "timer" {
        /// The action.
        kind: TimerKind,
        /// The subject of the action, for example a run id.
        subject as "ref": String,
        /// Time at which the timer fires.
        fire_at: Timestamp,
        /// Time at which the timer was set.
        created: Timestamp,
    }
}

impl TimerRow {
    /// Parses the subject as an id of the type that belongs to the kind.
    pub fn subject_id<T: FromColumn>(&self) -> Result<T, StoreError> {
        let Self { kind, subject, .. } = self;
        TextColumn { table: "timer", column: "ref", row: kind, text: subject }.parse()
    }
}

/// Returns the timer of this kind for the subject. `None` if there is none.
pub fn get(
    tx: &mut Tx<'_>,
    kind: TimerKind,
    subject: &str,
) -> Result<Option<TimerRow>, StoreError> {
    tx.fetch_optional(&TimerRow::select("WHERE kind = ?1 AND ref = ?2"), params![kind, subject])
}

/// Sets the timer, or moves it if it is set.
pub fn set(
    tx: &mut Tx<'_>,
    kind: TimerKind,
    subject: &str,
    fire_at: Timestamp,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO timer (kind, ref, fire_at, created) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (kind, ref) DO UPDATE SET fire_at = excluded.fire_at",
        params![kind, subject, fire_at, tx.now()],
    )
    .map(drop)
}

/// Removes the timer. Returns false if it was not set.
pub fn clear(tx: &mut Tx<'_>, kind: TimerKind, subject: &str) -> Result<bool, StoreError> {
    Ok(tx.execute("DELETE FROM timer WHERE kind = ?1 AND ref = ?2", params![kind, subject])? == 1)
}

/// Removes the timers of these kinds for the subject.
pub fn clear_all(tx: &mut Tx<'_>, kinds: [TimerKind; 3], subject: &str) -> Result<(), StoreError> {
    let [a, b, c] = kinds;
    let sql = "DELETE FROM timer WHERE ref = ?1 AND kind IN (?2, ?3, ?4)";
    tx.execute(sql, params![subject, a, b, c]).map(drop)
}

/// Returns due timers, the longest overdue first.
pub fn due(tx: &mut Tx<'_>, limit: u64) -> Result<Vec<TimerRow>, StoreError> {
    let sql = TimerRow::select("WHERE fire_at <= ?1 ORDER BY fire_at, kind, ref LIMIT ?2");
    tx.fetch_all(&sql, params![tx.now(), limit])
}

/// Returns the time at which the next timer fires. `None` if there is none.
pub fn next(tx: &mut Tx<'_>) -> Result<Option<Timestamp>, StoreError> {
    tx.fetch_one("SELECT min(fire_at) FROM timer", params![])
}
