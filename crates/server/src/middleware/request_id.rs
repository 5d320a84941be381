//! Request ids: the id that the client sent, or a new one. An id contains only visible ASCII characters.

use axum::body::Body;
use axum::extract::Request;
use http::header::{HeaderName, HeaderValue};
use provost_core::Env;
use tower_http::request_id::{MakeRequestId, RequestId};
use tracing::Span;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Maximum length of an id that a client sends.
const CHARS_MAX: usize = 64;

/// Removes the request id of the client if it is too long or contains invalid characters. A new id then replaces it.
pub(super) fn drop_invalid(mut request: Request) -> Request {
    let is_valid = |value: &HeaderValue| {
        let bytes = value.as_bytes();
        (1..=CHARS_MAX).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic)
    };
    if !request.headers().get(REQUEST_ID).is_some_and(is_valid) {
        request.headers_mut().remove(REQUEST_ID);
    }
    request
}

/// Generates ids: `req_` and a random hexadecimal number.
#[derive(Clone)]
pub(super) struct RequestIdGenerator(pub(super) Env);

impl MakeRequestId for RequestIdGenerator {
    fn make_request_id<B>(&mut self, _: &http::Request<B>) -> Option<RequestId> {
        let id = format!("req_{:016x}", self.0.random());
        HeaderValue::from_str(&id).ok().map(RequestId::new)
    }
}

/// Creates the tracing span of a request. It contains only the path, because the query can contain private data.
pub(super) fn span(request: &http::Request<Body>) -> Span {
    let id = request.headers().get(REQUEST_ID).and_then(|id| id.to_str().ok());
    tracing::debug_span!(
        "request",
        request.id = id,
        http.method = %request.method(),
        http.path = request.uri().path(),
    )
}
