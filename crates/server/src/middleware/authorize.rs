//! Authorizes requests: 404 if the token does not cover the namespace, 403 if it lacks the scope.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;

use super::Route;
use crate::auth::{self, Principal};
use crate::error;
use crate::extract::{Authorized, namespace};
use crate::response::ApiResult;

/// Authorizes the caller for the operation and the namespace of the path, before the handler runs.
pub(super) async fn check(
    State(Route { app, endpoint }): State<Route>,
    request: Request,
    next: Next,
) -> ApiResult<Response> {
    let (mut parts, body) = request.into_parts();
    let namespace = namespace(&mut parts).await?;
    let principal = parts.extensions.get::<Arc<Principal>>().cloned();
    let principal = principal.ok_or_else(|| error::internal(&"a request without a principal"))?;
    auth::authorize(&principal, endpoint.access(app.options()), namespace.as_ref())?;
    let namespace = namespace.unwrap_or_default();
    parts.extensions.insert(Authorized { principal, namespace });
    Ok(next.run(Request::from_parts(parts, body)).await)
}
