//! Schedules: recurring tasks.

use provost_core::TaskId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{DateTime, NewTask};

/// Times at which a schedule submits its task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ScheduleTiming {
    /// Local times of a cron expression: minute, hour, day of month, month, day of week.
    Cron(String),
    /// One point in time.
    At(DateTime),
    /// A fixed interval in milliseconds, counted from the creation of the schedule.
    EveryMs(u64),
}

/// Behaviour of a schedule whose previous task has not ended when the next one is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OverlapPolicy {
    /// Submits the task, so that both run at the same time.
    Allow,
    /// Skips this time.
    #[default]
    Skip,
    /// Submits the task after the previous one has ended.
    Queue,
    /// Cancels the previous task and submits the new one.
    CancelPrevious,
}

/// A recurring task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Schedule {
    /// Name of the schedule.
    pub id: String,
    /// Times at which the task is submitted.
    pub timing: ScheduleTiming,
    /// Time zone of the cron expression.
    pub zone: String,
    /// Task to submit.
    pub task: NewTask,
    /// Handling of times at which no server was running: `skip`, `one` or `all:<number>`.
    pub catch_up: String,
    /// Behaviour if the previous task has not ended.
    pub overlap: OverlapPolicy,
    /// Maximum random delay in milliseconds.
    pub jitter_ms: u64,
    /// False if the schedule is paused.
    pub active: bool,
    /// Time of the next submission. Absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<DateTime>,
    /// Time of the last submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_at: Option<DateTime>,
    /// Last submitted task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_task: Option<TaskId>,
    /// Error of the last submission, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// A schedule to create or to replace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleChange {
    /// Times at which the task is submitted, such as `{"cron": "0 9 * * *"}`, `{"every_ms": 60000}` or
    /// `{"at": "2026-01-01T00:00:00Z"}`.
    pub timing: ScheduleTiming,
    /// Time zone of the cron expression. The default is UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Task to submit.
    pub task: NewTask,
    /// Handling of times at which no server was running: `skip`, `one` (the default) or `all:<number>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^(skip|one|all:[0-9]+)$"))]
    pub catch_up: Option<String>,
    /// Behaviour if the previous task has not ended. The default is `skip`.
    #[serde(default)]
    pub overlap: OverlapPolicy,
    /// Maximum random delay in milliseconds. The default is zero.
    #[serde(default)]
    pub jitter_ms: u64,
}

/// Pauses or continues a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SchedulePause {
    /// True pauses the schedule. False continues it.
    pub paused: bool,
}
