//! Schedules on the wire.

use provost_api::{Overlap, Problem, Schedule, ScheduleChange, Time, Timing};
use provost_core::lifecycle::RequestError;
use provost_engine::ScheduleState;

use super::task::{command, new_task};
use crate::error;

/// A schedule as it stands.
pub(crate) fn view(state: ScheduleState) -> Schedule {
    let ScheduleState { schedule, active, next_at, last_at, last_task, last_error } = state;
    Schedule {
        id: schedule.id,
        timing: match schedule.timing {
            provost_engine::Timing::Cron(text) => Timing::Cron(text),
            provost_engine::Timing::At(at) => Timing::At(Time(at)),
            provost_engine::Timing::EveryMs(every) => Timing::EveryMs(every),
        },
        zone: schedule.zone,
        task: new_task(schedule.command),
        catch_up: schedule.catch_up.to_string(),
        overlap: match schedule.overlap {
            provost_engine::Overlap::Allow => Overlap::Allow,
            provost_engine::Overlap::Skip => Overlap::Skip,
            provost_engine::Overlap::Queue => Overlap::Queue,
            provost_engine::Overlap::CancelPrevious => Overlap::CancelPrevious,
        },
        jitter_ms: schedule.jitter_ms,
        active,
        next_at: next_at.map(Time),
        last_at: last_at.map(Time),
        last_task,
        last_error,
    }
}

/// A schedule to make or to change.
pub(crate) fn change(
    id: &str,
    change: ScheduleChange,
) -> Result<provost_engine::Schedule, Problem> {
    let catch_up = change.catch_up.as_deref().map(str::parse).transpose();
    Ok(provost_engine::Schedule {
        id: id.to_owned(),
        timing: match change.timing {
            Timing::Cron(text) => provost_engine::Timing::Cron(text),
            Timing::At(at) => provost_engine::Timing::At(at.0),
            Timing::EveryMs(every) => provost_engine::Timing::EveryMs(every),
        },
        zone: change.zone.unwrap_or_else(|| "UTC".to_owned()),
        command: command(change.task),
        catch_up: catch_up
            .map_err(|error: RequestError| error::of_engine(error.into()))?
            .unwrap_or_default(),
        overlap: match change.overlap {
            Overlap::Allow => provost_engine::Overlap::Allow,
            Overlap::Skip => provost_engine::Overlap::Skip,
            Overlap::Queue => provost_engine::Overlap::Queue,
            Overlap::CancelPrevious => provost_engine::Overlap::CancelPrevious,
        },
        jitter_ms: change.jitter_ms,
    })
}
