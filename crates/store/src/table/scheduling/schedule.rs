//! Schedules, which submit a command at given times.

use provost_core::id::name::Namespace;
use provost_core::scheduling::{MissedRunPolicy, OverlapPolicy};
use provost_core::{TaskId, Timestamp};

use crate::transaction::value::TextColumn;
use crate::{Locked, StoreError, Tx, params};

table! {
    /// A schedule.
    ScheduleRow in "schedule" {
        /// Namespace of the row.
        namespace: String,
        /// The id.
        id: String,
        /// The times, as JSON.
        timing: String,
        /// Time zone of the times.
        zone: String,
        /// The command to submit, as JSON.
        command: String,
        /// Policy for missed times.
        catch_up: MissedRunPolicy,
        /// Policy for a time at which the previous task has not ended.
        overlap: OverlapPolicy,
        /// Maximum random delay, in milliseconds. Spreads schedules with equal times.
        jitter_ms: u64,
        /// The next time, including the random delay; `None` if there is none.
        next_at: Option<Timestamp>,
        /// False if the schedule is disabled.
        active: bool,
        /// Time of the last submission.
        last_at: Option<Timestamp>,
        /// The last submitted task.
        last_task_id: Option<TaskId>,
        /// Error of the last attempt, if it failed.
        last_error: Option<String>,
        /// Time of creation.
        created: Timestamp,
        /// Time of the last change.
        updated: Timestamp,
    }
}

impl ScheduleRow {
    /// Parses the tenancy boundary.
    pub fn namespace(&self) -> Result<Namespace, StoreError> {
        TextColumn { table: "schedule", column: "namespace", row: &self.id, text: &self.namespace }
            .parse()
    }
}

/// Returns the schedule with this id. `None` if it does not exist.
pub fn get(tx: &mut Tx<'_>, namespace: &str, id: &str) -> Result<Option<ScheduleRow>, StoreError> {
    let sql = ScheduleRow::select("WHERE namespace = ?1 AND id = ?2");
    tx.fetch_optional(&sql, params![namespace, id])
}

/// Returns the schedule with this id, locked. `None` if it does not exist.
pub fn lock(
    tx: &mut Tx<'_>,
    namespace: &str,
    id: &str,
) -> Result<Option<Locked<ScheduleRow>>, StoreError> {
    tx.lock(&ScheduleRow::select("WHERE namespace = ?1 AND id = ?2"), params![namespace, id])
}

/// Returns the schedules of a namespace, sorted by id, after the id `after`.
pub fn list(
    tx: &mut Tx<'_>,
    namespace: &str,
    after: &str,
    limit: u64,
) -> Result<Vec<ScheduleRow>, StoreError> {
    let sql = ScheduleRow::select("WHERE namespace = ?1 AND id > ?2 ORDER BY id LIMIT ?3");
    tx.fetch_all(&sql, params![namespace, after, limit])
}

/// Returns due schedules, the longest overdue first.
pub fn due(tx: &mut Tx<'_>, limit: u64) -> Result<Vec<ScheduleRow>, StoreError> {
    let sql = ScheduleRow::select(
        "WHERE active = 1 AND next_at IS NOT NULL AND next_at <= ?1 ORDER BY next_at LIMIT ?2",
    );
    tx.fetch_all(&sql, params![tx.now(), limit])
}

/// Returns the time at which the next schedule is due. `None` if there is none.
pub fn next_due(tx: &mut Tx<'_>) -> Result<Option<Timestamp>, StoreError> {
    let sql = "SELECT min(next_at) FROM schedule WHERE active = 1 AND next_at IS NOT NULL";
    tx.fetch_one(sql, params![])
}

/// Moves a schedule from the time in `schedule` to its next time. Returns false if another process moved or changed
/// it first.
pub fn advance(
    tx: &mut Tx<'_>,
    schedule: &ScheduleRow,
    next_at: Option<Timestamp>,
) -> Result<bool, StoreError> {
    let changed = tx.execute_fenced(
        "UPDATE schedule SET next_at = ?5 WHERE namespace = ?1 AND id = ?2 AND next_at = ?3 AND active = 1
            AND updated = ?4",
        params![schedule.namespace, schedule.id, schedule.next_at, schedule.updated, next_at],
    )?;
    Ok(changed == 1)
}

/// Records a submitted task, or the error of a failed attempt. After a failure, the last submission stays recorded.
pub fn fired(
    tx: &mut Tx<'_>,
    schedule: &ScheduleRow,
    task: Option<TaskId>,
    error: Option<&str>,
) -> Result<(), StoreError> {
    let at = task.map(|_| tx.now());
    tx.execute(
        "UPDATE schedule SET last_at = COALESCE(?3, last_at), last_task_id = COALESCE(?4, last_task_id), last_error = ?5
          WHERE namespace = ?1 AND id = ?2",
        params![schedule.namespace, schedule.id, at, task, error],
    )
    .map(drop)
}

/// Deletes a schedule. Returns false if it does not exist.
pub fn delete(tx: &mut Tx<'_>, namespace: &str, id: &str) -> Result<bool, StoreError> {
    let sql = "DELETE FROM schedule WHERE namespace = ?1 AND id = ?2";
    Ok(tx.execute(sql, params![namespace, id])? == 1)
}
