//! Converts schedules.

use provost_api::{DateTime, OverlapPolicy, Problem, Schedule, ScheduleChange, ScheduleTiming};
use provost_core::lifecycle::RequestError;
use provost_engine::ScheduleState;

use super::task::{command, new_task};
use crate::error;

/// Converts a schedule.
pub(crate) fn view(state: ScheduleState) -> Schedule {
    let ScheduleState { schedule, active, next_at, last_at, last_task, last_error } = state;
    Schedule {
        id: schedule.id,
        timing: match schedule.timing {
            provost_engine::ScheduleSpec::Cron(text) => ScheduleTiming::Cron(text),
            provost_engine::ScheduleSpec::At(at) => ScheduleTiming::At(DateTime(at)),
            provost_engine::ScheduleSpec::EveryMs(every) => ScheduleTiming::EveryMs(every),
        },
        zone: schedule.zone,
        task: new_task(schedule.command),
        catch_up: schedule.catch_up.to_string(),
        overlap: match schedule.overlap {
            provost_engine::OverlapPolicy::Allow => OverlapPolicy::Allow,
            provost_engine::OverlapPolicy::Skip => OverlapPolicy::Skip,
            provost_engine::OverlapPolicy::Queue => OverlapPolicy::Queue,
            provost_engine::OverlapPolicy::CancelPrevious => OverlapPolicy::CancelPrevious,
        },
        jitter_ms: schedule.jitter_ms,
        active,
        next_at: next_at.map(DateTime),
        last_at: last_at.map(DateTime),
        last_task,
        last_error,
    }
}

/// Converts a schedule to create or to replace.
pub(crate) fn change(
    id: &str,
    change: ScheduleChange,
) -> Result<provost_engine::Schedule, Problem> {
    let catch_up = change.catch_up.as_deref().map(str::parse).transpose();
    Ok(provost_engine::Schedule {
        id: id.to_owned(),
        timing: match change.timing {
            ScheduleTiming::Cron(text) => provost_engine::ScheduleSpec::Cron(text),
            ScheduleTiming::At(at) => provost_engine::ScheduleSpec::At(at.0),
            ScheduleTiming::EveryMs(every) => provost_engine::ScheduleSpec::EveryMs(every),
        },
        zone: change.zone.unwrap_or_else(|| "UTC".to_owned()),
        command: command(change.task),
        catch_up: catch_up
            .map_err(|error: RequestError| error::from_engine(error.into()))?
            .unwrap_or_default(),
        overlap: match change.overlap {
            OverlapPolicy::Allow => provost_engine::OverlapPolicy::Allow,
            OverlapPolicy::Skip => provost_engine::OverlapPolicy::Skip,
            OverlapPolicy::Queue => provost_engine::OverlapPolicy::Queue,
            OverlapPolicy::CancelPrevious => provost_engine::OverlapPolicy::CancelPrevious,
        },
        jitter_ms: change.jitter_ms,
    })
}
