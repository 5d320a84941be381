//! Runs: their state, history, cancellation, forks and replay.

use axum::Json;
use axum::extract::State;
use provost_api::{
    Attempt, CancelReceipt, Delivery, ForkReceipt, ForkRequest, Page, PageQuery, ReplayReport, Run,
    RunInteraction, RunQuery, RunTransition, Step,
};
use provost_core::{DeliveryId, RunId};
use provost_store::query;
use provost_store::table::work::run::RunFilter;

use crate::app::App;
use crate::convert;
use crate::extract::{ApiJson, ApiPath, ApiQuery, Auth, IdempotencyKey, Read, Write, limit};
use crate::response::{ApiResult, Created};

pub(crate) async fn list(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiQuery(params): ApiQuery<RunQuery>,
) -> ApiResult<Json<Page<Run>>> {
    let filter = RunFilter {
        task_id: params.task,
        session_id: params.session,
        agent: params.agent,
        status: params.status,
        phase: params.phase,
        parent: params.parent,
        before: convert::page::cursor(params.cursor.as_deref())?,
    };
    let page =
        query::run::list(app.engine().store(), &auth.namespace, filter, limit(params.limit)?).await;
    Ok(Json(convert::page::map(page?, convert::run::view)?))
}

pub(crate) async fn get(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(run): ApiPath<RunId>,
) -> ApiResult<Json<Run>> {
    let row = query::run::get(app.engine().store(), &auth.namespace, run).await?;
    Ok(Json(convert::run::view(row)?))
}

pub(crate) async fn steps(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(run): ApiPath<RunId>,
    ApiQuery(params): ApiQuery<PageQuery>,
) -> ApiResult<Json<Page<Step>>> {
    let after = convert::page::cursor(params.cursor.as_deref())?.unwrap_or(0);
    let limit = limit(params.limit)?;
    let page =
        query::step::list_with_results(app.engine().store(), &auth.namespace, run, after, limit)
            .await;
    Ok(Json(convert::page::map(page?, convert::run::step)?))
}

pub(crate) async fn transitions(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(run): ApiPath<RunId>,
    ApiQuery(params): ApiQuery<PageQuery>,
) -> ApiResult<Json<Page<RunTransition>>> {
    let after = convert::page::cursor(params.cursor.as_deref())?.unwrap_or(0);
    let limit = limit(params.limit)?;
    let page =
        query::run_history::changes(app.engine().store(), &auth.namespace, run, after, limit).await;
    Ok(Json(convert::page::map(page?, convert::run::transition)?))
}

pub(crate) async fn attempts(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(run): ApiPath<RunId>,
    ApiQuery(params): ApiQuery<PageQuery>,
) -> ApiResult<Json<Page<Attempt>>> {
    let rows = query::run::attempts(app.engine().store(), &auth.namespace, run).await?;
    let attempts = rows.into_iter().map(convert::run::attempt).collect::<Result<_, _>>()?;
    Ok(Json(convert::page::paginate(attempts, &params, |attempt: &Attempt| attempt.number)?))
}

pub(crate) async fn replay(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(run): ApiPath<RunId>,
) -> ApiResult<Json<ReplayReport>> {
    let report = app.engine().runs().replay(&auth.namespace, run).await;
    Ok(Json(convert::run::replay(report?)))
}

pub(crate) async fn deliveries(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(run): ApiPath<RunId>,
    ApiQuery(params): ApiQuery<PageQuery>,
) -> ApiResult<Json<Page<Delivery>>> {
    let rows = query::delivery::of_run(app.engine().store(), &auth.namespace, run).await;
    let rows = rows?.into_iter().map(convert::delivery::view);
    let deliveries = rows.collect::<Result<_, _>>()?;
    Ok(Json(convert::page::paginate(deliveries, &params, |delivery: &Delivery| -> DeliveryId {
        delivery.id
    })?))
}

pub(crate) async fn cancel(
    State(app): State<App>,
    auth: Auth<Write>,
    ApiPath(run): ApiPath<RunId>,
) -> ApiResult<Json<CancelReceipt>> {
    let outcome = app.engine().runs().cancel(&auth.namespace, run).await;
    Ok(Json(convert::run::cancel_receipt(outcome?)))
}

pub(crate) async fn resume(
    State(app): State<App>,
    auth: Auth<Write>,
    ApiPath(run): ApiPath<RunId>,
) -> ApiResult<Json<Run>> {
    let engine = app.engine();
    engine.runs().resume(&auth.namespace, run, &auth.principal.name).await?;
    Ok(Json(convert::run::view(query::run::get(engine.store(), &auth.namespace, run).await?)?))
}

pub(crate) async fn fork(
    State(app): State<App>,
    auth: Auth<Write>,
    ApiPath(run): ApiPath<RunId>,
    key: IdempotencyKey,
    ApiJson(params): ApiJson<ForkRequest>,
) -> ApiResult<Created<ForkReceipt>> {
    let step = params.step;
    let mut edits = convert::run::fork_edits(params)?;
    edits.idempotency_key = key.or_in_body(edits.idempotency_key.take())?;
    edits.by = Some(auth.principal.name.clone());
    let forked = app.engine().runs().fork(&auth.namespace, run, step, edits).await?;
    Ok(Created { is_new: !forked.deduped, value: convert::run::fork_receipt(forked) })
}

pub(crate) async fn interaction(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(run): ApiPath<RunId>,
) -> ApiResult<Json<RunInteraction>> {
    let found = query::input::interaction(app.engine().store(), &auth.namespace, run).await;
    Ok(Json(convert::input::interaction(found?)))
}
