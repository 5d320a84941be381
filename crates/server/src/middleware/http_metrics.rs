//! Counts requests by operation and status, and measures the time until a response starts.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use tokio::time::Instant;

use super::Route;

/// Counts a request and measures its time.
pub(super) async fn record(
    State(Route { app, endpoint }): State<Route>,
    request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let response = next.run(request).await;
    let status = response.status().as_u16();
    app.metrics().request_completed(Some(endpoint.id), status, started.elapsed());
    response
}
