//! Schedules: work that comes by itself at its times.

use http::Method;
use provost_api::{Page, Paging, PauseSchedule, Problem, Schedule, ScheduleChange, Scope};

use super::within;
use crate::convert;
use crate::error::of_engine;
use crate::input::{Cx, Json, Query, limit};
use crate::operation::Operation;
use crate::output::{Answer, Done};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            (Method::GET, within!("schedules")),
            "listSchedules",
            "Schedules, by id",
            list,
        ),
        Operation::new(
            (Method::GET, within!("schedules/{schedule}")),
            "getSchedule",
            "A schedule as it stands",
            get,
        ),
        Operation::new(
            (Method::PUT, within!("schedules/{schedule}")),
            "putSchedule",
            "Make a schedule, or change one",
            put,
        )
        .scope(Scope::Write)
        .large(),
        Operation::new(
            (Method::DELETE, within!("schedules/{schedule}")),
            "deleteSchedule",
            "Remove a schedule; tasks that it asked for go on",
            delete,
        )
        .scope(Scope::Write),
        Operation::new(
            (Method::POST, within!("schedules/{schedule}/pause")),
            "pauseSchedule",
            "Pause a schedule, or let it go on",
            pause,
        )
        .scope(Scope::Write),
    ]
}

async fn list(cx: Cx, Query(asked): Query<Paging>) -> Result<Answer<Page<Schedule>>, Problem> {
    let (limit, after) = (limit(asked.limit)?, asked.cursor.unwrap_or_default());
    let states = cx.app.engine().schedules(&cx.namespace, &after, limit).await;
    let states = states.map_err(of_engine)?;
    let tell = |state| Ok(convert::schedule(state));
    Ok(Answer(convert::page_of(states, limit, tell, |schedule: &Schedule| schedule.id.clone())?))
}

async fn get(cx: Cx, (): ()) -> Result<Answer<Schedule>, Problem> {
    let state = cx.app.engine().schedule(&cx.namespace, cx.parameter("schedule")).await;
    Ok(Answer(convert::schedule(state.map_err(of_engine)?)))
}

async fn put(cx: Cx, Json(change): Json<ScheduleChange>) -> Result<Answer<Schedule>, Problem> {
    let mut schedule = convert::schedule_change(cx.parameter("schedule"), change)?;
    // What it asks for at its times is asked for by whoever set it.
    schedule.command.requested_by = Some(cx.who.name.clone());
    let state = cx.app.engine().put_schedule(&cx.namespace, schedule).await;
    Ok(Answer(convert::schedule(state.map_err(of_engine)?)))
}

async fn delete(cx: Cx, (): ()) -> Result<Done, Problem> {
    let deleted = cx.app.engine().delete_schedule(&cx.namespace, cx.parameter("schedule")).await;
    deleted.map_err(of_engine)?;
    Ok(Done)
}

async fn pause(cx: Cx, Json(asked): Json<PauseSchedule>) -> Result<Answer<Schedule>, Problem> {
    let (engine, id) = (cx.app.engine(), cx.parameter("schedule"));
    let state = engine.pause_schedule(&cx.namespace, id, asked.paused).await;
    Ok(Answer(convert::schedule(state.map_err(of_engine)?)))
}
