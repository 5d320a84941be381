//! Commands that set and read budgets.

use jiff::tz::TimeZone;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RequestError;
use provost_core::usage::{BudgetPeriod, BudgetScope};
use provost_core::{Currency, Money, Timestamp};
use provost_store::Tx;
use provost_store::table::governance::budget::{self, BudgetRow};

use super::current;
use crate::budget::Budgets;
use crate::error::EngineError;

/// Budgets in one list.
const LIST_MAX: u64 = 1000;

/// A spending limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// The maximum amount in each period.
    pub cap: Money,
    /// The period; `None` if the budget never starts again.
    pub period: Option<BudgetPeriod>,
}

/// A budget with its current use, in millionths of its currency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetUsage {
    /// The runs that the budget covers.
    pub scope: BudgetScope,
    /// The maximum amount.
    pub cap_micros: i64,
    /// The amount spent in the current period.
    pub spent_micros: i64,
    /// The amount reserved for calls in flight.
    pub reserved_micros: i64,
    /// The currency.
    pub currency: Currency,
    /// The period; `None` if the budget never starts again.
    pub period: Option<BudgetPeriod>,
}

impl Budgets<'_> {
    /// Sets a budget, or removes it if `budget` is `None`. Amounts that were spent before stay counted. A running run
    /// honours its first
    /// budget from its next attempt on, and a changed budget from its next model call on.
    pub async fn set(
        self,
        namespace: &Namespace,
        scope: BudgetScope,
        budget: Option<Budget>,
    ) -> Result<(), EngineError> {
        let namespace = namespace.clone();
        let set = self.engine.inner.store.write(move |tx| match &budget {
            Some(budget) => set(tx, &namespace, &scope, *budget),
            None => {
                budget::remove(tx, namespace.as_str(), &scope.to_string())?;
                Ok(())
            }
        });
        set.await
    }

    /// Returns a budget with its current use. `None` if it does not exist.
    pub async fn get(
        self,
        namespace: &Namespace,
        scope: BudgetScope,
    ) -> Result<Option<BudgetUsage>, EngineError> {
        let namespace = namespace.clone();
        // A write transaction, because an ended period is reset here.
        let read = self.engine.inner.store.write(move |tx| {
            let row = current(tx, namespace.as_str(), &scope.to_string())?;
            row.map(state).transpose()
        });
        read.await
    }

    /// Lists the budgets of a namespace by scope. A period that has ended since the last use is not reset.
    pub async fn list(self, namespace: &Namespace) -> Result<Vec<BudgetUsage>, EngineError> {
        let namespace = namespace.clone();
        let read = self.engine.inner.store.read(move |tx| {
            let rows = budget::list(tx, namespace.as_str(), LIST_MAX)?;
            rows.into_iter().map(state).collect()
        });
        read.await
    }
}

/// Creates a budget, or changes its limit and period. Fails for a negative limit, and for another currency than that
/// of earlier amounts.
fn set(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    scope: &BudgetScope,
    new: Budget,
) -> Result<(), EngineError> {
    if new.cap.amount.is_sign_negative() {
        let fix = "use zero or more, or remove the budget";
        return Err(RequestError::invalid("budget.cap", "negative amount", fix).into());
    }
    let currency = new.cap.currency;
    let known = current(tx, namespace.as_str(), &scope.to_string())?;
    if let Some(known) = known
        && known.currency != currency
        && known.spent_micros + known.reserved_micros > 0
    {
        let problem = format!("amounts in {} were already spent", known.currency.as_str());
        let fix = "remove the budget first, or keep its currency";
        return Err(RequestError::invalid("budget.cap", problem, fix).into());
    }
    let row = BudgetRow {
        namespace: namespace.to_string(),
        scope: scope.clone(),
        cap_micros: new.cap.micros(),
        spent_micros: 0,
        reserved_micros: 0,
        currency,
        period: new.period,
        period_start: new.period.map(|period| period_start(period, tx.now())),
    };
    budget::set(tx, &row)?;
    Ok(())
}

/// Parses a stored budget.
fn state(row: BudgetRow) -> Result<BudgetUsage, EngineError> {
    Ok(BudgetUsage {
        scope: row.scope,
        cap_micros: row.cap_micros,
        spent_micros: row.spent_micros,
        reserved_micros: row.reserved_micros,
        currency: row.currency,
        period: row.period,
    })
}

/// Returns the start of the period that contains `now`.
pub(super) fn period_start(period: BudgetPeriod, now: Timestamp) -> Timestamp {
    let Ok(moment) = jiff::Timestamp::from_millisecond(now.as_millis()) else { return now };
    let date = moment.to_zoned(TimeZone::UTC).date();
    let first = match period {
        BudgetPeriod::Day => date,
        BudgetPeriod::Month => date.first_of_month(),
    };
    let start = first.at(0, 0, 0, 0).to_zoned(TimeZone::UTC);
    start.map_or(now, |start| Timestamp::from_millis(start.timestamp().as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_begins_at_midnight_in_utc() {
        // 2024-02-29T13:00:00Z
        let now = Timestamp::from_millis(1_709_211_600_000);
        assert_eq!(period_start(BudgetPeriod::Day, now).to_rfc3339(), "2024-02-29T00:00:00.000Z");
        assert_eq!(period_start(BudgetPeriod::Month, now).to_rfc3339(), "2024-02-01T00:00:00.000Z");
    }
}
