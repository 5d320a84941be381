//! Tasks: handing in work, looking at it, saying more, ending it.

use axum::Json;
use axum::extract::State;
use provost_api::{Accepted, Cancelled, NewTask, Page, Paging, Run, Started, Task, TaskList};
use provost_core::TaskId;
use provost_core::id::name::Namespace;
use provost_store::query;
use provost_store::table::work::run::RunFilter;
use provost_store::table::work::task::{TaskFilter, TaskRow};

use crate::app::App;
use crate::convert;
use crate::extract::{ApiJson, ApiPath, ApiQuery, Auth, IdempotencyKey, Read, Write, limit};
use crate::response::{ApiResult, Created};

/// Characters of what a task was asked, where it is one of many.
pub(super) const ASKED_CHARS: usize = 500;

/// The task is boxed, because it is large and moved several times.
pub(crate) async fn submit(
    State(app): State<App>,
    auth: Auth<Write>,
    key: IdempotencyKey,
    ApiJson(task): ApiJson<Box<NewTask>>,
) -> ApiResult<Created<Accepted>> {
    let mut command = convert::task::command(*task);
    command.requested_by = Some(auth.principal.name.clone());
    command.idempotency_key = key.or_in_body(command.idempotency_key.take())?;
    let accepted = app.engine().submit(&auth.namespace, command).await?;
    Ok(Created { is_new: !accepted.deduped, value: convert::task::accepted(accepted) })
}

pub(crate) async fn list(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiQuery(asked): ApiQuery<TaskList>,
) -> ApiResult<Json<Page<Task>>> {
    let filter = TaskFilter {
        state: asked.state.map(|state| state.as_str().to_owned()),
        agent: asked.agent,
        session_id: asked.session,
        label: asked.label,
        parent: asked.parent,
        archived: asked.archived.unwrap_or(false),
        before: convert::page::cursor(asked.cursor.as_deref())?,
    };
    let page =
        query::task::list(app.engine().store(), &auth.namespace, filter, limit(asked.limit)?)
            .await?;
    let ids = page.items.iter().map(|row| row.id).collect();
    let asked =
        query::session::asked(app.engine().store(), &auth.namespace, ids, ASKED_CHARS).await?;
    let message = |row: &TaskRow| asked.get(&row.id).cloned().unwrap_or_default();
    Ok(Json(convert::page::map(page, |row| {
        let message = message(&row);
        convert::task::view(row, message)
    })?))
}

pub(crate) async fn get(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(task): ApiPath<TaskId>,
) -> ApiResult<Json<Task>> {
    let row = query::task::get(app.engine().store(), &auth.namespace, task).await?;
    Ok(Json(load_task_view(&app, &auth.namespace, row, usize::MAX).await?))
}

pub(crate) async fn cancel(
    State(app): State<App>,
    auth: Auth<Write>,
    ApiPath(task): ApiPath<TaskId>,
) -> ApiResult<Json<Cancelled>> {
    let found = app.engine().tasks().cancel(&auth.namespace, task).await;
    Ok(Json(convert::run::cancelled(found?)))
}

pub(crate) async fn archive(
    State(app): State<App>,
    auth: Auth<Write>,
    ApiPath(task): ApiPath<TaskId>,
) -> ApiResult<Json<Task>> {
    let row = app.engine().tasks().archive(&auth.namespace, task).await;
    Ok(Json(load_task_view(&app, &auth.namespace, row?, usize::MAX).await?))
}

pub(crate) async fn retry(
    State(app): State<App>,
    auth: Auth<Write>,
    ApiPath(task): ApiPath<TaskId>,
) -> ApiResult<Json<Started>> {
    let run = app.engine().tasks().retry(&auth.namespace, task).await;
    Ok(Json(Started { run: run? }))
}

pub(crate) async fn runs(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(task): ApiPath<TaskId>,
    ApiQuery(asked): ApiQuery<Paging>,
) -> ApiResult<Json<Page<Run>>> {
    let engine = app.engine();
    let filter = RunFilter {
        task_id: Some(task),
        before: convert::page::cursor(asked.cursor.as_deref())?,
        ..RunFilter::default()
    };
    let limit = limit(asked.limit)?;
    query::task::get(engine.store(), &auth.namespace, task).await?;
    let page = query::run::list(engine.store(), &auth.namespace, filter, limit).await?;
    Ok(Json(convert::page::map(page, convert::run::view)?))
}

/// Returns a task as it is, with so many characters of what it was asked.
pub(super) async fn load_task_view(
    app: &App,
    namespace: &Namespace,
    row: TaskRow,
    chars_max: usize,
) -> ApiResult<Task> {
    let mut asked =
        query::session::asked(app.engine().store(), namespace, vec![row.id], chars_max).await?;
    let message = asked.remove(&row.id).unwrap_or_default();
    Ok(convert::task::view(row, message)?)
}
