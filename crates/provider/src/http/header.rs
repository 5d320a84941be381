//! Headers of requests to vendors, and metadata from the headers of their responses.

use provost_core::Secret;
use provost_model::ModelEvent;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use serde_json::{Map, Value};

use super::ModelBuildError;

/// Headers that contain the vendor's id of a request.
const REQUEST_ID_HEADERS: [&str; 6] = [
    "x-request-id",
    "request-id",
    "x-amzn-requestid",
    "apim-request-id",
    "x-debug-trace-id",
    "cf-ray",
];
/// Prefixes of rate-limit headers.
const RATE_LIMIT_PREFIXES: [&str; 2] = ["x-ratelimit-", "anthropic-ratelimit-"];

/// Creates the headers of every request: the user agent and the custom headers, whose values are secrets. Returns an
/// error that names an invalid header.
pub(super) fn request_headers(
    custom: &[(String, Secret<String>)],
) -> Result<HeaderMap, ModelBuildError> {
    let mut headers = HeaderMap::with_capacity(8);
    let agent = concat!("provost/", env!("CARGO_PKG_VERSION"));
    headers.insert(USER_AGENT, HeaderValue::from_static(agent));
    for (name, value) in custom {
        let invalid = || ModelBuildError::Header(name.clone());
        let header = HeaderName::try_from(name).ok().ok_or_else(invalid)?;
        let value = secret_value(value.expose()).ok_or_else(invalid)?;
        headers.insert(header, value);
    }
    Ok(headers)
}

/// Creates a header value that debug output hides. `None` if the text contains characters that a header cannot hold.
pub(super) fn secret_value(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Returns the provider's id of the request. `None` if the response has no such header.
pub(super) fn request_id(headers: &HeaderMap) -> Option<String> {
    REQUEST_ID_HEADERS.iter().find_map(|name| headers.get(*name)?.to_str().ok()).map(str::to_owned)
}

/// Returns the request id and the rate limits of a successful response as metadata events.
pub(super) fn metadata_events(headers: &HeaderMap, request_id: Option<&str>) -> Vec<ModelEvent> {
    let mut events = Vec::new();
    if let Some(id) = request_id {
        events.push(ModelEvent::Metadata("request_id".to_owned(), id.into()));
    }
    let mut limits = Map::new();
    for (name, value) in headers {
        let name = name.as_str();
        let is_limit = RATE_LIMIT_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        if let Some(value) = value.to_str().ok().filter(|_| is_limit) {
            limits.insert(name.to_owned(), Value::String(value.to_owned()));
        }
    }
    if !limits.is_empty() {
        events.push(ModelEvent::Metadata("rate_limits".to_owned(), Value::Object(limits)));
    }
    events
}

#[cfg(test)]
mod tests;
