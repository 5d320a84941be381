//! Limits the time until a response starts.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use provost_api::Problem;
use provost_core::ErrorKind;
use tokio::time::timeout;

use super::Route;
use crate::error;
use crate::response::ApiResult;

/// Limits the time of the handler. Streams and waits have no time limit, but end when the server shuts down.
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
        let detail = "the response took too long; the request may still take effect";
        Problem::new(ErrorKind::Unavailable, "answer_timeout", detail)
    })?)
}
