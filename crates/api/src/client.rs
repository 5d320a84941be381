//! The typed client: one for a server far away and for the one in the same process.

mod agents;
mod approvals;
#[cfg(feature = "http")]
mod http_transport;
mod operations;
mod path;
mod runs;
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
pub use self::stream::{EventStream, Watch};
use crate::Problem;

/// The largest answer that is read as a whole.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The body of an answer as it arrives.
pub type Answers = Pin<Box<dyn Stream<Item = Result<Bytes, TransportError>> + Send>>;

/// Why no answer came.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct TransportError {
    /// What sort of failure.
    pub kind: ErrorKind,
    /// What happened.
    pub message: String,
}

/// Carries requests to a server and brings answers back.
#[async_trait::async_trait]
pub trait Transport: Send + Sync {
    /// Sends a request, whose target is a path; returns when the head of the answer is there.
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Answers>, TransportError>;
}

/// Why a call failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ApiError {
    /// The server refused or failed, and says why.
    #[error(transparent)]
    Problem(Box<Problem>),
    /// No answer came.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// What came is not what this version expects.
    #[error("the server answered something that this version does not understand: {0}")]
    Unreadable(String),
}

impl ApiError {
    /// What the caller gave cannot be sent.
    pub(crate) fn invalid(detail: String) -> Self {
        Self::Problem(Box::new(Problem::new(ErrorKind::Invalid, "invalid", detail)))
    }

    /// The shared kind: decides retry and exit code.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Problem(problem) => problem.kind,
            Self::Transport(error) => error.kind,
            Self::Unreadable(_) => ErrorKind::Malformed,
        }
    }

    /// The stable code.
    pub fn code(&self) -> &str {
        match self {
            Self::Problem(problem) => &problem.code,
            Self::Transport(_) => "transport",
            Self::Unreadable(_) => "unreadable",
        }
    }

    /// The error as data.
    pub fn info(&self) -> ErrorInfo {
        ErrorInfo::new(self.kind(), self.code(), self.to_string())
    }
}

/// Speaks the run API for one namespace. Clones share the transport.
///
/// ```
/// use provost_api::{ApiError, Client, NewTask, Transport};
///
/// async fn ask(transport: impl Transport + 'static) -> Result<Option<String>, ApiError> {
///     let client = Client::new(transport, "default".parse().unwrap_or_default()).token("prv_…")?;
///     let accepted = client.submit(&NewTask::text("what is 6 * 7?")).await?;
///     let run = client.wait_for(accepted.run, None).await?;
///     Ok(run.answer)
/// }
/// ```
#[derive(Clone)]
pub struct Client {
    transport: Arc<dyn Transport>,
    namespace: Namespace,
    token: Option<HeaderValue>,
}

/// One call before it is sent.
pub(crate) struct Call {
    method: Method,
    path: String,
    body: Option<Bytes>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Call {
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), body: None, headers: Vec::new() }
    }

    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    pub(crate) fn post(path: impl Into<String>) -> Self {
        Self::new(Method::POST, path)
    }

    pub(crate) fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path)
    }

    /// What stands behind the question mark: the fields of a struct.
    pub(crate) fn query(mut self, fields: &impl Serialize) -> Result<Self, ApiError> {
        self.path.push_str(&query(fields)?);
        Ok(self)
    }

    /// The key that makes a repeat harmless, also as the header that proxies know.
    pub(crate) fn key(self, key: Option<&str>) -> Result<Self, ApiError> {
        match key {
            Some(key) if !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic()) => {
                self.header(HeaderName::from_static("idempotency-key"), key)
            }
            // A key that no header can carry is in the body all the same.
            _ => Ok(self),
        }
    }

    pub(crate) fn body(mut self, body: &impl Serialize) -> Result<Self, ApiError> {
        let json =
            serde_json::to_vec(body).map_err(|error| ApiError::Unreadable(error.to_string()))?;
        self.body = Some(json.into());
        Ok(self)
    }

    pub(crate) fn header(mut self, name: HeaderName, value: &str) -> Result<Self, ApiError> {
        let value = HeaderValue::from_str(value).map_err(|_error| {
            ApiError::invalid(format!("the header `{name}` cannot have this value"))
        })?;
        self.headers.push((name, value));
        Ok(self)
    }
}

