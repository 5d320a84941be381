//! Execution classes and their concurrency limits.

use axum::Json;
use axum::extract::State;
use provost_api::{ConcurrencyLimit, ExecutionClass, Page, PageQuery};
use provost_core::scheduling::ExecutionClassKey;
use provost_store::query;

use crate::app::App;
use crate::convert;
use crate::extract::{Admin, ApiJson, ApiPath, ApiQuery, Auth, Read, limit};
use crate::response::ApiResult;

pub(crate) async fn list(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiQuery(params): ApiQuery<PageQuery>,
) -> ApiResult<Json<Page<ExecutionClass>>> {
    let (limit, after) = (limit(params.limit)?, params.cursor.unwrap_or_default());
    let rows =
        query::execution_class::list(app.engine().store(), &auth.namespace, &after, limit).await?;
    Ok(Json(convert::page::from_rows(
        rows,
        limit,
        convert::class::view,
        |class: &ExecutionClass| class.key.clone(),
    )?))
}

pub(crate) async fn set_concurrency_limit(
    State(app): State<App>,
    auth: Auth<Admin>,
    ApiPath(key): ApiPath<ExecutionClassKey>,
    ApiJson(target): ApiJson<ConcurrencyLimit>,
) -> ApiResult<Json<ExecutionClass>> {
    let engine = app.engine();
    engine.classes().set_target(&auth.namespace, &key, target.limit).await?;
    let row = query::execution_class::get(engine.store(), &auth.namespace, &key).await?;
    Ok(Json(convert::class::view(row)?))
}
