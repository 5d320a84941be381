//! Setting and reading budgets.

use std::fmt;
use std::str::FromStr;

use jiff::tz::TimeZone;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::WorkError;
use provost_core::{Money, TaskId, Timestamp};
use provost_store::Tx;
use provost_store::table::governance::budget::{self, BudgetRow};

use super::current;
use crate::budget::Budgets;
use crate::error::EngineError;
use crate::run::lifecycle::word;

/// Budgets that are listed at once.
const LIST_MAX: u64 = 1000;

/// Whose spending is bounded. What a child run spends counts for the tasks and sessions above it, too.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum BudgetScope {
    /// All runs of a task.
    Task(TaskId),
    /// All runs in a session.
    Session(String),
    /// All runs of an agent.
    Agent(String),
    /// Everything.
    Namespace,
}

/// After which time a budget starts anew. Periods begin at midnight in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BudgetPeriod {
    /// Each day.
    Day,
    /// Each month.
    Month,
}

/// How much may be spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// The most.
    pub cap: Money,
    /// After which time it starts anew; never, if there is nothing here.
    pub period: Option<BudgetPeriod>,
}

/// A budget as it stands, in millionths of its currency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetState {
    /// Whose.
    pub scope: BudgetScope,
    /// The most that may be spent.
    pub cap_micros: i64,
    /// What was spent in this period.
    pub spent_micros: i64,
    /// What calls that are under way may still spend.
    pub reserved_micros: i64,
    /// The currency.
    pub currency: String,
    /// After which time it starts anew.
    pub period: Option<BudgetPeriod>,
}

impl Budgets<'_> {
    /// Bounds what may be spent, or removes the bound. What was spent before stays counted. A run that is at work while its
    /// first budget is set is bound by it from its next attempt on; a changed one counts for the next model call.
    pub async fn set(
        self,
        namespace: &Namespace,
        scope: BudgetScope,
        budget: Option<Budget>,
    ) -> Result<(), EngineError> {
        let namespace = namespace.clone();
        let set = self.engine.shared.store.write(move |tx| match &budget {
            Some(budget) => set(tx, &namespace, &scope, *budget),
            None => {
                budget::remove(tx, namespace.as_str(), &scope.to_string())?;
                Ok(())
            }
        });
        set.await
    }

    /// A budget as it stands; nothing if there is none.
    pub async fn get(
        self,
        namespace: &Namespace,
        scope: BudgetScope,
    ) -> Result<Option<BudgetState>, EngineError> {
        let namespace = namespace.clone();
        // Read where it is written, because a period that is over is ended here.
        let read = self.engine.shared.store.write(move |tx| {
            let row = current(tx, namespace.as_str(), &scope.to_string())?;
            row.map(state).transpose()
        });
        read.await
    }

    /// The budgets of a namespace, by scope, as they stood when they were last used.
    pub async fn list(self, namespace: &Namespace) -> Result<Vec<BudgetState>, EngineError> {
        let namespace = namespace.clone();
        let read = self.engine.shared.store.read(move |tx| {
            let rows = budget::list(tx, namespace.as_str(), LIST_MAX)?;
            rows.into_iter().map(state).collect()
        });
        read.await
    }
}

fn set(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    scope: &BudgetScope,
    new: Budget,
) -> Result<(), EngineError> {
    if new.cap.amount.is_sign_negative() {
        let fix = "use zero or more, or remove the budget";
        return Err(WorkError::invalid("budget.cap", "less than nothing", fix).into());
    }
    let (name, currency) = (scope.to_string(), new.cap.currency.as_str().to_owned());
    let known = current(tx, namespace.as_str(), &name)?;
    if let Some(known) = known
        && known.currency != currency
        && known.spent_micros + known.reserved_micros > 0
    {
        let problem = format!("{} were spent before", known.currency);
        let fix = "remove the budget first, or keep its currency";
        return Err(WorkError::invalid("budget.cap", problem, fix).into());
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

fn state(row: BudgetRow) -> Result<BudgetState, EngineError> {
    Ok(BudgetState {
        scope: word(&row.scope)?,
        cap_micros: row.cap_micros,
        spent_micros: row.spent_micros,
        reserved_micros: row.reserved_micros,
        currency: row.currency,
        period: row.period.as_deref().map(word).transpose()?,
    })
}

impl BudgetPeriod {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Month => "month",
        }
    }

    /// When the period began that a moment lies in.
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
    type Err = WorkError;

    fn from_str(text: &str) -> Result<Self, WorkError> {
        [Self::Day, Self::Month].into_iter().find(|period| period.as_str() == text).ok_or_else(
            || WorkError::invalid("budget.period", "not a period", "use `day` or `month`"),
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
    type Err = WorkError;

    fn from_str(text: &str) -> Result<Self, WorkError> {
        let invalid = || {
            let fix = "use `task:<id>`, `session:<id>`, `agent:<name>` or `namespace`";
            WorkError::invalid("budget.scope", "not a scope", fix)
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
