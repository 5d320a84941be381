//! Execution classes: runs that look the same to the scheduler share one budget of concurrency.

use provost_core::Timestamp;

use crate::{Locked, StoreError, Tx, params};

table! {
    /// One class.
    ExecClassRow in "exec_class" {
        /// The key, made of everything that tells classes apart.
        key: String,
        /// The tenancy boundary.
        namespace: String,
        /// The agent, if it has a class of its own.
        agent: Option<String>,
        /// The lane within the agent.
        lane: Option<String>,
        /// The workers that serve it.
        pool: String,
        /// How many runs may work at once.
        desired: u64,
        /// How many work now.
        running: u64,
        /// What the breaker says.
        health: String,
        /// The recent failures, as JSON.
        failures: String,
        /// When an open breaker lets one attempt through.
        probe_at: Option<Timestamp>,
        /// When the class was served last; the one that waited longest is next.
        turn: u64,
        /// When it last changed.
        updated: Timestamp,
    }
}

/// The class with the key.
pub fn get(tx: &mut Tx<'_>, key: &str) -> Result<Option<ExecClassRow>, StoreError> {
    tx.optional(&ExecClassRow::select("WHERE key = ?1"), params![key])
}

/// The class with the key, locked.
pub fn lock(tx: &mut Tx<'_>, key: &str) -> Result<Option<Locked<ExecClassRow>>, StoreError> {
    tx.lock(&ExecClassRow::select("WHERE key = ?1"), params![key])
}

/// Counts a run that begins (`1`) or ends (`-1`) in a class.
pub fn count(tx: &mut Tx<'_>, key: &str, change: i64) -> Result<(), StoreError> {
    let sql = "UPDATE exec_class SET running = CASE WHEN running + ?2 < 0 THEN 0 ELSE running + ?2 END WHERE key = ?1";
    tx.execute_fenced(sql, params![key, change]).map(drop)
}

/// Inserts the class unless there is one with its key, and returns the stored one.
pub fn ensure(tx: &mut Tx<'_>, class: &ExecClassRow) -> Result<ExecClassRow, StoreError> {
    class.insert_new(tx)?;
    tx.one(&ExecClassRow::select("WHERE key = ?1"), params![class.key])
}

/// Takes a place in a class that has one and has not failed lately; false if it is not as simple as that.
pub fn take(tx: &mut Tx<'_>, key: &str, turn: u64) -> Result<bool, StoreError> {
    let changed = tx.execute_fenced(
        "UPDATE exec_class SET running = running + 1, turn = ?2, updated = ?3
          WHERE key = ?1 AND running < desired AND failures = '[]' AND probe_at IS NULL",
        params![key, turn, tx.now()],
    )?;
    Ok(changed == 1)
}

/// Gives a place back in a class that has not failed lately; false if it is not as simple as that.
pub fn release(tx: &mut Tx<'_>, key: &str) -> Result<bool, StoreError> {
    let changed = tx.execute_fenced(
        "UPDATE exec_class SET running = running - 1, updated = ?2
          WHERE key = ?1 AND running > 0 AND failures = '[]' AND probe_at IS NULL",
        params![key, tx.now()],
    )?;
    Ok(changed == 1)
}

/// The classes of a namespace, by key, after the key `after`.
pub fn list(
    tx: &mut Tx<'_>,
    namespace: &str,
    after: &str,
    limit: u64,
) -> Result<Vec<ExecClassRow>, StoreError> {
    let sql = ExecClassRow::select("WHERE namespace = ?1 AND key > ?2 ORDER BY key LIMIT ?3");
    tx.all(&sql, params![namespace, after, limit])
}

/// The class with the key, if it belongs to the namespace.
pub fn find(
    tx: &mut Tx<'_>,
    namespace: &str,
    key: &str,
) -> Result<Option<ExecClassRow>, StoreError> {
    tx.optional(&ExecClassRow::select("WHERE key = ?2 AND namespace = ?1"), params![namespace, key])
}

/// The class with the key, locked, if it belongs to the namespace.
pub fn lock_in(
    tx: &mut Tx<'_>,
    namespace: &str,
    key: &str,
) -> Result<Option<Locked<ExecClassRow>>, StoreError> {
    tx.lock(&ExecClassRow::select("WHERE key = ?2 AND namespace = ?1"), params![namespace, key])
}

/// Counts again how many runs of each class work; true if a counter was wrong.
pub fn recount(tx: &mut Tx<'_>) -> Result<bool, StoreError> {
    let wrong = ExecClassRow::select(
        "WHERE running <> (
           SELECT count(*) FROM run WHERE run.class_key = exec_class.key AND run.phase = 'leased') ORDER BY key",
    );
    let wrong = tx.lock_all::<ExecClassRow>(&wrong, params![])?;
    for class in &wrong {
        // A claim or an end that was under way has changed the row before its lock was free, so this counts it.
        let sql = "UPDATE exec_class SET running = (
                     SELECT count(*) FROM run WHERE run.class_key = ?1 AND run.phase = 'leased') WHERE key = ?1";
        tx.execute(sql, params![class.key])?;
    }
    Ok(!wrong.is_empty())
}
