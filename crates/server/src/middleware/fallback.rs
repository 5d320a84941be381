//! Requests that match no operation.

use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::ALLOW;
use http::{Method, StatusCode};
use provost_api::Problem;
use provost_core::ErrorKind;

use crate::app::App;
use crate::error::{self, ApiError};

/// Creates the response to a path that does not exist, and counts the request.
pub(crate) async fn no_such_path(State(app): State<App>) -> ApiError {
    app.metrics().request_completed(None, 404, Duration::ZERO);
    error::not_found("this path does not exist: see /docs".to_owned()).into()
}

/// Creates the response to a method that the path does not support: 405, or 204 for `OPTIONS`.
pub(crate) fn other_method(app: &App, method: &Method, allowed: &str) -> Response {
    let allow = [(ALLOW, allowed.to_owned())];
    let response = if *method == Method::OPTIONS {
        (StatusCode::NO_CONTENT, allow).into_response()
    } else {
        let detail = format!("this path supports {allowed}");
        let problem = Problem::new(ErrorKind::Invalid, "method_not_allowed", detail).status(405);
        (allow, ApiError::from(problem)).into_response()
    };
    app.metrics().request_completed(None, response.status().as_u16(), Duration::ZERO);
    response
}
