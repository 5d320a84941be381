//! Converts budgets.

use provost_api::{Budget, BudgetPeriod, Problem};
use provost_core::Money;
use provost_engine::BudgetUsage;

/// Converts a budget.
pub(crate) fn view(usage: BudgetUsage) -> Result<Budget, Problem> {
    let currency = usage.currency;
    let money = |micros| Money { currency, ..Money::from_micros(micros) };
    Ok(Budget {
        scope: usage.scope.to_string(),
        cap: money(usage.cap_micros),
        spent: money(usage.spent_micros),
        reserved: money(usage.reserved_micros),
        period: usage.period.map(|period| match period {
            provost_engine::BudgetPeriod::Day => BudgetPeriod::Day,
            provost_engine::BudgetPeriod::Month => BudgetPeriod::Month,
        }),
    })
}

/// Converts the period of a budget.
pub(crate) fn period(period: BudgetPeriod) -> provost_engine::BudgetPeriod {
    match period {
        BudgetPeriod::Day => provost_engine::BudgetPeriod::Day,
        BudgetPeriod::Month => provost_engine::BudgetPeriod::Month,
    }
}
