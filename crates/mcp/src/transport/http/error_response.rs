//! Answers that are none: who we should be, what we may not, when to come back.
//!
//! Invariant: a server that refuses us has done nothing, so nothing is in doubt.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use http::header::WWW_AUTHENTICATE;
use http::{HeaderMap, StatusCode};
use provost_net::NetResponse;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, InsufficientScopeError, StreamableHttpError, StreamableHttpPostResponse,
};

use super::{Failure, HttpError, JSON, body, content_type};
use crate::Error;
use crate::connection::redaction::Scrub;
use crate::limits::{ERROR_BODY_BYTES_MAX, RETRY_AFTER_MAX};

/// An answer that says who we should be.
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

/// What becomes of a status that is no success.
pub(super) async fn refusal(
    response: NetResponse,
    message: &ClientJsonRpcMessage,
    has_session: bool,
) -> Result<StreamableHttpPostResponse, Failure> {
    let status = response.status;
    let wait = retry_after(&response.headers);
    let is_json = content_type(&response).is_some_and(|kind| kind.starts_with(JSON));
    let body = body(response, ERROR_BODY_BYTES_MAX).await.unwrap_or_default();
    let text = || format!("HTTP {status}: {}", String::from_utf8_lossy(&body));
    let refused = match status {
        StatusCode::UNAUTHORIZED => Some(HttpError::Authorization(text())),
        StatusCode::FORBIDDEN => Some(HttpError::Forbidden(text())),
        StatusCode::TOO_MANY_REQUESTS => Some(HttpError::Busy { wait, said: text() }),
        _ => None,
    };
    if let Some(refused) = refused {
        return Err(StreamableHttpError::Client(refused));
    }
    let error = match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
        Ok(ServerJsonRpcMessage::Error(error)) => Some(error),
        _ => None,
    };
    // Older servers refuse the first question of newer clients in many ways. All of them mean: greet me the old way.
    if let ClientJsonRpcMessage::Request(request) = message
        && matches!(request.request, ClientRequest::DiscoverRequest(_))
        && status.is_client_error()
        && !has_session
    {
        let error = error.map(|error| error.error);
        let error = error.unwrap_or_else(|| ErrorData::invalid_request(text(), None));
        let answer = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
        return Ok(StreamableHttpPostResponse::Json(answer, None));
    }
    match error {
        Some(error) if is_json => {
            Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(error), None))
        }
        _ => Err(StreamableHttpError::UnexpectedServerResponse(Cow::Owned(text()))),
    }
}

/// Reads how long the server asks to wait, at most [`RETRY_AFTER_MAX`].
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    provost_net::headers::retry_after(headers, SystemTime::now())
        .map(|wait| wait.min(RETRY_AFTER_MAX))
}

/// The error of a server that refused us, if that is what the failure is.
pub(crate) fn denied(
    server: &str,
    scrub: &Scrub,
    failure: &(dyn std::error::Error + 'static),
) -> Option<Error> {
    let server = server.to_owned();
    let unauthorized = |server, said: &str| {
        let is_token_refused =
            said.split([',', ' ']).any(|part| part.trim() == "error=\"invalid_token\"");
        Error::Unauthorized { server, reason: scrub.brief(said), is_token_refused }
    };
    Some(match failure.downcast_ref::<Failure>()? {
        StreamableHttpError::AuthRequired(error) => {
            unauthorized(server, &error.www_authenticate_header)
        }
        StreamableHttpError::Client(HttpError::Authorization(said)) => unauthorized(server, said),
        StreamableHttpError::InsufficientScope(error) => {
            Error::Forbidden { server, reason: scrub.brief(error.www_authenticate_header.as_str()) }
        }
        StreamableHttpError::Client(HttpError::Forbidden(said)) => {
            Error::Forbidden { server, reason: scrub.brief(said.as_str()) }
        }
        StreamableHttpError::Client(HttpError::Busy { wait, said }) => {
            Error::Busy { server, wait: *wait, reason: scrub.brief(said.as_str()) }
        }
        _ => return None,
    })
}
