//! Execution classes: groups of runs that share a concurrency limit and a circuit breaker.

use provost_core::Timestamp;
use provost_core::scheduling::ClassHealth;

use crate::{Locked, StoreError, Tx, params};

table! {
    /// An execution class.
    ExecutionClassRow in "exec_class" {
        /// The key, built from all attributes that distinguish classes.
        key: String,
        /// Namespace of the row.
        namespace: String,
        /// The agent, if the class belongs to one agent.
        agent: Option<String>,
        /// The lane within the agent.
        lane: Option<String>,
        /// The pool of workers that serve the class.
        pool: String,
        /// Maximum number of running runs.
        max_running as "desired": u64,
        /// Number of running runs.
        running: u64,
        /// State of the circuit breaker.
        health: ClassHealth,
        /// Recent failures, as JSON.
        failures: String,
        /// Time at which an open breaker allows a probe.
        probe_at: Option<Timestamp>,
        /// Ordering key of the last claim. The least recently served class is next.
        last_served as "turn": u64,
        /// Time of the last change.
        updated: Timestamp,
    }
}

/// Returns the class with this key. `None` if it does not exist.
pub fn get(tx: &mut Tx<'_>, key: &str) -> Result<Option<ExecutionClassRow>, StoreError> {
    tx.fetch_optional(&ExecutionClassRow::select("WHERE key = ?1"), params![key])
}

/// Returns the class with this key, locked. `None` if it does not exist.
pub fn lock(tx: &mut Tx<'_>, key: &str) -> Result<Option<Locked<ExecutionClassRow>>, StoreError> {
    tx.lock(&ExecutionClassRow::select("WHERE key = ?1"), params![key])
}

/// Adds `change` to the number of running runs: `1` for a run that starts, `-1` for a run that ends.
pub fn count(tx: &mut Tx<'_>, key: &str, change: i64) -> Result<(), StoreError> {
    let sql = "UPDATE exec_class SET running = CASE WHEN running + ?2 < 0 THEN 0 ELSE running + ?2 END WHERE key = ?1";
    tx.execute_fenced(sql, params![key, change]).map(drop)
}

/// Inserts the class unless its key exists, and returns the stored row.
pub fn ensure(tx: &mut Tx<'_>, class: &ExecutionClassRow) -> Result<ExecutionClassRow, StoreError> {
    class.insert_new(tx)?;
    tx.fetch_one(&ExecutionClassRow::select("WHERE key = ?1"), params![class.key])
}

/// Takes a slot of a class without recent failures and records the turn. Returns false, and takes none, if the class
/// is full, has recent failures or waits for a probe; the caller must then decide with the locked row.
pub fn acquire_slot(tx: &mut Tx<'_>, key: &str, turn: u64) -> Result<bool, StoreError> {
    let changed = tx.execute_fenced(
        "UPDATE exec_class SET running = running + 1, turn = ?2, updated = ?3
          WHERE key = ?1 AND running < desired AND failures = '[]' AND probe_at IS NULL",
        params![key, turn, tx.now()],
    )?;
    Ok(changed == 1)
}

/// Frees a slot of a class without recent failures. Returns false, and frees none, if the class has recent failures or
/// waits for a probe; the caller must then decide with the locked row.
pub fn release_slot(tx: &mut Tx<'_>, key: &str) -> Result<bool, StoreError> {
    let changed = tx.execute_fenced(
        "UPDATE exec_class SET running = running - 1, updated = ?2
          WHERE key = ?1 AND running > 0 AND failures = '[]' AND probe_at IS NULL",
        params![key, tx.now()],
    )?;
    Ok(changed == 1)
}

/// Returns the classes of a namespace, sorted by key, after the key `after`.
pub fn list(
    tx: &mut Tx<'_>,
    namespace: &str,
    after: &str,
    limit: u64,
) -> Result<Vec<ExecutionClassRow>, StoreError> {
    let sql = ExecutionClassRow::select("WHERE namespace = ?1 AND key > ?2 ORDER BY key LIMIT ?3");
    tx.fetch_all(&sql, params![namespace, after, limit])
}

/// Returns the class with this key. `None` if the namespace has none.
pub fn find(
    tx: &mut Tx<'_>,
    namespace: &str,
    key: &str,
) -> Result<Option<ExecutionClassRow>, StoreError> {
    tx.fetch_optional(
        &ExecutionClassRow::select("WHERE key = ?2 AND namespace = ?1"),
        params![namespace, key],
    )
}

/// Returns the class with this key, locked. `None` if the namespace has none.
pub fn lock_in(
    tx: &mut Tx<'_>,
    namespace: &str,
    key: &str,
) -> Result<Option<Locked<ExecutionClassRow>>, StoreError> {
    tx.lock(
        &ExecutionClassRow::select("WHERE key = ?2 AND namespace = ?1"),
        params![namespace, key],
    )
}

/// Corrects the counters of running runs and returns true if a counter was wrong.
pub fn recount(tx: &mut Tx<'_>) -> Result<bool, StoreError> {
    let wrong = ExecutionClassRow::select(
        "WHERE running <> (
           SELECT count(*) FROM run WHERE run.class_key = exec_class.key AND run.phase = 'leased') ORDER BY key",
    );
    let wrong = tx.lock_all::<ExecutionClassRow>(&wrong, params![])?;
    for class in &wrong {
        // A concurrent claim or end of a run changed the row before this lock was granted, so this statement counts
        // it.
        let sql = "UPDATE exec_class SET running = (
                     SELECT count(*) FROM run WHERE run.class_key = ?1 AND run.phase = 'leased') WHERE key = ?1";
        tx.execute(sql, params![class.key])?;
    }
    Ok(!wrong.is_empty())
}
