//! Error responses: authorization challenges, denied access and rate limits.
//!
//! Invariant: a server that rejects a request has not executed it, so its outcome is never unknown.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use http::header::WWW_AUTHENTICATE;
use http::{HeaderMap, StatusCode};
use provost_net::NetResponse;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, InsufficientScopeError, StreamableHttpError, StreamableHttpPostResponse,
};

use super::{Failure, HttpError, JSON, content_type, read_body};
use crate::Error;
use crate::connection::redaction::ServerRedaction;
use crate::limits::{ERROR_BODY_BYTES_MAX, RETRY_AFTER_MAX};

/// Checks a response for an authorization challenge or denied access.
pub(super) fn check_access(response: &NetResponse) -> Result<(), Failure> {
    let Some(challenge) = response.headers.get(WWW_AUTHENTICATE) else {
        return Ok(());
    };
    let challenge = String::from_utf8_lossy(challenge.as_bytes()).into_owned();
    match response.status {
        StatusCode::UNAUTHORIZED => {
            Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge)))
        }
        StatusCode::FORBIDDEN => Err(StreamableHttpError::InsufficientScope(
            InsufficientScopeError::new(challenge, None),
        )),
        _ => Ok(()),
    }
}

/// Converts a response with an error status to an error.
pub(super) async fn to_error(
    response: NetResponse,
    message: &ClientJsonRpcMessage,
    has_session: bool,
) -> Result<StreamableHttpPostResponse, Failure> {
    let status = response.status;
    let wait = retry_after(&response.headers);
    let is_json = content_type(&response).is_some_and(|kind| kind.starts_with(JSON));
    let body = read_body(response, ERROR_BODY_BYTES_MAX).await.unwrap_or_default();
    let text = || format!("HTTP {status}: {}", String::from_utf8_lossy(&body));
    let refused = match status {
        StatusCode::UNAUTHORIZED => Some(HttpError::Authorization(text())),
        StatusCode::FORBIDDEN => Some(HttpError::Forbidden(text())),
        StatusCode::TOO_MANY_REQUESTS => Some(HttpError::Busy { wait, message: text() }),
        _ => None,
    };
    if let Some(refused) = refused {
        return Err(StreamableHttpError::Client(refused));
    }
    let error = match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
        Ok(ServerJsonRpcMessage::Error(error)) => Some(error),
        _ => None,
    };
    // Older servers reject `server/discover` in many ways. All of them lead to `initialize`.
    if let ClientJsonRpcMessage::Request(request) = message
        && matches!(request.request, ClientRequest::DiscoverRequest(_))
        && status.is_client_error()
        && !has_session
    {
        let error = error.map(|error| error.error);
        let error = error.unwrap_or_else(|| ErrorData::invalid_request(text(), None));
        let response_message = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
        return Ok(StreamableHttpPostResponse::Json(response_message, None));
    }
    match error {
        Some(error) if is_json => {
            Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(error), None))
        }
        _ => Err(StreamableHttpError::UnexpectedServerResponse(Cow::Owned(text()))),
    }
}

/// Returns the time that the server asks to wait, at most [`RETRY_AFTER_MAX`]. `None` if the response has no such
/// header.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    provost_net::headers::retry_after(headers, SystemTime::now())
        .map(|wait| wait.min(RETRY_AFTER_MAX))
}

/// Returns the error of a server that rejected the request. `None` for other errors.
pub(crate) fn denied_error(
    server: &str,
    redaction: &ServerRedaction,
    failure: &(dyn std::error::Error + 'static),
) -> Option<Error> {
    let server = server.to_owned();
    let unauthorized = |server, message: &str| {
        let is_token_refused =
            message.split([',', ' ']).any(|part| part.trim() == "error=\"invalid_token\"");
        Error::Unauthorized { server, reason: redaction.excerpt(message), is_token_refused }
    };
    Some(match failure.downcast_ref::<Failure>()? {
        StreamableHttpError::AuthRequired(error) => {
            unauthorized(server, &error.www_authenticate_header)
        }
        StreamableHttpError::Client(HttpError::Authorization(message)) => {
            unauthorized(server, message)
        }
        StreamableHttpError::InsufficientScope(error) => Error::Forbidden {
            server,
            reason: redaction.excerpt(error.www_authenticate_header.as_str()),
        },
        StreamableHttpError::Client(HttpError::Forbidden(message)) => {
            Error::Forbidden { server, reason: redaction.excerpt(message.as_str()) }
        }
        StreamableHttpError::Client(HttpError::Busy { wait, message }) => {
            Error::Busy { server, wait: *wait, reason: redaction.excerpt(message.as_str()) }
        }
        _ => return None,
    })
}
