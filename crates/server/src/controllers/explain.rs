//! Why something waits, or why it failed.

use axum::Json;
use axum::extract::State;
use provost_api::Explanation;
use provost_engine::Subject;

use crate::app::App;
use crate::convert;
use crate::extract::{ApiPath, Auth, Read};
use crate::response::ApiResult;

pub(crate) async fn explain(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(subject): ApiPath<Subject>,
) -> ApiResult<Json<Explanation>> {
    let explanation = app.engine().explain(&auth.namespace, subject).await?;
    Ok(Json(convert::explanation::view(explanation)))
}
