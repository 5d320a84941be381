//! How long a response may take to begin.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use provost_api::Problem;
use provost_core::ErrorKind;
use tokio::time::timeout;

use super::Route;
use crate::error;
use crate::response::ApiResult;

/// Bounds the time of the handler. Streams and waits have no time limit, but end when the server stops.
pub(super) async fn enforce(
    State(Route { app, endpoint }): State<Route>,
    request: Request,
    next: Next,
) -> ApiResult<Response> {
    if endpoint.is_long_lived {
        return tokio::select! {
            biased;
            () = app.shutdown().cancelled() => Err(error::draining().into()),
            response = next.run(request) => Ok(response),
        };
    }
    let response = timeout(app.options().limits.answer_timeout, next.run(request)).await;
    Ok(response.map_err(|_elapsed| {
        let detail = "the answer took too long; what was asked may still happen";
        Problem::new(ErrorKind::Unavailable, "answer_timeout", detail)
    })?)
}
