//! Tasks: submit, read, cancel, archive and retry.

use axum::Json;
use axum::extract::State;
use provost_api::{
    CancelReceipt, NewTask, Page, PageQuery, RetryReceipt, Run, Task, TaskQuery, TaskReceipt,
};
use provost_core::TaskId;
use provost_core::id::name::Namespace;
use provost_store::query;
use provost_store::table::work::run::RunFilter;
use provost_store::table::work::task::{TaskFilter, TaskRow};

use crate::app::App;
use crate::convert;
use crate::extract::{ApiJson, ApiPath, ApiQuery, Auth, IdempotencyKey, Read, Write, limit};
use crate::response::{ApiResult, Created};

/// Maximum length of the message of a task in a list, in characters.
pub(super) const MESSAGE_CHARS: usize = 500;

/// Submits a task. The task is boxed, because it is large and moved several times.
pub(crate) async fn submit(
    State(app): State<App>,
    auth: Auth<Write>,
    key: IdempotencyKey,
    ApiJson(task): ApiJson<Box<NewTask>>,
) -> ApiResult<Created<TaskReceipt>> {
    let mut command = convert::task::command(*task);
    command.requested_by = Some(auth.principal.name.clone());
    command.idempotency_key = key.or_in_body(command.idempotency_key.take())?;
    let receipt = app.engine().submit(&auth.namespace, command).await?;
    Ok(Created { is_new: !receipt.deduped, value: convert::task::receipt(receipt) })
}

pub(crate) async fn list(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiQuery(params): ApiQuery<TaskQuery>,
) -> ApiResult<Json<Page<Task>>> {
    let filter = TaskFilter {
        state: params.state,
        agent: params.agent,
        session_id: params.session,
        label: params.label,
        parent: params.parent,
        archived: params.archived.unwrap_or(false),
        before: convert::page::cursor(params.cursor.as_deref())?,
    };
    let page =
        query::task::list(app.engine().store(), &auth.namespace, filter, limit(params.limit)?)
            .await?;
    let ids = page.items.iter().map(|row| row.id).collect();
    let messages =
        query::session::first_inputs(app.engine().store(), &auth.namespace, ids, MESSAGE_CHARS)
            .await?;
    let message = |row: &TaskRow| messages.get(&row.id).cloned().unwrap_or_default();
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
) -> ApiResult<Json<CancelReceipt>> {
    let outcome = app.engine().tasks().cancel(&auth.namespace, task).await;
    Ok(Json(convert::run::cancel_receipt(outcome?)))
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
) -> ApiResult<Json<RetryReceipt>> {
    let run = app.engine().tasks().retry(&auth.namespace, task).await;
    Ok(Json(RetryReceipt { run: run? }))
}

pub(crate) async fn runs(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(task): ApiPath<TaskId>,
    ApiQuery(params): ApiQuery<PageQuery>,
) -> ApiResult<Json<Page<Run>>> {
    let engine = app.engine();
    let filter = RunFilter {
        task_id: Some(task),
        before: convert::page::cursor(params.cursor.as_deref())?,
        ..RunFilter::default()
    };
    let limit = limit(params.limit)?;
    query::task::get(engine.store(), &auth.namespace, task).await?;
    let page = query::run::list(engine.store(), &auth.namespace, filter, limit).await?;
    Ok(Json(convert::page::map(page, convert::run::view)?))
}

/// Returns a task with the first `chars_max` characters of its message.
pub(super) async fn load_task_view(
    app: &App,
    namespace: &Namespace,
    row: TaskRow,
    chars_max: usize,
) -> ApiResult<Task> {
    let mut messages =
        query::session::first_inputs(app.engine().store(), namespace, vec![row.id], chars_max)
            .await?;
    let message = messages.remove(&row.id).unwrap_or_default();
    Ok(convert::task::view(row, message)?)
}
