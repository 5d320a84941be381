//! Answers requests whose handler panicked.

use std::any::Any;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use tower_http::catch_panic::ResponseForPanic;

use super::Route;
use crate::error::{self, ApiError};

/// Creates the response for a handler that panicked.
#[derive(Clone)]
pub(super) struct PanicResponse(pub(super) Route);

impl ResponseForPanic for PanicResponse {
    type ResponseBody = Body;

    fn response_for_panic(&mut self, _: Box<dyn Any + Send + 'static>) -> Response {
        let Route { app, endpoint } = &self.0;
        app.metrics().panicked();
        let problem = error::internal(&format_args!("the operation {} panicked", endpoint.id));
        ApiError::from(problem).into_response()
    }
}
