//! Budgets: the cost of a model call is reserved before the call and settled after it, so parallel runs cannot
//! overspend.
//!
//! Invariant: no reservation raises the sum of spent and reserved money above a cap. A call of unknown cost counts with
//! the reserved amount.

mod ledger;
mod limits;

use provost_core::recovery::{OutcomeCode, RetryClass};
use provost_store::Tx;
use provost_store::table::governance::budget::{self, BudgetRow};
use provost_store::table::work::run::RunRow;
use provost_store::table::work::{journal, run_step};

pub use self::ledger::DurableBudgetLedger;
pub use crate::budget::limits::{Budget, BudgetUsage};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::worker::lease::Lease;

/// Maximum cost of a model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Reservation<'a> {
    pub(crate) micros: i64,
    /// The currency of the call; `None` if the call has no price.
    pub(crate) currency: Option<&'a str>,
}

/// Reserves the amount in every budget of the run, or in none. Fails if a budget is too small or has another
/// currency.
pub(crate) fn reserve(
    tx: &mut Tx<'_>,
    lease: &Lease,
    requested: Reservation<'_>,
) -> Result<(), EngineError> {
    for scope in &lease.budgets {
        let Some(row) = current(tx, &lease.namespace, scope)? else { continue };
        if requested.currency != Some(row.currency.as_str()) {
            return Err(EngineError::Unpriced {
                scope: format!("{scope} in {}", row.currency.as_str()),
            });
        }
        if !budget::reserve(tx, &lease.namespace, scope, requested.micros)? {
            let left = row.cap_micros - row.spent_micros - row.reserved_micros;
            let (scope, needed) = (scope.clone(), requested.micros);
            return Err(EngineError::Budget { scope, needed, left });
        }
    }
    Ok(())
}

/// Replaces a reservation by the amount that was spent, in all budgets of the run.
pub(crate) fn settle(
    tx: &mut Tx<'_>,
    lease: &Lease,
    released: i64,
    spent: i64,
) -> Result<(), EngineError> {
    settle_scopes(tx, &lease.namespace, &lease.budgets, released, spent)
}

/// Replaces a reservation by the amount that was spent, in these budgets. Does nothing if both are zero.
fn settle_scopes(
    tx: &mut Tx<'_>,
    namespace: &str,
    scopes: &[String],
    released: i64,
    spent: i64,
) -> Result<(), EngineError> {
    if released == 0 && spent == 0 {
        return Ok(());
    }
    for scope in scopes {
        budget::settle(tx, namespace, scope, released, spent)?;
    }
    Ok(())
}

/// Settles the reservations of a model call that was in flight when its attempt failed. A call that the provider
/// rejected cost nothing. The outcome of any other call is unknown, so the reserved amount counts as spent. The caller
/// stores the row.
pub(crate) fn settle_failed_call(
    tx: &mut Tx<'_>,
    run: &mut RunRow,
    code: Option<OutcomeCode>,
) -> Result<(), EngineError> {
    let reserved = journal::reserved_of_open_steps(tx, run.id, run.open_from)?;
    if reserved == 0 {
        return Ok(());
    }
    let was_rejected = code.is_some_and(|code| {
        let is_retryable =
            matches!(code.retry_class(), RetryClass::RetryAfter | RetryClass::Failover);
        is_retryable
            || matches!(code, OutcomeCode::ProviderBadRequest | OutcomeCode::ContextOverflow)
    });
    let spent = if was_rejected { 0 } else { reserved };
    let scopes = budget::scopes_of_run(tx, run)?;
    settle_scopes(tx, &run.namespace, &scopes, reserved, spent)?;
    run_step::clear_reservation(tx, run.id)?;
    run.cost_micros += spent;
    Ok(())
}

/// Returns a budget in its current period. Starts a new period if the last one has ended. `None` if the scope has no
/// budget.
fn current(
    tx: &mut Tx<'_>,
    namespace: &str,
    scope: &str,
) -> Result<Option<BudgetRow>, EngineError> {
    let Some(mut row) = budget::get(tx, namespace, scope)? else { return Ok(None) };
    let Some(period) = row.period else { return Ok(Some(row)) };
    let start = limits::period_start(period, tx.now());
    if row.period_start.is_none_or(|began| began < start) {
        budget::start_period(tx, namespace, scope, start)?;
        row.spent_micros = 0;
        row.period_start = Some(start);
    }
    Ok(Some(row))
}

/// Budgets and their ledgers. See [`Engine::budgets`](crate::Engine::budgets).
#[derive(Clone, Copy)]
pub struct Budgets<'a> {
    pub(crate) engine: &'a Engine,
}
