//! Reads the request body within its limits before the handler runs.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;

use super::Route;
use super::body_budget::{BodyLimits, read_within};
use crate::error;
use crate::extract::{Input, reject_query};
use crate::response::ApiResult;

/// Id of the operation of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OperationId(pub(crate) &'static str);

/// Reads the body of a request within the limits of its operation, before the handler runs.
pub(super) async fn read(
    State(Route { app, endpoint }): State<Route>,
    request: Request,
    next: Next,
) -> ApiResult<Response> {
    let (mut parts, body) = request.into_parts();
    let limits = &app.options().limits;
    let limits = BodyLimits {
        bytes_max: endpoint.body_bytes_max.min(app.options().body_bytes_max),
        stall_timeout: limits.body_stall_timeout,
        timeout: limits.body_timeout,
        budget: app.bodies(),
    };
    // The bytes remain reserved until the operation has ended.
    let (body, _reserved) = read_within(&parts.headers, body, limits).await?;
    match endpoint.input {
        Input::None => {
            reject_query(&parts.uri)?;
            if !body.is_empty() {
                return Err(error::invalid("body", "this operation takes no body").into());
            }
        }
        Input::Json(_) => reject_query(&parts.uri)?,
        Input::Query(_) => {}
    }
    parts.extensions.insert(OperationId(endpoint.id));
    Ok(next.run(Request::from_parts(parts, Body::from(body))).await)
}
