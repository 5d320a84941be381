//! What every answer carries: the id of its request, and headers that keep browsers from guessing.

use axum::extract::Request;
use axum::response::Response;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use provost_api::Problem;
use provost_core::ErrorKind;

use super::refuse;
use crate::app::App;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Characters of an id that a caller chooses.
const REQUEST_ID_LEN_MAX: usize = 64;

/// The id of a request: the caller's, or a new one. Always visible ASCII.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(HeaderValue);

impl RequestId {
    /// As text.
    pub(crate) fn text(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    fn of(app: &App, request: &Request) -> Self {
        let given = request.headers().get(REQUEST_ID).filter(|value| {
            let bytes = value.as_bytes();
            (1..=REQUEST_ID_LEN_MAX).contains(&bytes.len())
                && bytes.iter().all(u8::is_ascii_graphic)
        });
        let value = given.cloned().or_else(|| {
            HeaderValue::from_str(&format!("req_{:016x}", app.shared.options.env.random())).ok()
        });
        Self(value.unwrap_or(HeaderValue::from_static("req")))
    }
}

/// Goes around everything that is served.
pub(super) async fn wrap<F: Future<Output = Response>>(
    app: &App,
    mut request: Request,
    next: impl FnOnce(Request) -> F,
) -> Response {
    let id = RequestId::of(app, &request);
    request.extensions_mut().insert(id.clone());
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    let max = app.shared.options.limits.uri_bytes_max;
    let mut response = if target > max {
        let detail = format!("the path and the query have more than {max} bytes: send less");
        let problem = Problem::new(ErrorKind::Invalid, "uri_too_long", detail).status(414);
        refuse(problem, Some(&id))
    } else {
        next(request).await
    };
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id.0);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    let nothing = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(nothing);
    response
}
