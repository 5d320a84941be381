//! Concurrency limits across execution classes, for a namespace, a pool or a credential.

use crate::{StoreError, Tx, params};

table! {
    /// A concurrency limit.
    ConcurrencyLimitRow in "ceiling" {
        /// Scope of the limit: `namespace:<name>`, `pool:<name>` or `credential:<name>`.
        scope: String,
        /// Maximum number of running runs.
        max_running as "desired": u64,
        /// Number of running runs.
        running: u64,
    }
}

/// Returns the limit of a scope. `None` if the scope has no limit.
pub fn get(tx: &mut Tx<'_>, scope: &str) -> Result<Option<ConcurrencyLimitRow>, StoreError> {
    tx.fetch_optional(&ConcurrencyLimitRow::select("WHERE scope = ?1"), params![scope])
}

/// Sets the limit of a scope. Runs in progress continue, even above the limit.
pub fn set(tx: &mut Tx<'_>, scope: &str, desired: u64) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO ceiling (scope, desired) VALUES (?1, ?2)
         ON CONFLICT (scope) DO UPDATE SET desired = excluded.desired",
        params![scope, desired],
    )
    .map(drop)
}

/// Acquires a slot of each of the run's two scopes. Returns false, and acquires none, if one of them is full. A scope
/// without a limit is never full.
pub fn acquire_slot(tx: &mut Tx<'_>, [one, other]: &[String; 2]) -> Result<bool, StoreError> {
    let ceilings = ConcurrencyLimitRow::select("WHERE scope IN (?1, ?2) ORDER BY scope");
    let ceilings = tx.lock_all::<ConcurrencyLimitRow>(&ceilings, params![one, other])?;
    if ceilings.iter().any(|ceiling| ceiling.running >= ceiling.max_running) {
        return Ok(false);
    }
    if !ceilings.is_empty() {
        let sql = "UPDATE ceiling SET running = running + 1 WHERE scope IN (?1, ?2)";
        tx.execute(sql, params![one, other])?;
    }
    Ok(true)
}

/// Releases the slots of both scopes.
pub fn release_slot(tx: &mut Tx<'_>, [one, other]: &[String; 2]) -> Result<(), StoreError> {
    tx.execute_fenced(
        "UPDATE ceiling SET running = running - 1 WHERE scope IN (?1, ?2)",
        params![one, other],
    )
    .map(drop)
}

/// Returns all limits, sorted by scope.
pub fn list(tx: &mut Tx<'_>) -> Result<Vec<ConcurrencyLimitRow>, StoreError> {
    tx.fetch_all(&ConcurrencyLimitRow::select("ORDER BY scope"), params![])
}

/// Removes the limit of a scope. Returns false if the scope had none.
pub fn remove(tx: &mut Tx<'_>, scope: &str) -> Result<bool, StoreError> {
    Ok(tx.execute("DELETE FROM ceiling WHERE scope = ?1", params![scope])? == 1)
}

/// Corrects the counters of running runs and returns true if a counter was wrong.
pub fn recount(tx: &mut Tx<'_>) -> Result<bool, StoreError> {
    let wrong = ConcurrencyLimitRow::select(
        "WHERE running <> (SELECT count(*) FROM run WHERE run.phase = 'leased'
              AND ceiling.scope IN ('namespace:' || run.namespace, 'pool:' || run.pool)) ORDER BY scope",
    );
    let wrong = tx.lock_all::<ConcurrencyLimitRow>(&wrong, params![])?;
    for ceiling in &wrong {
        // A concurrent claim or end of a run changed the row before this lock was granted, so this statement counts
        // it.
        let sql = "UPDATE ceiling SET running = (SELECT count(*) FROM run WHERE run.phase = 'leased'
                     AND ?1 IN ('namespace:' || run.namespace, 'pool:' || run.pool)) WHERE scope = ?1";
        tx.execute(sql, params![ceiling.scope])?;
    }
    Ok(!wrong.is_empty())
}
