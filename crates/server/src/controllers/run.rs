//! Runs: what they do, how they came where they are, and forks of them.

use axum::Json;
use axum::extract::State;
use provost_api::{
    Attempt, Cancelled, Delivery, Fork, Forked, Interaction, Page, Paging, Replay, Run, RunList,
    Snapshot, Step,
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
    ApiQuery(asked): ApiQuery<RunList>,
) -> ApiResult<Json<Page<Run>>> {
    let filter = RunFilter {
        task_id: asked.task,
        session_id: asked.session,
        agent: asked.agent,
        status: asked.status.map(|status| status.as_str().to_owned()),
        phase: asked.phase.map(|phase| phase.as_str().to_owned()),
        parent: asked.parent,
        before: convert::page::cursor(asked.cursor.as_deref())?,
    };
    let page =
        query::run::list(app.engine().store(), &auth.namespace, filter, limit(asked.limit)?).await;
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
    ApiQuery(asked): ApiQuery<Paging>,
) -> ApiResult<Json<Page<Step>>> {
    let after = convert::page::cursor(asked.cursor.as_deref())?.unwrap_or(0);
    let limit = limit(asked.limit)?;
    let page =
        query::step::list_with_results(app.engine().store(), &auth.namespace, run, after, limit)
            .await;
    Ok(Json(convert::page::map(page?, convert::run::step)?))
}

pub(crate) async fn snapshots(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(run): ApiPath<RunId>,
    ApiQuery(asked): ApiQuery<Paging>,
) -> ApiResult<Json<Page<Snapshot>>> {
    let after = convert::page::cursor(asked.cursor.as_deref())?.unwrap_or(0);
    let limit = limit(asked.limit)?;
    let page =
        query::run_history::changes(app.engine().store(), &auth.namespace, run, after, limit).await;
    Ok(Json(convert::page::map(page?, convert::run::snapshot)?))
}

pub(crate) async fn attempts(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(run): ApiPath<RunId>,
    ApiQuery(asked): ApiQuery<Paging>,
) -> ApiResult<Json<Page<Attempt>>> {
    let rows = query::run::attempts(app.engine().store(), &auth.namespace, run).await?;
    let attempts = rows.into_iter().map(convert::run::attempt).collect::<Result<_, _>>()?;
    Ok(Json(convert::page::paginate(attempts, &asked, |attempt: &Attempt| attempt.number)?))
}

pub(crate) async fn replay(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(run): ApiPath<RunId>,
) -> ApiResult<Json<Replay>> {
    let report = app.engine().runs().replay(&auth.namespace, run).await;
    Ok(Json(convert::run::replay(report?)))
}

pub(crate) async fn deliveries(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(run): ApiPath<RunId>,
    ApiQuery(asked): ApiQuery<Paging>,
) -> ApiResult<Json<Page<Delivery>>> {
    let rows = query::delivery::of_run(app.engine().store(), &auth.namespace, run).await;
    let rows = rows?.into_iter().map(convert::delivery::view);
    let deliveries = rows.collect::<Result<_, _>>()?;
    Ok(Json(convert::page::paginate(deliveries, &asked, |delivery: &Delivery| -> DeliveryId {
        delivery.id
    })?))
}

pub(crate) async fn cancel(
    State(app): State<App>,
    auth: Auth<Write>,
    ApiPath(run): ApiPath<RunId>,
) -> ApiResult<Json<Cancelled>> {
    let found = app.engine().runs().cancel(&auth.namespace, run).await;
    Ok(Json(convert::run::cancelled(found?)))
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
    ApiJson(asked): ApiJson<Fork>,
) -> ApiResult<Created<Forked>> {
    let step = asked.step;
    let mut edits = convert::run::fork_edits(asked)?;
    edits.idempotency_key = key.or_in_body(edits.idempotency_key.take())?;
    edits.by = Some(auth.principal.name.clone());
    let forked = app.engine().runs().fork(&auth.namespace, run, step, edits).await?;
    Ok(Created { is_new: !forked.deduped, value: convert::run::forked(forked) })
}

pub(crate) async fn interaction(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(run): ApiPath<RunId>,
) -> ApiResult<Json<Interaction>> {
    let found = query::input::interaction(app.engine().store(), &auth.namespace, run).await;
    Ok(Json(convert::input::interaction(found?)))
}
