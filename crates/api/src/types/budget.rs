//! Budgets: spending limits of namespaces, agents, sessions and tasks.

use provost_core::Money;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Period after which the spending of a budget is reset to zero. A period ends at midnight UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetPeriod {
    /// One calendar day.
    Day,
    /// One calendar month.
    Month,
}

/// A spending limit and its current use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Budget {
    /// Scope of the budget: `namespace`, `agent:<name>`, `session:<id>` or `task:<id>`.
    pub scope: String,
    /// Maximum amount.
    pub cap: Money,
    /// Amount spent in the current period.
    pub spent: Money,
    /// Amount reserved for calls in progress.
    pub reserved: Money,
    /// Period of the budget. Absent if the budget is never reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<BudgetPeriod>,
}

/// Identifies a budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetKey {
    /// Scope of the budget: `namespace`, `agent:<name>`, `session:<id>` or `task:<id>`.
    pub scope: String,
}

/// A spending limit to set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetChange {
    /// Scope of the budget: `namespace`, `agent:<name>`, `session:<id>` or `task:<id>`.
    pub scope: String,
    /// Maximum amount.
    pub cap: Money,
    /// Period of the budget. If absent, the budget is never reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<BudgetPeriod>,
}
