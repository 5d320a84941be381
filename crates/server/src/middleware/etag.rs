//! Answers 304 if the client already has the current version.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{ETAG, HeaderValue, IF_NONE_MATCH};
use http::{Method, StatusCode};

/// Replaces the response of a read by 304 without a body if the client has the current version.
pub(super) async fn not_modified(request: Request, next: Next) -> Response {
    let reads = [Method::GET, Method::HEAD].contains(request.method());
    let client_tags = request.headers().get(IF_NONE_MATCH).filter(|_| reads).cloned();
    let response = next.run(request).await;
    match (client_tags, response.headers().get(ETAG)) {
        (Some(client_tags), Some(tag)) if matches(&client_tags, tag) => {
            (StatusCode::NOT_MODIFIED, [(ETAG, tag.clone())]).into_response()
        }
        _ => response,
    }
}

/// Returns true if the client has this tag, or sent `*`.
fn matches(client_tags: &HeaderValue, tag: &HeaderValue) -> bool {
    let Ok(client_tags) = client_tags.to_str() else {
        return false;
    };
    let mut tags = client_tags.split(',').map(|tag| tag.trim().trim_start_matches("W/"));
    tags.any(|client_tag| client_tag == "*" || client_tag.as_bytes() == tag.as_bytes())
}
