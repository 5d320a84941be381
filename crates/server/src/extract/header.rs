//! Request headers.

use axum::extract::FromRequestParts;
use http::HeaderMap;
use http::request::Parts;

use super::DescribeArgument;
use crate::app::App;
use crate::error::{self, ApiError};
use crate::router::Endpoint;

/// Returns a header as text. `None` if it is absent. Returns an error for a repeated header, because a proxy and this
/// server could read different values.
fn single_header<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, ApiError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(error::invalid(name, "send this header once").into());
    }
    let text = value.to_str().map_err(|_error| error::invalid(name, "it must be visible ASCII"))?;
    Ok(Some(text))
}

/// The header `Idempotency-Key`. A repeated request with the same key has no further effect.
pub(crate) struct IdempotencyKey(Option<String>);

impl IdempotencyKey {
    /// Returns the key of the header or of the body. Returns an error if they differ.
    pub(crate) fn or_in_body(self, body: Option<String>) -> Result<Option<String>, ApiError> {
        match (&self.0, &body) {
            (Some(header), Some(body)) if header != body => {
                let problem = "it differs from the header `Idempotency-Key`";
                Err(error::invalid("idempotency_key", problem).into())
            }
            _ => Ok(self.0.or(body)),
        }
    }
}

impl FromRequestParts<App> for IdempotencyKey {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        Ok(Self(single_header(&parts.headers, "idempotency-key")?.map(str::to_owned)))
    }
}

impl DescribeArgument for IdempotencyKey {
    fn describe(endpoint: &mut Endpoint) {
        endpoint.is_idempotent = true;
    }
}

/// Revision in the header `If-Match`. `None` if the header is absent or `*`.
pub(crate) struct IfMatch(pub(crate) Option<u64>);

impl FromRequestParts<App> for IfMatch {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        let text =
            single_header(&parts.headers, "if-match")?.map(str::trim).filter(|text| *text != "*");
        let Some(text) = text else {
            return Ok(Self(None));
        };
        let tag = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let revision = tag.and_then(|tag| tag.parse().ok());
        let malformed = || error::invalid("if-match", "send the ETag of the agent with its quotes");
        Ok(Self(Some(revision.ok_or_else(malformed)?)))
    }
}

impl DescribeArgument for IfMatch {
    fn describe(endpoint: &mut Endpoint) {
        endpoint.reads_if_match = true;
    }
}

/// Cursor in the header `Last-Event-ID`, which an `EventSource` sends when it reconnects.
pub(crate) struct LastEventId(pub(crate) Option<String>);

impl FromRequestParts<App> for LastEventId {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        let id = single_header(&parts.headers, "last-event-id")?.filter(|id| !id.is_empty());
        Ok(Self(id.map(str::to_owned)))
    }
}

impl DescribeArgument for LastEventId {
    fn describe(endpoint: &mut Endpoint) {
        endpoint.reads_last_event_id = true;
    }
}

/// Token in the header `X-Tool-Callback-Token`. Empty if the header is absent.
pub(crate) struct CallbackToken(pub(crate) String);

impl FromRequestParts<App> for CallbackToken {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, ApiError> {
        let token = single_header(&parts.headers, "x-tool-callback-token")?;
        Ok(Self(token.unwrap_or_default().to_owned()))
    }
}

impl DescribeArgument for CallbackToken {
    fn describe(_: &mut Endpoint) {}
}
