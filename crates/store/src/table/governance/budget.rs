//! Money that may be spent. What a model call may cost is reserved before it is sent.

use provost_core::Timestamp;

use crate::table::work::run::{self, RunRow};
use crate::{StoreError, Tx, params};

table! {
    /// What may be spent within one scope.
    BudgetRow in "budget" {
        /// The tenancy boundary.
        namespace: String,
        /// What it is for: `task:<id>`, `session:<id>`, `agent:<name>` or `namespace`.
        scope: String,
        /// The most that may be spent.
        cap_micros: i64,
        /// What was spent.
        spent_micros: i64,
        /// What calls that are under way may still spend.
        reserved_micros: i64,
        /// The currency.
        currency: String,
        /// After which time it starts anew.
        period: Option<String>,
        /// When the current period began.
        period_start: Option<Timestamp>,
    }
}

/// The budget of the scope.
pub fn get(tx: &mut Tx<'_>, namespace: &str, scope: &str) -> Result<Option<BudgetRow>, StoreError> {
    let sql = BudgetRow::select("WHERE namespace = ?1 AND scope = ?2");
    tx.optional(&sql, params![namespace, scope])
}

/// Reserves the amount if the cap allows it; false if it does not. A scope without a budget allows nothing.
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

/// Turns what was reserved into what was really spent. Somebody may have removed the budget and set it anew meanwhile, so
/// nothing more is released than what is reserved.
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

/// True if a namespace has any budget.
pub fn any(tx: &mut Tx<'_>, namespace: &str) -> Result<bool, StoreError> {
    tx.exists("SELECT 1 FROM budget WHERE namespace = ?1 LIMIT 1", params![namespace])
}

/// The budgets of a namespace, by scope.
pub fn list(tx: &mut Tx<'_>, namespace: &str, limit: u64) -> Result<Vec<BudgetRow>, StoreError> {
    let sql = BudgetRow::select("WHERE namespace = ?1 ORDER BY scope LIMIT ?2");
    tx.all(&sql, params![namespace, limit])
}

/// Sets how much may be spent; what was spent and reserved stays. A new budget starts with nothing spent.
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

/// Removes a budget: its scope spends without a bound again. False if there was none.
pub fn remove(tx: &mut Tx<'_>, namespace: &str, scope: &str) -> Result<bool, StoreError> {
    let sql = "DELETE FROM budget WHERE namespace = ?1 AND scope = ?2";
    Ok(tx.execute(sql, params![namespace, scope])? == 1)
}

/// Starts a new period, unless that or a later one has begun: nothing is spent in it yet, and the reservations of calls that
/// are under way remain.
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

/// Lets more be spent.
pub fn raise(tx: &mut Tx<'_>, namespace: &str, scope: &str, micros: i64) -> Result<(), StoreError> {
    let sql = "UPDATE budget SET cap_micros = cap_micros + ?3 WHERE namespace = ?1 AND scope = ?2";
    tx.execute_fenced(sql, params![namespace, scope, micros]).map(drop)
}

/// Runs above a run whose budgets it uses.
const ANCESTORS_MAX: usize = 16;

/// The budgets that exist for a run: its own, and those of the runs that it works for.
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
