//! Typed client of the API, for remote servers and for a server in the same process.

mod agents;
mod approvals;
mod budgets;
mod deliveries;
mod execution_classes;
#[cfg(feature = "http")]
mod http_transport;
mod path;
mod runs;
mod schedules;
mod server;
mod sessions;
mod sse;
mod stream;
mod tasks;
#[cfg(test)]
mod tests;
mod tools;
mod wait;
mod webhooks;

use std::pin::Pin;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::{Stream, TryStreamExt};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, Request, Response};
use provost_core::id::name::Namespace;
use provost_core::{ErrorInfo, ErrorKind};
use serde::Serialize;
use serde::de::DeserializeOwned;

#[cfg(feature = "http")]
pub use self::http_transport::{HttpOptions, HttpTransport};
use self::path::{query, segment};
pub use self::stream::{EventStream, WatchOptions};
use crate::Problem;

/// Maximum size of a response body.
const RESPONSE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Body of a response as a stream of chunks.
pub type BodyStream = Pin<Box<dyn Stream<Item = Result<Bytes, TransportError>> + Send>>;

/// Error of a request that received no response.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct TransportError {
    /// Kind of the error.
    pub kind: ErrorKind,
    /// Description of the error.
    pub message: String,
}

/// Connection that sends requests to a server and returns its responses.
#[async_trait::async_trait]
pub trait Transport: Send + Sync {
    /// Sends a request whose URI is a path. Returns when the headers of the response have arrived.
    async fn send(&self, request: Request<Bytes>) -> Result<Response<BodyStream>, TransportError>;
}

/// Error of an API request.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ApiError {
    /// The server returned an error response.
    #[error(transparent)]
    Problem(Box<Problem>),
    /// The request received no response.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The response has an unexpected format.
    #[error("the server sent a response that this version cannot read: {0}")]
    Unreadable(String),
}

impl ApiError {
    /// Creates the error for an argument that cannot be sent.
    pub(crate) fn invalid(detail: String) -> Self {
        Self::Problem(Box::new(Problem::new(ErrorKind::Invalid, "invalid", detail)))
    }

    /// Returns the kind of the error. It determines retries and exit codes.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Problem(problem) => problem.kind,
            Self::Transport(error) => error.kind,
            Self::Unreadable(_) => ErrorKind::Malformed,
        }
    }

    /// Returns the stable code of the error.
    pub fn code(&self) -> &str {
        match self {
            Self::Problem(problem) => &problem.code,
            Self::Transport(_) => "transport",
            Self::Unreadable(_) => "unreadable",
        }
    }

    /// Converts the error to the error type that all crates share.
    pub fn info(&self) -> ErrorInfo {
        ErrorInfo::new(self.kind(), self.code(), self.to_string())
    }
}

/// Client of the API for one namespace. Clones share the transport.
///
/// ```
/// use provost_api::{ApiError, Client, NewTask, Transport};
///
/// async fn ask(transport: impl Transport + 'static) -> Result<Option<String>, ApiError> {
///     let client = Client::new(transport, "default".parse().unwrap_or_default()).with_token("prv_…")?;
///     let receipt = client.submit(&NewTask::text("What is 6 * 7?")).await?;
///     let run = client.wait_for_run(receipt.run, None).await?;
///     Ok(run.answer)
/// }
/// ```
#[derive(Clone)]
pub struct Client {
    transport: Arc<dyn Transport>,
    namespace: Namespace,
    token: Option<HeaderValue>,
}

/// A request before it is sent.
pub(crate) struct RequestBuilder {
    method: Method,
    path: String,
    body: Option<Bytes>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl RequestBuilder {
    /// Creates a request without a body and headers.
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), body: None, headers: Vec::new() }
    }

    /// Creates a `GET` request.
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    /// Creates a `POST` request without a body.
    pub(crate) fn post(path: impl Into<String>) -> Self {
        Self::new(Method::POST, path)
    }

    /// Creates a `DELETE` request.
    pub(crate) fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path)
    }

    /// Appends the fields of a struct to the path as the query. Absent fields are omitted.
    pub(crate) fn query(mut self, fields: &impl Serialize) -> Result<Self, ApiError> {
        self.path.push_str(&query(fields)?);
        Ok(self)
    }

    /// Sends the idempotency key of the body also as a header, so that proxies can read it. Does nothing for `None`.
    pub(crate) fn idempotency_key(self, key: Option<&str>) -> Result<Self, ApiError> {
        match key {
            Some(key) if !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic()) => {
                self.header(HeaderName::from_static("idempotency-key"), key)
            }
            // The body contains the key even if it is not valid in a header.
            _ => Ok(self),
        }
    }

    /// Sets the body to a value as JSON.
    pub(crate) fn body(mut self, body: &impl Serialize) -> Result<Self, ApiError> {
        let json =
            serde_json::to_vec(body).map_err(|error| ApiError::Unreadable(error.to_string()))?;
        self.body = Some(json.into());
        Ok(self)
    }

    /// Adds a header. Fails if the value is not valid in a header.
    pub(crate) fn header(mut self, name: HeaderName, value: &str) -> Result<Self, ApiError> {
        let value = HeaderValue::from_str(value).map_err(|_error| {
            ApiError::invalid(format!("the value is not valid in the header `{name}`"))
        })?;
        self.headers.push((name, value));
        Ok(self)
    }
}

