//! Explanations of waiting and failed runs.

use axum::Json;
use axum::extract::State;
use provost_api::Explanation;
use provost_store::query::explain_facts::{self, Subject};

use crate::app::App;
use crate::extract::{ApiPath, Auth, Read};
use crate::response::ApiResult;

pub(crate) async fn explain(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(subject): ApiPath<Subject>,
) -> ApiResult<Json<Explanation>> {
    let (store, local) = (app.engine().store(), app.engine().local_facts());
    let facts = explain_facts::read(store, &auth.namespace, subject, local).await?;
    Ok(Json(provost_explain::explain(&facts)))
}
