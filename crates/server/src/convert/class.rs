//! Classes and budgets on the wire.

use provost_api::{Budget, Class, Period, Problem, Time};
use provost_core::{Currency, Money};
use provost_engine::{BudgetPeriod, BudgetState};
use provost_store::row::exec_class::ExecClassRow;

use super::word;

/// A class as it stands.
pub(crate) fn class(row: ExecClassRow) -> Result<Class, Problem> {
    Ok(Class {
        key: row.key,
        agent: row.agent,
        lane: row.lane,
        pool: row.pool,
        desired: row.desired,
        running: row.running,
        health: word(&row.health)?,
        probe_at: row.probe_at.map(Time),
        updated: Time(row.updated),
    })
}

/// A budget as it stands.
pub(crate) fn budget(state: BudgetState) -> Result<Budget, Problem> {
    let currency: Currency = word(&state.currency)?;
    let money = |micros| Money { currency, ..Money::from_micros(micros) };
    Ok(Budget {
        scope: state.scope.to_string(),
        cap: money(state.cap_micros),
        spent: money(state.spent_micros),
        reserved: money(state.reserved_micros),
        period: state.period.map(|period| match period {
            BudgetPeriod::Day => Period::Day,
            BudgetPeriod::Month => Period::Month,
        }),
    })
}

/// After which time a budget starts anew.
pub(crate) fn budget_period(period: Period) -> BudgetPeriod {
    match period {
        Period::Day => BudgetPeriod::Day,
        Period::Month => BudgetPeriod::Month,
    }
}
