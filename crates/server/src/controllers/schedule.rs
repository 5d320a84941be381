//! Schedules: recurring tasks.

use axum::Json;
use axum::extract::State;
use provost_api::{Page, PageQuery, Schedule, ScheduleChange, SchedulePause};

use crate::app::App;
use crate::convert;
use crate::extract::{ApiJson, ApiPath, ApiQuery, Auth, Read, ScheduleName, Write, limit};
use crate::response::{ApiResult, NoContent};

pub(crate) async fn list(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiQuery(params): ApiQuery<PageQuery>,
) -> ApiResult<Json<Page<Schedule>>> {
    let (limit, after) = (limit(params.limit)?, params.cursor.unwrap_or_default());
    let states = app.engine().schedules().list(&auth.namespace, &after, limit).await?;
    let convert = |state| Ok(convert::schedule::view(state));
    Ok(Json(convert::page::from_rows(states, limit, convert, |schedule: &Schedule| {
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
    // The caller that set the schedule is the requester of its tasks.
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
    ApiJson(params): ApiJson<SchedulePause>,
) -> ApiResult<Json<Schedule>> {
    let state =
        app.engine().schedules().set_paused(&auth.namespace, &schedule, params.paused).await;
    Ok(Json(convert::schedule::view(state?)))
}
