//! Answers 304 if the caller has what the response holds.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{ETAG, HeaderValue, IF_NONE_MATCH};
use http::{Method, StatusCode};

pub(super) async fn not_modified(request: Request, next: Next) -> Response {
    let reads = [Method::GET, Method::HEAD].contains(request.method());
    let known = request.headers().get(IF_NONE_MATCH).filter(|_| reads).cloned();
    let response = next.run(request).await;
    match (known, response.headers().get(ETAG)) {
        (Some(known), Some(tag)) if matches(&known, tag) => {
            (StatusCode::NOT_MODIFIED, [(ETAG, tag.clone())]).into_response()
        }
        _ => response,
    }
}

/// True if the caller names this tag, or any.
fn matches(known: &HeaderValue, tag: &HeaderValue) -> bool {
    let Ok(known) = known.to_str() else {
        return false;
    };
    let mut tags = known.split(',').map(|tag| tag.trim().trim_start_matches("W/"));
    tags.any(|known| known == "*" || known.as_bytes() == tag.as_bytes())
}