impl Client {
    /// A client over a transport.
    pub fn new(transport: impl Transport + 'static, namespace: Namespace) -> Self {
        Self { transport: Arc::new(transport), namespace, token: None }
    }

    /// The same with a token.
    pub fn token(mut self, token: &str) -> Result<Self, ApiError> {
        let call = Call::new(Method::GET, "").header(AUTHORIZATION, &format!("Bearer {token}"))?;
        self.token = call.headers.into_iter().next().map(|(_, mut value)| {
            value.set_sensitive(true);
            value
        });
        Ok(self)
    }

    /// The namespace.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The same in another namespace.
    #[must_use]
    pub fn within(mut self, namespace: Namespace) -> Self {
        self.namespace = namespace;
        self
    }

    /// A path inside the namespace.
    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/v1/namespaces/{}/{rest}", self.namespace)
    }

    /// A path inside the namespace with a name that somebody chose: `agents/{name}`.
    pub(crate) fn named(&self, what: &str, name: &str, rest: &str) -> Result<String, ApiError> {
        Ok(self.path(&format!("{what}/{}{rest}", segment(name)?)))
    }

    /// Sends a call; an answer that is no success becomes its problem.
    pub(crate) async fn send(&self, call: Call) -> Result<Response<Answers>, ApiError> {
        let has_body = call.body.is_some();
        let mut request = Request::new(call.body.unwrap_or_default());
        *request.method_mut() = call.method;
        *request.uri_mut() =
            call.path.parse().map_err(|error| ApiError::Unreadable(format!("{error}")))?;
        let headers = request.headers_mut();
        let accepted = HeaderValue::from_static("application/json, application/problem+json");
        headers.insert(ACCEPT, accepted);
        if has_body {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(token) = &self.token {
            headers.insert(AUTHORIZATION, token.clone());
        }
        for (name, value) in call.headers {
            headers.insert(name, value);
        }
        let answer = self.transport.send(request).await?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status();
        let body = read(answer.into_body()).await?;
        match serde_json::from_slice(&body) {
            Ok(problem) => Err(ApiError::Problem(Box::new(problem))),
            Err(_) => Err(foreign(status)),
        }
    }

    /// Sends a call and reads the answer.
    pub(crate) async fn call<T: DeserializeOwned>(&self, call: Call) -> Result<T, ApiError> {
        let body = read(self.send(call).await?.into_body()).await?;
        // An operation without an answer has an empty body.
        let body: &[u8] = if body.is_empty() { b"null" } else { &body };
        serde_json::from_slice(body).map_err(|error| ApiError::Unreadable(error.to_string()))
    }
}

impl Client {
    /// Sends a call whose answer says nothing more than that it is done.
    pub(crate) async fn done(&self, call: Call) -> Result<(), ApiError> {
        read(self.send(call).await?.into_body()).await.map(drop)
    }
}

/// An answer that is not ours: something else listens there, or stands between.
fn foreign(status: http::StatusCode) -> ApiError {
    let kind = match status.as_u16() {
        429 => ErrorKind::RateLimited,
        502..=504 => ErrorKind::Unavailable,
        _ => return ApiError::Unreadable(format!("HTTP {status} without a problem document")),
    };
    let message = format!("HTTP {status} from something between here and the server");
    ApiError::Transport(TransportError { kind, message })
}

async fn read(mut body: Answers) -> Result<Bytes, ApiError> {
    let mut whole = BytesMut::new();
    while let Some(piece) = body.try_next().await? {
        if whole.len() + piece.len() > ANSWER_BYTES_MAX {
            return Err(ApiError::Unreadable("the answer is too long".to_owned()));
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole.freeze())
}
