//! Ceilings across classes: how many runs of a namespace, a pool or a credential may work at once.

use crate::{StoreError, Tx, params};

table! {
    /// One ceiling.
    CeilingRow in "ceiling" {
        /// What it limits: `namespace:<name>`, `pool:<name>` or `credential:<name>`.
        scope: String,
        /// How many may work at once.
        desired: u64,
        /// How many work now.
        running: u64,
    }
}

/// The ceiling of the scope.
pub fn get(tx: &mut Tx<'_>, scope: &str) -> Result<Option<CeilingRow>, StoreError> {
    tx.optional(&CeilingRow::select("WHERE scope = ?1"), params![scope])
}

/// Sets how many may work at once; what works already goes on.
pub fn set(tx: &mut Tx<'_>, scope: &str, desired: u64) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO ceiling (scope, desired) VALUES (?1, ?2)
         ON CONFLICT (scope) DO UPDATE SET desired = excluded.desired",
        params![scope, desired],
    )
    .map(drop)
}

/// Takes a place below each of the ceilings of a run, as far as they have one; false if one of them is full. A scope without a
/// ceiling takes everything.
pub fn take(tx: &mut Tx<'_>, [one, other]: &[String; 2]) -> Result<bool, StoreError> {
    let ceilings = CeilingRow::select("WHERE scope IN (?1, ?2) ORDER BY scope");
    let ceilings = tx.lock_all::<CeilingRow>(&ceilings, params![one, other])?;
    if ceilings.iter().any(|ceiling| ceiling.running >= ceiling.desired) {
        return Ok(false);
    }
    if !ceilings.is_empty() {
        let sql = "UPDATE ceiling SET running = running + 1 WHERE scope IN (?1, ?2)";
        tx.execute(sql, params![one, other])?;
    }
    Ok(true)
}

/// Gives the places back.
pub fn release(tx: &mut Tx<'_>, [one, other]: &[String; 2]) -> Result<(), StoreError> {
    tx.execute_fenced(
        "UPDATE ceiling SET running = running - 1 WHERE scope IN (?1, ?2)",
        params![one, other],
    )
    .map(drop)
}

/// Every ceiling, by scope.
pub fn list(tx: &mut Tx<'_>) -> Result<Vec<CeilingRow>, StoreError> {
    tx.all(&CeilingRow::select("ORDER BY scope"), params![])
}

/// Takes the ceiling away; false if there was none.
pub fn remove(tx: &mut Tx<'_>, scope: &str) -> Result<bool, StoreError> {
    Ok(tx.execute("DELETE FROM ceiling WHERE scope = ?1", params![scope])? == 1)
}

/// Counts again how many runs work below each ceiling; true if a counter was wrong.
pub fn recount(tx: &mut Tx<'_>) -> Result<bool, StoreError> {
    let wrong = CeilingRow::select(
        "WHERE running <> (SELECT count(*) FROM run WHERE run.phase = 'leased'
              AND ceiling.scope IN ('namespace:' || run.namespace, 'pool:' || run.pool)) ORDER BY scope",
    );
    let wrong = tx.lock_all::<CeilingRow>(&wrong, params![])?;
    for ceiling in &wrong {
        // A claim or an end that was under way has changed the row before its lock was free, so this counts it.
        let sql = "UPDATE ceiling SET running = (SELECT count(*) FROM run WHERE run.phase = 'leased'
                     AND ?1 IN ('namespace:' || run.namespace, 'pool:' || run.pool)) WHERE scope = ?1";
        tx.execute(sql, params![ceiling.scope])?;
    }
    Ok(!wrong.is_empty())
}
