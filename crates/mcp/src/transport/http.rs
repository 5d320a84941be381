//! Streamable HTTP transport with a limit for every response.
//!
//! `rmcp` implements sessions, stream resumption and the protocol. This module sends requests and reads responses.

mod client;
mod error_response;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use provost_core::Backoff;
use provost_net::{NetError, NetResponse};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::SseRetryPolicy;
use rmcp::transport::streamable_http_client::{
    HttpStatusError, SseError, StreamableHttpClient, StreamableHttpClientTransportConfig,
    StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

use self::client::{HttpClient, RequestBuilder};
use self::error_response::{check_access, to_error};
use crate::connection::redaction::ServerRedaction;
use crate::limits::{GOODBYE_TIMEOUT, MESSAGE_BYTES_MAX};
use crate::oauth::OAuthSession;
use crate::server::HttpConfig;

pub(crate) use self::error_response::denied_error;

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
/// Maximum number of concurrent requests to one server. All users of the pool share the connection.
const REQUESTS_MAX: usize = 64;
/// Maximum number of consecutive attempts to resume a broken stream.
const RESUMES_MAX: usize = 8;
/// First delay before a stream is resumed, unless the server names one.
const RESUME_FIRST: Duration = Duration::from_millis(250);
/// Maximum delay before a stream is resumed.
const RESUME_MAX: Duration = Duration::from_secs(15);
/// Maximum number of times that one request is repeated because of authorization challenges.
const CHALLENGES_MAX: u32 = 4;

type Headers = HashMap<HeaderName, HeaderValue>;
type Failure = StreamableHttpError<HttpError>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

/// Creates the transport of a URL. Returns a message if a header is invalid.
pub(crate) fn create_transport(
    http: &HttpConfig,
    connect_timeout: Duration,
    redaction: &ServerRedaction,
) -> Result<StreamableHttpClientTransport<HttpTransport>, String> {
    let client = HttpClient::new(http.policy, connect_timeout);
    let headers = http.header_map()?.into_iter().collect();
    let mut config = StreamableHttpClientTransportConfig::with_uri(http.url.as_str())
        .custom_headers(headers)
        .max_sse_event_size(MESSAGE_BYTES_MAX)
        .max_concurrent_requests(REQUESTS_MAX)
        .control_request_timeout(GOODBYE_TIMEOUT);
    config.retry_config = Arc::new(ReconnectPolicy);
    let session = |oauth| Arc::new(OAuthSession::new(&http.url, oauth, redaction.clone()));
    let oauth = http.oauth.clone().map(session);
    Ok(StreamableHttpClientTransport::with_client(HttpTransport { client, oauth }, config))
}

/// Error of an HTTP request or its response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    /// The connection failed. Nothing was sent.
    #[error("no connection: {0}")]
    Connect(String),
    /// The request was sent and failed.
    #[error("{0}")]
    Request(String),
    #[error("the response has more than {MESSAGE_BYTES_MAX} bytes")]
    TooLarge,
    /// The server requires authorization. The request was not executed.
    #[error("authorization failed: {0}")]
    Authorization(String),
    /// The server denied access. The request was not executed.
    #[error("access denied: {0}")]
    Forbidden(String),
    /// Rate limit of the server. The request was not executed.
    #[error("too many requests: {message}")]
    Busy { wait: Option<Duration>, message: String },
}

impl From<NetError> for HttpError {
    fn from(error: NetError) -> Self {
        if error.may_have_arrived() {
            Self::Request(error.to_string())
        } else {
            Self::Connect(error.to_string())
        }
    }
}

/// Converts an error of the HTTP client.
fn client_error(error: NetError) -> Failure {
    StreamableHttpError::Client(error.into())
}

/// Delays between attempts to resume a broken stream.
#[derive(Debug)]
struct ReconnectPolicy;

impl SseRetryPolicy for ReconnectPolicy {
    fn retry(&self, times: usize) -> Option<Duration> {
        let doublings = u32::try_from(times).ok().filter(|_| times < RESUMES_MAX)?;
        Some(Backoff { first: RESUME_FIRST, max: RESUME_MAX }.wait(doublings))
    }
}

