//! Schedules: work that comes by itself at its times.

use axum::Json;
use axum::extract::State;
use provost_api::{Page, Paging, PauseSchedule, Schedule, ScheduleChange};

use crate::app::App;
use crate::convert;
use crate::extract::{ApiJson, ApiPath, ApiQuery, Auth, Read, ScheduleName, Write, limit};
use crate::response::{ApiResult, NoContent};

pub(crate) async fn list(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiQuery(asked): ApiQuery<Paging>,
) -> ApiResult<Json<Page<Schedule>>> {
    let (limit, after) = (limit(asked.limit)?, asked.cursor.unwrap_or_default());
    let states = app.engine().schedules().list(&auth.namespace, &after, limit).await?;
    let tell = |state| Ok(convert::schedule::view(state));
    Ok(Json(convert::page::from_rows(states, limit, tell, |schedule: &Schedule| {
        schedule.id.clone()
    })?))
}

pub(crate) async fn get(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(ScheduleName(schedule)): ApiPath<ScheduleName>,
) -> ApiResult<Json<Schedule>> {
    let state = app.engine().schedules().get(&auth.namespace, &schedule).await;
    Ok(Json(convert::schedule::view(state?)))
}

pub(crate) async fn put(
    State(app): State<App>,
    auth: Auth<Write>,
    ApiPath(ScheduleName(schedule)): ApiPath<ScheduleName>,
    ApiJson(change): ApiJson<ScheduleChange>,
) -> ApiResult<Json<Schedule>> {
    let mut schedule = convert::schedule::change(&schedule, change)?;
    // The tasks of a schedule are requested by the caller who set it.
    schedule.command.requested_by = Some(auth.principal.name.clone());
    let state = app.engine().schedules().put(&auth.namespace, schedule).await;
    Ok(Json(convert::schedule::view(state?)))
}

pub(crate) async fn delete(
    State(app): State<App>,
    auth: Auth<Write>,
    ApiPath(ScheduleName(schedule)): ApiPath<ScheduleName>,
) -> ApiResult<NoContent> {
    app.engine().schedules().delete(&auth.namespace, &schedule).await?;
    Ok(NoContent)
}

pub(crate) async fn pause(
    State(app): State<App>,
    auth: Auth<Write>,
    ApiPath(ScheduleName(schedule)): ApiPath<ScheduleName>,
    ApiJson(asked): ApiJson<PauseSchedule>,
) -> ApiResult<Json<Schedule>> {
    let state = app.engine().schedules().set_paused(&auth.namespace, &schedule, asked.paused).await;
    Ok(Json(convert::schedule::view(state?)))
}
