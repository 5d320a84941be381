//! One try: the request out, the head of the answer in.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use provost_core::limits::ERROR_BODY_BYTES_MAX;
use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Method, Request};
use tokio::time::{Instant, timeout_at};

use super::answer::{Answer, Answering, Body, Broken};
use super::{Endpoint, Transport, header};
use crate::wire::Unsigned;
use crate::{ModelError, ModelErrorClass};

/// How long the body of an error answer may take.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Header values below this are switches rather than secrets, and hiding every `1` would make an error unreadable.
const SECRET_BYTES_MIN: usize = 6;

/// Sends the request.
pub(crate) fn send(endpoint: &Endpoint, body: Bytes) -> Answering {
    let mut headers = endpoint.headers.clone();
    let key = endpoint.key.as_ref().map(|key| key.expose().as_str());
    let now = endpoint.env.now();
    let mut unsigned = Unsigned { url: &endpoint.url, body: &body, headers: &mut headers, now };
    if let Err(error) = endpoint.wire.sign(key, &mut unsigned) {
        return Box::pin(async { Err(Broken::Unsigned(error)) });
    }
    match &endpoint.transport {
        Transport::Plain(plain) => Box::pin(plain.clone().ask(headers, body)),
        Transport::Client(client) => {
            let mut request = Request::new(Method::POST, endpoint.url.clone());
            *request.headers_mut() = headers;
            *request.body_mut() = Some(reqwest::Body::from(body));
            let sending = client.execute(request);
            Box::pin(async { sending.await.map(Answer::from).map_err(Broken::Client) })
        }
    }
}

/// True for an answer that is none: [`refusal`] says why.
pub(super) fn is_refusal(answer: &Answer) -> bool {
    !answer.status.is_success() || is_page(&answer.headers)
}

/// True for an answer that cannot be a stream: a web page, or JSON from a server that does not stream.
fn is_page(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| {
        let kind = kind.to_ascii_lowercase();
        kind.starts_with("application/json") || kind.starts_with("text/html")
    })
}

/// Reads why the provider said no.
pub(crate) async fn refusal(
    endpoint: Arc<Endpoint>,
    answer: Answer,
    deadline: Option<Instant>,
) -> ModelError {
    let Answer { status, headers, body } = answer;
    let mut error = if status.is_redirection() {
        let target = headers.get(LOCATION).and_then(|target| target.to_str().ok());
        let target = target.unwrap_or("another address");
        let problem =
            format!("the server redirects to {target}: set the base URL to the final address");
        ModelError::new(ModelErrorClass::InvalidRequest, problem)
    } else {
        let body = read_bounded(body, deadline).await;
        match status.is_success() && !looks_like_error(&body) {
            true => ModelError::new(
                ModelErrorClass::Malformed,
                "the server did not answer with a stream: check that the base URL is the one of the API",
            ),
            false => {
                endpoint.wire.failure(Some(status.as_u16()).filter(|_| !status.is_success()), &body)
            }
        }
    };
    error.status = error.status.or(Some(status.as_u16()));
    error.retry_after = header::retry_after(&headers, endpoint.env.now());
    error.request_id = header::request_id(&headers);
    error
}

fn looks_like_error(body: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(body)
        .is_ok_and(|body| body.get("error").is_some_and(|error| !error.is_null()))
}

/// The beginning of a body; whatever goes wrong, what was read until then is enough.
async fn read_bounded(mut body: Body, deadline: Option<Instant>) -> Vec<u8> {
    let until = Instant::now() + ERROR_BODY_TIMEOUT;
    let until = deadline.map_or(until, |deadline| deadline.min(until));
    let mut read = Vec::new();
    while read.len() < ERROR_BODY_BYTES_MAX {
        match timeout_at(until, poll_fn(|cx| body.poll_bytes(cx))).await {
            Ok(Some(Ok(bytes))) => {
                let room = ERROR_BODY_BYTES_MAX - read.len();
                read.extend_from_slice(&bytes[..bytes.len().min(room)]);
            }
            _ => break,
        }
    }
    read
}

/// The error without the key and without the values of secret headers: a vendor may repeat them in its complaint.
pub(crate) fn without_secrets(endpoint: &Endpoint, mut error: ModelError) -> ModelError {
    let key = endpoint.key.as_ref().map(|key| key.expose().as_str());
    let headers = endpoint.headers.values().filter(|value| value.is_sensitive());
    let headers = headers.filter_map(|value| std::str::from_utf8(value.as_bytes()).ok());
    for secret in key.into_iter().chain(headers.flat_map(secrets_of_header)) {
        if !secret.is_empty() && error.message.contains(secret) {
            error.message = error.message.replace(secret, "***");
        }
    }
    error
}

/// The value of a header, and what stands behind a scheme such as `Bearer` in it.
fn secrets_of_header(value: &str) -> impl Iterator<Item = &str> {
    let credentials = value.split_once(' ').map(|(_, credentials)| credentials.trim());
    let secrets = std::iter::once(value).chain(credentials);
    secrets.filter(|secret| secret.len() >= SECRET_BYTES_MIN)
}

/// A connection that could not be made or that broke.
pub(crate) fn transport_error(endpoint: &Endpoint, error: Broken) -> ModelError {
    let host = endpoint.url.host_str().unwrap_or("the server");
    let port = endpoint.url.port_or_known_default().unwrap_or(0);
    let error = match error.without_url() {
        Broken::Unsigned(error) => return error,
        error => error,
    };
    let mut cause: &dyn std::error::Error = &error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let (class, message) = match (error.is_timeout(), error.is_connect()) {
        (true, _) => (
            ModelErrorClass::Timeout,
            format!("no connection to {host}:{port} in time: check the address and the network"),
        ),
        (false, true) => (
            ModelErrorClass::Transport,
            format!(
                "cannot connect to {host}:{port} ({cause}): check that the server runs and that the base URL is right"
            ),
        ),
        (false, false) => {
            (ModelErrorClass::Transport, format!("the connection to {host}:{port} broke ({cause})"))
        }
    };
    ModelError::new(class, message).caused_by(error)
}

/// The provider took too long to begin.
pub(crate) fn first_byte_error(endpoint: &Endpoint) -> ModelError {
    let waited = endpoint.timeouts.first_byte;
    ModelError::new(
        ModelErrorClass::Timeout,
        format!(
            "the provider did not answer for {waited:?}: raise the first-byte timeout if it needs longer"
        ),
    )
}

/// The caller's own deadline passed.
pub(crate) fn deadline_error() -> ModelError {
    ModelError::new(ModelErrorClass::Timeout, "the deadline of the model call passed")
}