/// HTTP client of the transport, with the tokens of the server.
#[derive(Clone)]
pub(crate) struct HttpTransport {
    client: HttpClient,
    oauth: Option<Arc<OAuthSession>>,
}

impl HttpTransport {
    /// Sends a request with the current token. After an authorization challenge, authorizes the client and sends the
    /// request again. Returns an error after too many challenges.
    async fn send(
        &self,
        request: impl Fn() -> RequestBuilder + Send + Sync,
    ) -> Result<NetResponse, Failure> {
        let Some(oauth) = &self.oauth else {
            let response = request().send().await.map_err(client_error)?;
            check_access(&response)?;
            return Ok(response);
        };
        let unauthorized = |problem| StreamableHttpError::Client(HttpError::Authorization(problem));
        for _ in 0..CHALLENGES_MAX {
            let token = oauth.token().await.map_err(unauthorized)?;
            let request = match &token {
                Some(token) => request().bearer_auth(token.expose()),
                None => request(),
            };
            let response = request.send().await.map_err(client_error)?;
            match check_access(&response) {
                Ok(()) if response.status == StatusCode::UNAUTHORIZED => {
                    oauth.authorize("Bearer", token.as_ref()).await.map_err(unauthorized)?;
                }
                Ok(()) => return Ok(response),
                Err(StreamableHttpError::AuthRequired(error)) => {
                    let challenge = &error.www_authenticate_header;
                    oauth.authorize(challenge, token.as_ref()).await.map_err(unauthorized)?;
                }
                Err(StreamableHttpError::InsufficientScope(error)) => {
                    oauth
                        .request_scopes(&error.www_authenticate_header)
                        .await
                        .map_err(unauthorized)?;
                }
                Err(other) => return Err(other),
            }
        }
        Err(unauthorized("the server rejects every token that it issued".to_owned()))
    }
}

impl StreamableHttpClient for HttpTransport {
    type Error = HttpError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _auth: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let body = Bytes::from(serde_json::to_vec(&message)?);
        let headers: HeaderMap = headers.into_iter().collect();
        let has_session = session.is_some();
        let request = || {
            let request = self
                .client
                .request(Method::POST, &uri)
                .header(ACCEPT, &format!("{JSON}, {EVENTS}"))
                .header(CONTENT_TYPE, JSON)
                .headers(headers.clone())
                .body(body.clone());
            match &session {
                Some(session) => request.header(SESSION, session),
                None => request,
            }
        };
        let response = self.send(request).await?;
        let status = response.status;
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && has_session {
            return Err(StreamableHttpError::SessionExpired);
        }
        if !status.is_success() {
            return to_error(response, &message, has_session).await;
        }
        read_response(response, &message).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _auth: Option<String>,
        headers: Headers,
    ) -> Result<(), Failure> {
        let mut request = self.client.request(Method::DELETE, &uri);
        request = request.headers(headers.into_iter().collect());
        // Closing a session does not wait for the user.
        if let Some(oauth) = &self.oauth
            && let Ok(Some(token)) = oauth.token().await
        {
            request = request.bearer_auth(token.expose());
        }
        // A server may not support ending sessions. Then the session simply expires.
        request.header(SESSION, &session).send().await.map_err(client_error)?;
        Ok(())
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _auth: Option<String>,
        headers: Headers,
    ) -> Result<Events, Failure> {
        let headers: HeaderMap = headers.into_iter().collect();
        let request = || {
            let mut request = self.client.request(Method::GET, &uri).header(ACCEPT, EVENTS);
            request = request.headers(headers.clone());
            if let Some(session) = &session {
                request = request.header(SESSION, session);
            }
            if let Some(last_event) = &last_event {
                request = request.header(LAST_EVENT, last_event);
            }
            request
        };
        let response = self.send(request).await?;
        let status = response.status;
        if status == StatusCode::METHOD_NOT_ALLOWED {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        if !status.is_success() {
            return Err(HttpStatusError::new(status.as_u16(), None).into());
        }
        match content_type(&response) {
            Some(kind) if kind.starts_with(EVENTS) => Ok(event_stream(response)),
            kind => Err(StreamableHttpError::UnexpectedContentType(kind)),
        }
    }
}

