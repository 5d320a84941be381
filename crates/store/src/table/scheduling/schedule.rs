//! Schedules: commands that come at their times.

use provost_core::{TaskId, Timestamp};

use crate::{Locked, StoreError, Tx, params};

table! {
    /// One schedule.
    ScheduleRow in "schedule" {
        /// The tenancy boundary.
        namespace: String,
        /// The id.
        id: String,
        /// The times, as JSON.
        timing: String,
        /// The time zone of the times.
        zone: String,
        /// What is asked for each time, as JSON.
        command: String,
        /// What happens to times that were missed.
        catch_up: String,
        /// What happens while the last one still runs.
        overlap: String,
        /// The longest delay that spreads schedules with equal times.
        jitter_ms: u64,
        /// The next time, its delay included.
        next_at: Option<Timestamp>,
        /// It is not switched off.
        active: bool,
        /// The last time it asked for something.
        last_at: Option<Timestamp>,
        /// The task it asked for then.
        last_task_id: Option<TaskId>,
        /// Why it could not ask last time.
        last_error: Option<String>,
        /// When it was made.
        created: Timestamp,
        /// When it last changed.
        updated: Timestamp,
    }
}

/// The schedule with the id.
pub fn get(tx: &mut Tx<'_>, namespace: &str, id: &str) -> Result<Option<ScheduleRow>, StoreError> {
    let sql = ScheduleRow::select("WHERE namespace = ?1 AND id = ?2");
    tx.optional(&sql, params![namespace, id])
}

/// The schedule with the id, locked.
pub fn lock(
    tx: &mut Tx<'_>,
    namespace: &str,
    id: &str,
) -> Result<Option<Locked<ScheduleRow>>, StoreError> {
    tx.lock(&ScheduleRow::select("WHERE namespace = ?1 AND id = ?2"), params![namespace, id])
}

/// The schedules of a namespace, by id, after the id `after`.
pub fn list(
    tx: &mut Tx<'_>,
    namespace: &str,
    after: &str,
    limit: u64,
) -> Result<Vec<ScheduleRow>, StoreError> {
    let sql = ScheduleRow::select("WHERE namespace = ?1 AND id > ?2 ORDER BY id LIMIT ?3");
    tx.all(&sql, params![namespace, after, limit])
}

/// Schedules whose time has come, the longest due first.
pub fn due(tx: &mut Tx<'_>, limit: u64) -> Result<Vec<ScheduleRow>, StoreError> {
    let sql = ScheduleRow::select(
        "WHERE active = 1 AND next_at IS NOT NULL AND next_at <= ?1 ORDER BY next_at LIMIT ?2",
    );
    tx.all(&sql, params![tx.now(), limit])
}

/// When the next schedule is due.
pub fn next_due(tx: &mut Tx<'_>) -> Result<Option<Timestamp>, StoreError> {
    let sql = "SELECT min(next_at) FROM schedule WHERE active = 1 AND next_at IS NOT NULL";
    tx.one(sql, params![])
}

/// Moves a schedule from the time it was read with to its next one; false if somebody else did, or changed it.
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

/// Notes what a schedule has asked for, or why it could not; nothing that was not told is forgotten.
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

/// Forgets a schedule; false if there was none.
pub fn delete(tx: &mut Tx<'_>, namespace: &str, id: &str) -> Result<bool, StoreError> {
    let sql = "DELETE FROM schedule WHERE namespace = ?1 AND id = ?2";
    Ok(tx.execute(sql, params![namespace, id])? == 1)
}
