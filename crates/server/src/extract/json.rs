//! JSON request bodies.

use axum::extract::{FromRequest, Request};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use provost_api::Problem;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::{DescribeArgument, Input, deserialize_error};
use crate::app::App;
use crate::error::{self, ApiError};
use crate::middleware::OperationId;
use crate::openapi::BodySchema;
use crate::router::{Endpoint, schema_of};

/// A JSON body that is valid according to the OpenAPI document.
pub(crate) struct ApiJson<T>(pub(crate) T);

impl<T: JsonSchema> DescribeArgument for ApiJson<T> {
    fn describe(endpoint: &mut Endpoint) {
        endpoint.input = Input::Json(schema_of::<T>);
    }
}

impl<T: DeserializeOwned> FromRequest<App> for ApiJson<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &App) -> Result<Self, ApiError> {
        require_json(request.headers())?;
        let operation = request.extensions().get::<OperationId>().copied();
        // The middleware of the route has read the body within its limits.
        let body = axum::body::to_bytes(request.into_body(), usize::MAX).await;
        let body = body.map_err(|error| error::internal(&error))?;
        let mut reader = serde_json::Deserializer::from_slice(&body);
        let value = serde_path_to_error::deserialize(&mut reader)
            .map_err(|error| deserialize_error("body", error.path(), error.inner()))?;
        reader.end().map_err(|error| error::invalid("body", &error.to_string()))?;
        // Deserialization accepts more than the document, such as an array in place of an object.
        if let Some(schema) = operation.and_then(|OperationId(id)| BodySchema::of(id)) {
            schema.check(&body)?;
        }
        Ok(Self(value))
    }
}

/// Returns an error if the content type is not JSON.
fn require_json(headers: &HeaderMap) -> Result<(), Problem> {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
    match essence {
        Some(kind) if kind.eq_ignore_ascii_case("application/json") => Ok(()),
        _ => Err(error::invalid("content-type", "send `application/json`").status(415)),
    }
}