/// Reads the body of a successful response: an event stream, or one JSON message. Returns an error for another content
/// type, unless the message expects no response.
async fn read_response(
    response: NetResponse,
    message: &ClientJsonRpcMessage,
) -> Result<StreamableHttpPostResponse, Failure> {
    let session = response.headers.get(SESSION);
    let session = session.and_then(|value| value.to_str().ok()).map(str::to_owned);
    let wants_answer = matches!(message, ClientJsonRpcMessage::Request(_));
    match content_type(&response) {
        Some(kind) if kind.starts_with(EVENTS) => {
            Ok(StreamableHttpPostResponse::Sse(event_stream(response), session))
        }
        Some(kind) if kind.starts_with(JSON) => {
            let body = read_body(response, MESSAGE_BYTES_MAX).await?;
            match serde_json::from_slice(&body) {
                Ok(parsed) => Ok(StreamableHttpPostResponse::Json(parsed, session)),
                Err(_) if !wants_answer => Ok(StreamableHttpPostResponse::Accepted),
                Err(error) => Err(error.into()),
            }
        }
        _ if !wants_answer => Ok(StreamableHttpPostResponse::Accepted),
        kind => Err(StreamableHttpError::UnexpectedContentType(kind)),
    }
}

/// Returns the content type in lower case. `None` if the response has none.
fn content_type(response: &NetResponse) -> Option<String> {
    let kind = response.headers.get(CONTENT_TYPE)?;
    Some(String::from_utf8_lossy(kind.as_bytes()).to_ascii_lowercase())
}

/// Reads a body. Returns [`HttpError::TooLarge`] if it has more than `bytes_max` bytes.
async fn read_body(mut response: NetResponse, bytes_max: usize) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(client_error)? {
        if body.len() + chunk.len() > bytes_max {
            return Err(StreamableHttpError::Client(HttpError::TooLarge));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Returns the events of a response. The stream fails at an event that is too large.
fn event_stream(response: NetResponse) -> Events {
    let mut bound = EventSizeLimit { bytes: 0, at_line_start: true };
    let chunks = response.stream().map(move |chunk| {
        let chunk: Bytes = chunk.map_err(HttpError::from)?;
        bound.count(&chunk, MESSAGE_BYTES_MAX)?;
        Ok::<_, HttpError>(chunk)
    });
    SseStream::from_bytes_stream(chunks).boxed()
}

/// Limits the number of bytes since the last empty line, which ends an event.
struct EventSizeLimit {
    bytes: usize,
    at_line_start: bool,
}

impl EventSizeLimit {
    /// Counts the bytes of a chunk. Returns an error if an event has more than `bytes_max` bytes.
    fn count(&mut self, chunk: &[u8], bytes_max: usize) -> Result<(), HttpError> {
        for byte in chunk {
            self.bytes += 1;
            match byte {
                b'\n' => {
                    if self.at_line_start {
                        self.bytes = 0;
                    }
                    self.at_line_start = true;
                }
                b'\r' => {}
                _ => self.at_line_start = false,
            }
        }
        if self.bytes > bytes_max { Err(HttpError::TooLarge) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_event_is_counted_at_a_time() {
        let mut bound = EventSizeLimit { bytes: 0, at_line_start: true };
        for _ in 0..100 {
            assert!(bound.count(b"data: 12345\r\n\r\n", 16).is_ok());
        }
        assert!(bound.count(b"data: 12345", 16).is_ok());
        assert!(bound.count(b"67890123", 16).is_err());
    }

    #[test]
    fn a_broken_stream_is_not_taken_up_for_ever() {
        let waits: Vec<_> = (0..20).map_while(|times| ReconnectPolicy.retry(times)).collect();
        assert_eq!(waits.len(), RESUMES_MAX);
        assert!(waits.iter().all(|wait| *wait <= RESUME_MAX));
    }
}