impl Client {
    /// Creates a client without a token.
    pub fn new(transport: impl Transport + 'static, namespace: Namespace) -> Self {
        Self { transport: Arc::new(transport), namespace, token: None }
    }

    /// Sets the API token that every request sends. Fails if it is not valid in a header.
    pub fn with_token(mut self, token: &str) -> Result<Self, ApiError> {
        let request = RequestBuilder::new(Method::GET, "")
            .header(AUTHORIZATION, &format!("Bearer {token}"))?;
        self.token = request.headers.into_iter().next().map(|(_, mut value)| {
            value.set_sensitive(true);
            value
        });
        Ok(self)
    }

    /// Returns the namespace that the client works in.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Returns the client for another namespace.
    #[must_use]
    pub fn with_namespace(mut self, namespace: Namespace) -> Self {
        self.namespace = namespace;
        self
    }

    /// Returns a path within the namespace.
    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/v1/namespaces/{}/{rest}", self.namespace)
    }

    /// Returns a path within the namespace that contains an encoded name, such as `agents/{name}`. Fails for an empty
    /// name and for dot segments.
    pub(crate) fn named_path(
        &self,
        noun: &str,
        name: &str,
        rest: &str,
    ) -> Result<String, ApiError> {
        Ok(self.path(&format!("{noun}/{}{rest}", segment(name)?)))
    }

    /// Sends a request and returns when the head of the response has arrived. A response without success becomes an
    /// error.
    pub(crate) async fn send(
        &self,
        request: RequestBuilder,
    ) -> Result<Response<BodyStream>, ApiError> {
        let RequestBuilder { method, path, body, headers: extra_headers } = request;
        let has_body = body.is_some();
        let mut request = Request::new(body.unwrap_or_default());
        *request.method_mut() = method;
        *request.uri_mut() =
            path.parse().map_err(|error| ApiError::Unreadable(format!("{error}")))?;
        let headers = request.headers_mut();
        let media_types = HeaderValue::from_static("application/json, application/problem+json");
        headers.insert(ACCEPT, media_types);
        if has_body {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(token) = &self.token {
            headers.insert(AUTHORIZATION, token.clone());
        }
        for (name, value) in extra_headers {
            headers.insert(name, value);
        }
        let response = self.transport.send(request).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = read(response.into_body()).await?;
        match serde_json::from_slice(&body) {
            Ok(problem) => Err(ApiError::Problem(Box::new(problem))),
            Err(_) => Err(not_a_problem(status)),
        }
    }

    /// Sends a request and parses the complete response as JSON.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
    ) -> Result<T, ApiError> {
        let body = read(self.send(request).await?.into_body()).await?;
        // The response of an operation without a result is empty.
        let body: &[u8] = if body.is_empty() { b"null" } else { &body };
        serde_json::from_slice(body).map_err(|error| ApiError::Unreadable(error.to_string()))
    }

    /// Sends a request and ignores the body of its response.
    pub(crate) async fn call_without_result(
        &self,
        request: RequestBuilder,
    ) -> Result<(), ApiError> {
        read(self.send(request).await?.into_body()).await.map(drop)
    }
}

/// Returns the error for an error response that is not a problem document, such as that of a proxy.
fn not_a_problem(status: http::StatusCode) -> ApiError {
    let kind = match status.as_u16() {
        429 => ErrorKind::RateLimited,
        502..=504 => ErrorKind::Unavailable,
        _ => return ApiError::Unreadable(format!("HTTP {status} without a problem document")),
    };
    let message = format!("HTTP {status} from a proxy or another server");
    ApiError::Transport(TransportError { kind, message })
}

/// Reads a complete body. Fails if it is larger than [`RESPONSE_BYTES_MAX`].
async fn read(mut body: BodyStream) -> Result<Bytes, ApiError> {
    let mut bytes = BytesMut::new();
    while let Some(chunk) = body.try_next().await? {
        if bytes.len() + chunk.len() > RESPONSE_BYTES_MAX {
            return Err(ApiError::Unreadable("the response is too large".to_owned()));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.freeze())
}
