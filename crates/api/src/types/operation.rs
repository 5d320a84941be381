//! What operators set: classes, budgets, schedules.

use provost_core::scheduling::ClassHealth;
use provost_core::{Money, TaskId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{NewTask, Time};

/// A scheduling class: runs that share a budget of concurrency.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Class {
    /// The key.
    pub key: String,
    /// The agent, if it has a class of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
    /// The workers that serve it.
    pub pool: String,
    /// How many runs may work at once; zero is paused.
    pub desired: u64,
    /// How many work now.
    pub running: u64,
    /// What the breaker says.
    pub health: ClassHealth,
    /// When an open breaker lets one attempt through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_at: Option<Time>,
    /// When it last changed.
    pub updated: Time,
}

/// How many runs of a class may work at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClassTarget {
    /// How many; zero pauses the class.
    pub desired: u64,
}

/// After which time a budget starts anew, at midnight in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Period {
    /// Each day.
    Day,
    /// Each month.
    Month,
}

/// A budget as it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Budget {
    /// Whose: `namespace`, `agent:<name>`, `session:<id>` or `task:<id>`.
    pub scope: String,
    /// The most that may be spent.
    pub cap: Money,
    /// What was spent in this period.
    pub spent: Money,
    /// What calls that are under way may still spend.
    pub reserved: Money,
    /// After which time it starts anew; never, if there is nothing here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
}

/// Which budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetKey {
    /// Whose: `namespace`, `agent:<name>`, `session:<id>` or `task:<id>`.
    pub scope: String,
}

/// A bound to set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetChange {
    /// Whose: `namespace`, `agent:<name>`, `session:<id>` or `task:<id>`.
    pub scope: String,
    /// The most that may be spent.
    pub cap: Money,
    /// After which time it starts anew; never, if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
}

/// When something is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Timing {
    /// At the local times of a cron expression: minute, hour, day of month, month, day of week.
    Cron(String),
    /// Once.
    At(Time),
    /// Again and again after so many milliseconds, counted from when the schedule was made.
    EveryMs(u64),
}

/// What happens if the task of the time before has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Both go on.
    Allow,
    /// This time is left out.
    #[default]
    Skip,
    /// This one waits for the one before.
    Queue,
    /// The one before is cancelled.
    CancelPrevious,
}

/// A schedule as it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Schedule {
    /// Its name.
    pub id: String,
    /// When.
    pub timing: Timing,
    /// The time zone of a cron expression.
    pub zone: String,
    /// What is asked for each time.
    pub task: NewTask,
    /// What happens to times that nobody could keep: `skip`, `one` or `all:<number>`.
    pub catch_up: String,
    /// What happens if the task of the time before has not ended.
    pub overlap: Overlap,
    /// Milliseconds by which it may come later.
    pub jitter_ms: u64,
    /// False if it is paused.
    pub active: bool,
    /// When it comes next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Time>,
    /// When it came last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_at: Option<Time>,
    /// The task it asked for then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_task: Option<TaskId>,
    /// Why it could not ask last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// A schedule to make or to change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleChange {
    /// When: `{"cron": "0 9 * * *"}`, `{"every_ms": 60000}`, `{"at": "2026-01-01T00:00:00Z"}`.
    pub timing: Timing,
    /// The time zone of a cron expression; UTC if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// What is asked for each time.
    pub task: NewTask,
    /// What happens to times that nobody could keep: `skip`, `one` (the default) or `all:<number>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^(skip|one|all:[0-9]+)$"))]
    pub catch_up: Option<String>,
    /// What happens if the task of the time before has not ended.
    #[serde(default)]
    pub overlap: Overlap,
    /// Milliseconds by which it may come later.
    #[serde(default)]
    pub jitter_ms: u64,
}

/// Whether a schedule is paused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseSchedule {
    /// True pauses it; false lets it go on.
    pub paused: bool,
}
