//! Limits the length of the URI.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use provost_api::Problem;
use provost_core::ErrorKind;

use crate::app::App;
use crate::response::ApiResult;

/// Rejects a request whose path and query are too long.
pub(super) async fn check(
    State(app): State<App>,
    request: Request,
    next: Next,
) -> ApiResult<Response> {
    let max = app.options().limits.uri_bytes_max;
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    if target > max {
        let detail = format!("the path and the query exceed the limit of {max} bytes");
        let problem = Problem::new(ErrorKind::Invalid, "uri_too_long", detail).status(414);
        return Err(problem.into());
    }
    Ok(next.run(request).await)
}
