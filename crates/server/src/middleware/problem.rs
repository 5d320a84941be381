//! Serializes problem documents.

use axum::body::Body;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use provost_api::Problem;
use tower_http::request_id::RequestId;

/// Serializes the problem that an [`ApiError`](crate::error::ApiError) stored in the response, and adds the id of the request.
pub(super) async fn render(request: Request, next: Next) -> Response {
    let id = request.extensions().get::<RequestId>().cloned();
    let mut response = next.run(request).await;
    let Some(mut problem) = response.extensions_mut().remove::<Problem>() else {
        return response;
    };
    problem.request_id = id.and_then(|id| Some(id.header_value().to_str().ok()?.to_owned()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(Problem::MEDIA_TYPE));
    if problem.status == 401 {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(delay_ms) = problem.retry_after_ms {
        headers.insert(RETRY_AFTER, HeaderValue::from(delay_ms.div_ceil(1000)));
    }
    match serde_json::to_vec(&problem) {
        Ok(body) => *response.body_mut() = Body::from(body),
        Err(error) => tracing::error!(%error, "cannot serialize a problem"),
    }
    response
}
