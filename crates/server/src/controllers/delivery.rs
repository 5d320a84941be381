//! Deliveries: list, retry and dismiss.

use axum::Json;
use axum::extract::State;
use provost_api::{Delivery, DeliveryQuery, Page};
use provost_core::DeliveryId;
use provost_store::query;
use provost_store::table::outbound::delivery::DeliveryFilter;

use crate::app::App;
use crate::convert;
use crate::extract::{ApiPath, ApiQuery, Auth, Read, Write, limit};
use crate::response::ApiResult;

pub(crate) async fn list(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiQuery(params): ApiQuery<DeliveryQuery>,
) -> ApiResult<Json<Page<Delivery>>> {
    let filter = DeliveryFilter {
        state: params.state,
        run: params.run,
        before: convert::page::cursor(params.cursor.as_deref())?,
    };
    let page =
        query::delivery::list(app.engine().store(), &auth.namespace, filter, limit(params.limit)?)
            .await;
    Ok(Json(convert::page::map(page?, convert::delivery::view)?))
}

pub(crate) async fn get(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(id): ApiPath<DeliveryId>,
) -> ApiResult<Json<Delivery>> {
    let row = query::delivery::get(app.engine().store(), &auth.namespace, id).await?;
    Ok(Json(convert::delivery::view(row)?))
}

pub(crate) async fn retry(
    State(app): State<App>,
    auth: Auth<Write>,
    ApiPath(id): ApiPath<DeliveryId>,
) -> ApiResult<Json<Delivery>> {
    let row = app.engine().deliveries().retry(&auth.namespace, id).await;
    Ok(Json(convert::delivery::view(row?)?))
}

pub(crate) async fn dismiss(
    State(app): State<App>,
    auth: Auth<Write>,
    ApiPath(id): ApiPath<DeliveryId>,
) -> ApiResult<Json<Delivery>> {
    let row = app.engine().deliveries().dismiss(&auth.namespace, id).await;
    Ok(Json(convert::delivery::view(row?)?))
}
