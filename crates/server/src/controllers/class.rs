//! Scheduling classes: how many runs may work at once.

use axum::Json;
use axum::extract::State;
use provost_api::{Class, ClassTarget, Page, Paging};
use provost_core::lifecycle::RequestError;
use provost_core::scheduling::ExecutionClassKey;
use provost_engine::EngineError;
use provost_store::query;
use provost_store::table::scheduling::execution_class;

use crate::app::App;
use crate::convert;
use crate::extract::{Admin, ApiJson, ApiPath, ApiQuery, Auth, Read, limit};
use crate::response::ApiResult;

pub(crate) async fn list(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiQuery(asked): ApiQuery<Paging>,
) -> ApiResult<Json<Page<Class>>> {
    let (limit, after) = (limit(asked.limit)?, asked.cursor.unwrap_or_default());
    let rows =
        query::execution_class::list(app.engine().store(), &auth.namespace, &after, limit).await?;
    Ok(Json(convert::page::from_rows(rows, limit, convert::class::view, |class: &Class| {
        class.key.clone()
    })?))
}

pub(crate) async fn set_target(
    State(app): State<App>,
    auth: Auth<Admin>,
    ApiPath(key): ApiPath<ExecutionClassKey>,
    ApiJson(target): ApiJson<ClassTarget>,
) -> ApiResult<Json<Class>> {
    let engine = app.engine();
    engine.classes().set_target(&auth.namespace, &key, target.desired).await?;
    let namespace = auth.namespace;
    let read = engine.store().read(move |tx| {
        let row = execution_class::find(tx, namespace.as_str(), key.as_str())?;
        row.ok_or_else(|| EngineError::from(RequestError::not_found("class", &key)))
    });
    Ok(Json(convert::class::view(read.await?)?))
}
