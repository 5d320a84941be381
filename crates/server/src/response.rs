//! Results of handlers, and their documentation in the OpenAPI document.

use axum::Json;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName, HeaderValue,
};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::router::{Endpoint, SchemaFn, schema_of};
use crate::{docs_page, metrics, openapi};

/// Result of a handler.
pub(crate) type ApiResult<T> = Result<T, ApiError>;

/// A successful response in the OpenAPI document.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResponseDoc {
    pub(crate) status: u16,
    /// Body of the response. `None` if it has none.
    pub(crate) content: Option<ContentDoc>,
}

/// Body of a response in the OpenAPI document.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ContentDoc {
    pub(crate) media_type: &'static str,
    pub(crate) schema: SchemaFn,
}

/// A successful result of a handler.
pub(crate) trait DescribeResponse: IntoResponse {
    /// Adds the successful responses to the description of the operation.
    fn describe(endpoint: &mut Endpoint);
}

fn json_doc<T: JsonSchema>(status: u16) -> ResponseDoc {
    let content = ContentDoc { media_type: "application/json", schema: schema_of::<T> };
    ResponseDoc { status, content: Some(content) }
}

fn text_doc(media_type: &'static str) -> ResponseDoc {
    let content = ContentDoc { media_type, schema: schema_of::<String> };
    ResponseDoc { status: 200, content: Some(content) }
}

impl<T: Serialize + JsonSchema> DescribeResponse for Json<T> {
    fn describe(endpoint: &mut Endpoint) {
        endpoint.responses.push(json_doc::<T>(200));
    }
}

/// Response with a created object: 201, or 200 if it existed before.
pub(crate) struct Created<T> {
    pub(crate) value: T,
    pub(crate) is_new: bool,
}

impl<T: Serialize> IntoResponse for Created<T> {
    fn into_response(self) -> Response {
        let status = if self.is_new { StatusCode::CREATED } else { StatusCode::OK };
        (status, Json(self.value)).into_response()
    }
}

impl<T: Serialize + JsonSchema> DescribeResponse for Created<T> {
    fn describe(endpoint: &mut Endpoint) {
        endpoint.responses.extend([json_doc::<T>(200), json_doc::<T>(201)]);
    }
}

/// Response with a versioned object. Its revision is the `ETag`.
pub(crate) struct Versioned<T> {
    pub(crate) value: T,
    pub(crate) revision: u64,
}

impl<T: Serialize> IntoResponse for Versioned<T> {
    fn into_response(self) -> Response {
        ([(ETAG, format!("\"{}\"", self.revision))], Json(self.value)).into_response()
    }
}

impl<T: Serialize + JsonSchema> DescribeResponse for Versioned<T> {
    fn describe(endpoint: &mut Endpoint) {
        endpoint.has_etag = true;
        endpoint.responses.push(json_doc::<T>(200));
    }
}

/// Response without content: 204.
pub(crate) struct NoContent;

impl IntoResponse for NoContent {
    fn into_response(self) -> Response {
        StatusCode::NO_CONTENT.into_response()
    }
}

impl DescribeResponse for NoContent {
    fn describe(endpoint: &mut Endpoint) {
        endpoint.responses.push(ResponseDoc { status: 204, content: None });
    }
}

/// Response with a stream of server-sent events.
pub(crate) struct EventStream(pub(crate) Body);

impl IntoResponse for EventStream {
    fn into_response(self) -> Response {
        let headers = [
            (CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
            (CACHE_CONTROL, HeaderValue::from_static("no-store")),
            // Prevents proxies from buffering events.
            (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
        ];
        (headers, self.0).into_response()
    }
}

impl DescribeResponse for EventStream {
    fn describe(endpoint: &mut Endpoint) {
        // The schema has no type, because some tools apply it to the whole stream and others to each event.
        fn schema(_: &mut SchemaGenerator) -> Value {
            json!({
                "description": "Server-sent events. A durable event has its cursor as `id`, its kind as `event` and a `RunEvent` \
                    as `data`. The events `delta` (a `Delta`), `reset`, `lagged` and `end` have no id.",
            })
        }
        let content = ContentDoc { media_type: "text/event-stream", schema };
        endpoint.responses.push(ResponseDoc { status: 200, content: Some(content) });
    }
}

/// Response with the metrics.
pub(crate) struct Metrics(pub(crate) String);

impl IntoResponse for Metrics {
    fn into_response(self) -> Response {
        ([(CONTENT_TYPE, metrics::MEDIA_TYPE)], self.0).into_response()
    }
}

impl DescribeResponse for Metrics {
    fn describe(endpoint: &mut Endpoint) {
        endpoint.responses.push(text_doc("text/plain"));
    }
}

/// Response with the OpenAPI document.
pub(crate) struct OpenApi;

impl IntoResponse for OpenApi {
    fn into_response(self) -> Response {
        Json(openapi::document()).into_response()
    }
}

impl DescribeResponse for OpenApi {
    fn describe(endpoint: &mut Endpoint) {
        fn schema(_: &mut SchemaGenerator) -> Value {
            let properties = json!({"openapi": {"type": "string"}, "paths": {"type": "object"}});
            json!({"type": "object", "required": ["openapi", "paths"], "properties": properties})
        }
        let content = ContentDoc { media_type: "application/json", schema };
        endpoint.responses.push(ResponseDoc { status: 200, content: Some(content) });
    }
}

/// Response with the documentation page.
pub(crate) struct DocsPage;

impl IntoResponse for DocsPage {
    fn into_response(self) -> Response {
        let headers = [
            (CONTENT_TYPE, "text/html; charset=utf-8"),
            (CONTENT_SECURITY_POLICY, docs_page::POLICY.as_str()),
            (CACHE_CONTROL, "no-cache"),
        ];
        (headers, docs_page::PAGE.as_str()).into_response()
    }
}

impl DescribeResponse for DocsPage {
    fn describe(endpoint: &mut Endpoint) {
        endpoint.responses.push(text_doc("text/html"));
    }
}
