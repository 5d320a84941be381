//! Spending limits. The engine reserves the possible cost of a model call before it sends the call.

use provost_core::usage::{BudgetPeriod, BudgetScope};
use provost_core::{Currency, Timestamp};

use crate::table::work::run::{self, RunRow};
use crate::{StoreError, Tx, params};

table! {
    /// Spending limit of a scope.
    BudgetRow in "budget" {
        /// Namespace of the row.
        namespace: String,
        /// Scope of the budget.
        scope: BudgetScope,
        /// Spending limit, in millionths of the currency.
        cap_micros: i64,
        /// Amount spent in the current period, in millionths.
        spent_micros: i64,
        /// Amount reserved for calls in flight, in millionths.
        reserved_micros: i64,
        /// Currency of the amounts.
        currency: Currency,
        /// Length of a period; `None` if the budget never resets.
        period: Option<BudgetPeriod>,
        /// Start of the current period.
        period_start: Option<Timestamp>,
    }
}

/// Returns the budget of a scope. `None` if the scope has none.
pub fn get(tx: &mut Tx<'_>, namespace: &str, scope: &str) -> Result<Option<BudgetRow>, StoreError> {
    let sql = BudgetRow::select("WHERE namespace = ?1 AND scope = ?2");
    tx.fetch_optional(&sql, params![namespace, scope])
}

/// Reserves an amount. Returns false if it would exceed the limit or if the scope has no budget.
pub fn reserve(
    tx: &mut Tx<'_>,
    namespace: &str,
    scope: &str,
    micros: i64,
) -> Result<bool, StoreError> {
    let changed = tx.execute_fenced(
        "UPDATE budget SET reserved_micros = reserved_micros + ?3
          WHERE namespace = ?1 AND scope = ?2 AND spent_micros + reserved_micros + ?3 <= cap_micros",
        params![namespace, scope, micros],
    )?;
    Ok(changed == 1)
}

/// Replaces a reservation by the actual cost. The release is bounded by the reserved amount, because the budget may
/// have been removed and created again since the reservation.
pub fn settle(
    tx: &mut Tx<'_>,
    namespace: &str,
    scope: &str,
    reserved_micros: i64,
    spent_micros: i64,
) -> Result<(), StoreError> {
    tx.execute_fenced(
        "UPDATE budget SET spent_micros = spent_micros + ?4,
           reserved_micros = CASE WHEN reserved_micros > ?3 THEN reserved_micros - ?3 ELSE 0 END
          WHERE namespace = ?1 AND scope = ?2",
        params![namespace, scope, reserved_micros, spent_micros],
    )
    .map(drop)
}

/// Returns true if a namespace has a budget.
pub fn any(tx: &mut Tx<'_>, namespace: &str) -> Result<bool, StoreError> {
    tx.exists("SELECT 1 FROM budget WHERE namespace = ?1 LIMIT 1", params![namespace])
}

/// Returns the budgets of a namespace, sorted by scope.
pub fn list(tx: &mut Tx<'_>, namespace: &str, limit: u64) -> Result<Vec<BudgetRow>, StoreError> {
    let sql = BudgetRow::select("WHERE namespace = ?1 ORDER BY scope LIMIT ?2");
    tx.fetch_all(&sql, params![namespace, limit])
}

/// Creates a budget with nothing spent, or changes its limit. Spent and reserved amounts are kept.
pub fn set(tx: &mut Tx<'_>, row: &BudgetRow) -> Result<(), StoreError> {
    let BudgetRow { namespace, scope, cap_micros, currency, period, period_start, .. } = row;
    tx.execute(
        "INSERT INTO budget (namespace, scope, cap_micros, currency, period, period_start)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (namespace, scope) DO UPDATE SET cap_micros = excluded.cap_micros,
           currency = excluded.currency, period = excluded.period,
           period_start = COALESCE(budget.period_start, excluded.period_start)",
        params![namespace, scope, cap_micros, currency, period, period_start],
    )
    .map(drop)
}

/// Removes a budget, which makes its scope unlimited. Returns false if it does not exist.
pub fn remove(tx: &mut Tx<'_>, namespace: &str, scope: &str) -> Result<bool, StoreError> {
    let sql = "DELETE FROM budget WHERE namespace = ?1 AND scope = ?2";
    Ok(tx.execute(sql, params![namespace, scope])? == 1)
}

/// Starts a new period with nothing spent, unless that period or a later one has started. The reservations of calls
/// in flight remain.
pub fn start_period(
    tx: &mut Tx<'_>,
    namespace: &str,
    scope: &str,
    start: Timestamp,
) -> Result<(), StoreError> {
    tx.execute_fenced(
        "UPDATE budget SET spent_micros = 0, period_start = ?3
          WHERE namespace = ?1 AND scope = ?2 AND (period_start IS NULL OR period_start < ?3)",
        params![namespace, scope, start],
    )
    .map(drop)
}

/// Raises the limit by `micros`. Does nothing if the scope has no budget.
pub fn raise(tx: &mut Tx<'_>, namespace: &str, scope: &str, micros: i64) -> Result<(), StoreError> {
    let sql = "UPDATE budget SET cap_micros = cap_micros + ?3 WHERE namespace = ?1 AND scope = ?2";
    tx.execute_fenced(sql, params![namespace, scope, micros]).map(drop)
}

/// Maximum number of ancestors whose budgets apply to a run.
const ANCESTORS_MAX: usize = 16;

/// Returns the scopes of all existing budgets that apply to a run: those of the run and of its ancestors.
pub fn scopes_of_run(tx: &mut Tx<'_>, run: &RunRow) -> Result<Vec<String>, StoreError> {
    if !any(tx, &run.namespace)? {
        return Ok(Vec::new());
    }
    let mut wanted = vec!["namespace".to_owned(), format!("agent:{}", run.agent)];
    let mut next = Some(run.clone());
    for _ in 0..ANCESTORS_MAX {
        let Some(row) = next.take() else { break };
        for scope in [format!("task:{}", row.task_id), format!("session:{}", row.session_id)] {
            if !wanted.contains(&scope) {
                wanted.push(scope);
            }
        }
        next = row.parent_run_id.map(|parent| run::get(tx, parent)).transpose()?.flatten();
    }
    let mut known = Vec::new();
    for scope in wanted {
        if get(tx, &run.namespace, &scope)?.is_some() {
            known.push(scope);
        }
    }
    Ok(known)
}
