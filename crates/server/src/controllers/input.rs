//! Inputs: messages to runs and tasks in progress.

use axum::Json;
use axum::extract::State;
use provost_api::{InputReceipt, NewInput, Page, PageQuery, PendingInput};
use provost_core::{InputId, RunId, TaskId};
use provost_engine::{InputRequest, InputTarget};
use provost_store::query;

use crate::app::App;
use crate::convert;
use crate::error;
use crate::extract::{ApiJson, ApiPath, ApiQuery, Auth, IdempotencyKey, Read, Write};
use crate::response::{ApiResult, Created, NoContent};

pub(crate) async fn send_to_run(
    State(app): State<App>,
    auth: Auth<Write>,
    ApiPath(run): ApiPath<RunId>,
    key: IdempotencyKey,
    ApiJson(input): ApiJson<NewInput>,
) -> ApiResult<Created<InputReceipt>> {
    send(&app, &auth, run, request(input, key)?).await
}

pub(crate) async fn send_to_task(
    State(app): State<App>,
    auth: Auth<Write>,
    ApiPath(task): ApiPath<TaskId>,
    key: IdempotencyKey,
    ApiJson(input): ApiJson<NewInput>,
) -> ApiResult<Created<InputReceipt>> {
    send(&app, &auth, task, request(input, key)?).await
}

pub(crate) async fn list_for_run(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(run): ApiPath<RunId>,
    ApiQuery(params): ApiQuery<PageQuery>,
) -> ApiResult<Json<Page<PendingInput>>> {
    pending(&app, &auth, run, &params).await
}

pub(crate) async fn list_for_task(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(task): ApiPath<TaskId>,
    ApiQuery(params): ApiQuery<PageQuery>,
) -> ApiResult<Json<Page<PendingInput>>> {
    pending(&app, &auth, task, &params).await
}

pub(crate) async fn delete(
    State(app): State<App>,
    auth: Auth<Write>,
    ApiPath(run): ApiPath<RunId>,
    ApiPath(id): ApiPath<InputId>,
) -> ApiResult<NoContent> {
    let engine = app.engine();
    let assigned = query::input::run_of(engine.store(), &auth.namespace, id).await?;
    if assigned != Some(run) {
        let detail = format!("{run} has no input `{id}`: check the ids and the namespace");
        return Err(error::not_found(detail).into());
    }
    engine.inputs().withdraw(&auth.namespace, id).await?;
    Ok(NoContent)
}

fn request(input: NewInput, key: IdempotencyKey) -> ApiResult<InputRequest> {
    let mut request = convert::input::request(input);
    request.idempotency_key = key.or_in_body(request.idempotency_key.take())?;
    Ok(request)
}

/// Sends a message to a run or a task.
async fn send(
    app: &App,
    auth: &Auth<Write>,
    target: impl Into<InputTarget>,
    mut request: InputRequest,
) -> ApiResult<Created<InputReceipt>> {
    request.by = Some(auth.principal.name.clone());
    let receipt = app.engine().inputs().send(&auth.namespace, target, request).await?;
    Ok(Created { is_new: !receipt.deduped, value: convert::input::receipt(receipt) })
}

/// Lists the messages that the run, or the runs of the task, have not read yet.
async fn pending(
    app: &App,
    auth: &Auth<Read>,
    target: impl Into<InputTarget>,
    params: &PageQuery,
) -> ApiResult<Json<Page<PendingInput>>> {
    let inputs = query::input::pending(app.engine().store(), &auth.namespace, target).await?;
    let inputs = inputs.into_iter().map(convert::input::pending).collect();
    Ok(Json(convert::page::paginate(inputs, params, |input: &PendingInput| input.id)?))
}
