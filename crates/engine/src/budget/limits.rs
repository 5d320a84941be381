//! Commands that set and read budgets.

use std::fmt;
use std::str::FromStr;

use jiff::tz::TimeZone;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RequestError;
use provost_core::{Money, TaskId, Timestamp};
use provost_store::Tx;
use provost_store::table::governance::budget::{self, BudgetRow};

use super::current;
use crate::budget::Budgets;
use crate::error::EngineError;
use crate::run::lifecycle::parse_column;

/// Budgets in one list.
const LIST_MAX: u64 = 1000;

/// The runs that a budget covers. The spending of a child run also counts for the tasks and sessions of its
/// ancestors.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum BudgetScope {
    /// All runs of a task.
    Task(TaskId),
    /// All runs in a session.
    Session(String),
    /// All runs of an agent.
    Agent(String),
    /// All runs of the namespace.
    Namespace,
}

/// The period after which a budget starts again at zero. Periods start at midnight UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BudgetPeriod {
    /// A calendar day.
    Day,
    /// A calendar month.
    Month,
}

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
    pub currency: String,
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
    let (name, currency) = (scope.to_string(), new.cap.currency.as_str().to_owned());
    let known = current(tx, namespace.as_str(), &name)?;
    if let Some(known) = known
        && known.currency != currency
        && known.spent_micros + known.reserved_micros > 0
    {
        let problem = format!("amounts in {} were already spent", known.currency);
        let fix = "remove the budget first, or keep its currency";
        return Err(RequestError::invalid("budget.cap", problem, fix).into());
    }
    let row = BudgetRow {
        namespace: namespace.to_string(),
        scope: name,
        cap_micros: new.cap.micros(),
        spent_micros: 0,
        reserved_micros: 0,
        currency,
        period: new.period.map(|period| period.as_str().to_owned()),
        period_start: new.period.map(|period| period.start(tx.now())),
    };
    budget::set(tx, &row)?;
    Ok(())
}

/// Parses a stored budget.
fn state(row: BudgetRow) -> Result<BudgetUsage, EngineError> {
    Ok(BudgetUsage {
        scope: parse_column(&row.scope)?,
        cap_micros: row.cap_micros,
        spent_micros: row.spent_micros,
        reserved_micros: row.reserved_micros,
        currency: row.currency,
        period: row.period.as_deref().map(parse_column).transpose()?,
    })
}

impl BudgetPeriod {
    /// Returns the stored name.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Month => "month",
        }
    }

    /// Returns the start of the period that contains `now`.
    pub(super) fn start(self, now: Timestamp) -> Timestamp {
        let Ok(moment) = jiff::Timestamp::from_millisecond(now.as_millis()) else { return now };
        let date = moment.to_zoned(TimeZone::UTC).date();
        let first = match self {
            Self::Day => date,
            Self::Month => date.first_of_month(),
        };
        let start = first.at(0, 0, 0, 0).to_zoned(TimeZone::UTC);
        start.map_or(now, |start| Timestamp::from_millis(start.timestamp().as_millisecond()))
    }
}

impl FromStr for BudgetPeriod {
    type Err = RequestError;

    fn from_str(text: &str) -> Result<Self, RequestError> {
        [Self::Day, Self::Month].into_iter().find(|period| period.as_str() == text).ok_or_else(
            || RequestError::invalid("budget.period", "not a period", "use `day` or `month`"),
        )
    }
}

impl fmt::Display for BudgetScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Task(id) => write!(f, "task:{id}"),
            Self::Session(id) => write!(f, "session:{id}"),
            Self::Agent(name) => write!(f, "agent:{name}"),
            Self::Namespace => f.write_str("namespace"),
        }
    }
}

impl FromStr for BudgetScope {
    type Err = RequestError;

    fn from_str(text: &str) -> Result<Self, RequestError> {
        let invalid = || {
            let fix = "use `task:<id>`, `session:<id>`, `agent:<name>` or `namespace`";
            RequestError::invalid("budget.scope", "not a scope", fix)
        };
        if text == "namespace" {
            return Ok(Self::Namespace);
        }
        match text.split_once(':').ok_or_else(invalid)? {
            ("task", id) => id.parse().map(Self::Task).map_err(|_error| invalid()),
            ("session", id) if !id.is_empty() => Ok(Self::Session(id.to_owned())),
            ("agent", name) if !name.is_empty() => Ok(Self::Agent(name.to_owned())),
            _ => Err(invalid()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_begins_at_midnight_in_utc() {
        // 2024-02-29T13:00:00Z
        let now = Timestamp::from_millis(1_709_211_600_000);
        assert_eq!(BudgetPeriod::Day.start(now).to_rfc3339(), "2024-02-29T00:00:00.000Z");
        assert_eq!(BudgetPeriod::Month.start(now).to_rfc3339(), "2024-02-01T00:00:00.000Z");
    }

    #[test]
    fn scopes_have_one_text_each() {
        for text in ["namespace", "agent:a:b", "session:s"] {
            assert_eq!(text.parse::<BudgetScope>().unwrap().to_string(), text);
        }
        for text in ["", "task:1", "agent:", "planet:x"] {
            assert!(text.parse::<BudgetScope>().is_err(), "{text}");
        }
    }
}
