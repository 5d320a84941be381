//! Middleware of all requests.

mod authorize;
mod body;
mod body_budget;
mod deadline;
mod etag;
mod fallback;
mod http_metrics;
mod panic;
mod problem;
mod rate_limit;
mod request_id;
mod uri_length;

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::MethodRouter;
use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue,
    X_CONTENT_TYPE_OPTIONS,
};
use tower::ServiceBuilder;
use tower::util::MapRequestLayer;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::request_id::{PropagateRequestIdLayer, SetRequestIdLayer};
use tower_http::sensitive_headers::SetSensitiveRequestHeadersLayer;
use tower_http::set_header::SetResponseHeaderLayer;
use tower_http::trace::TraceLayer;

pub(crate) use self::body::OperationId;
pub(crate) use self::body_budget::BodyBudget;
pub(crate) use self::fallback::{no_such_path, other_method};
pub(crate) use self::rate_limit::RateLimiter;
use crate::app::App;
use crate::router::Endpoint;

/// Origin of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ClientAddr {
    /// A connection from this address.
    Remote(IpAddr),
    /// A caller in the same process. Requests over a connection never have this origin.
    InProcess,
}

/// A route and its server. It is the state of the middleware.
#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) app: App,
    pub(crate) endpoint: Arc<Endpoint>,
}

/// Adds the middleware that depends on the operation. A request passes the last layer first.
pub(crate) fn wrap_handler(route: Route, handler: MethodRouter<App>) -> MethodRouter<App> {
    handler
        .layer(CatchPanicLayer::custom(panic::PanicResponse(route.clone())))
        .layer(from_fn_with_state(route.clone(), deadline::enforce))
        .layer(from_fn_with_state(route.clone(), body::read))
        .layer(from_fn_with_state(route.clone(), authorize::check))
        .layer(from_fn(etag::not_modified))
        .layer(from_fn_with_state(route.clone(), rate_limit::enforce))
        .layer(from_fn_with_state(route, http_metrics::record))
}

/// Adds the middleware that is the same for all routes. A request passes the first layer first.
pub(crate) fn wrap_router(app: &App, router: Router) -> Router {
    let callback_token = HeaderName::from_static("x-tool-callback-token");
    let policy = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    let unless_set = |name, value: HeaderValue| SetResponseHeaderLayer::if_not_present(name, value);
    router.layer(
        ServiceBuilder::new()
            .layer(SetSensitiveRequestHeadersLayer::new([AUTHORIZATION, callback_token]))
            .layer(MapRequestLayer::new(request_id::drop_invalid))
            .layer(SetRequestIdLayer::x_request_id(request_id::RequestIdGenerator(
                app.options().env.clone(),
            )))
            .layer(TraceLayer::new_for_http().make_span_with(request_id::span).on_failure(()))
            .layer(PropagateRequestIdLayer::x_request_id())
            .layer(unless_set(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")))
            .layer(unless_set(CACHE_CONTROL, HeaderValue::from_static("no-store")))
            .layer(unless_set(CONTENT_SECURITY_POLICY, policy))
            .layer(from_fn(problem::render))
            .layer(from_fn_with_state(app.clone(), uri_length::check)),
    )
}
