//! The id of a request: the caller's, or a new one. Always visible ASCII.

use axum::body::Body;
use axum::extract::Request;
use http::header::{HeaderName, HeaderValue};
use provost_core::Env;
use tower_http::request_id::{MakeRequestId, RequestId};
use tracing::Span;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Characters of an id that a caller chooses.
const CHARS_MAX: usize = 64;

/// Removes an id of the caller that is too long or holds other characters.
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

/// Makes new ids: `req_` and a number in base 16.
#[derive(Clone)]
pub(super) struct Make(pub(super) Env);

impl MakeRequestId for Make {
    fn make_request_id<B>(&mut self, _: &http::Request<B>) -> Option<RequestId> {
        let id = format!("req_{:016x}", self.0.random());
        HeaderValue::from_str(&id).ok().map(RequestId::new)
    }
}

/// Makes the span of a request. The query may hold what callers search for, so only the path is in it.
pub(super) fn span(request: &http::Request<Body>) -> Span {
    let id = request.headers().get(REQUEST_ID).and_then(|id| id.to_str().ok());
    tracing::debug_span!(
        "request",
        request.id = id,
        http.method = %request.method(),
        http.path = request.uri().path(),
    )
}
