//! Budgets on the wire.

use provost_api::{Budget, Period, Problem};
use provost_core::{Currency, Money};
use provost_engine::{BudgetPeriod, BudgetState};

use super::word;

/// A budget as it stands.
pub(crate) fn view(state: BudgetState) -> Result<Budget, Problem> {
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
pub(crate) fn period(period: Period) -> BudgetPeriod {
    match period {
        Period::Day => BudgetPeriod::Day,
        Period::Month => BudgetPeriod::Month,
    }
}
