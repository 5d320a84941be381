//! The runs that a budget covers, and its period.

use std::fmt;
use std::str::FromStr;

use crate::TaskId;
use crate::lifecycle::RequestError;
use crate::text::string_enum::string_enum;

string_enum! {
    /// The period after which a budget starts again at zero. Periods start at midnight UTC.
    BudgetPeriod, "a budget period" {
        /// A calendar day.
        Day = "day",
        /// A calendar month.
        Month = "month",
    }
}

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
    fn scopes_have_one_text_each() {
        for text in ["namespace", "agent:a:b", "session:s"] {
            assert_eq!(text.parse::<BudgetScope>().unwrap().to_string(), text);
        }
        for text in ["", "task:1", "agent:", "planet:x"] {
            assert!(text.parse::<BudgetScope>().is_err(), "{text}");
        }
    }
}
