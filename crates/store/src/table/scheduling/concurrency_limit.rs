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

/// Takes a place below each of the ceilings of a run, as far as they have one. A scope without a ceiling takes everything.
pub fn take(tx: &mut Tx<'_>, [one, other]: &[String; 2]) -> Result<u64, StoreError> {
    tx.execute(
        "UPDATE ceiling SET running = running + 1 WHERE scope IN (?1, ?2) AND running < desired",
        params![one, other],
    )
}

/// Gives the places back.
pub fn release(tx: &mut Tx<'_>, [one, other]: &[String; 2]) -> Result<(), StoreError> {
    tx.execute(
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
    let changed = tx.execute(
        "UPDATE ceiling SET running = (SELECT count(*) FROM run WHERE run.phase = 'leased'
              AND ceiling.scope IN ('namespace:' || run.namespace, 'pool:' || run.pool))
          WHERE running <> (SELECT count(*) FROM run WHERE run.phase = 'leased'
              AND ceiling.scope IN ('namespace:' || run.namespace, 'pool:' || run.pool))",
        params![],
    )?;
    Ok(changed > 0)
}
