//! The headers of requests to vendors, and what the headers of their responses say.

use provost_core::Secret;
use provost_model::ModelEvent;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use serde_json::{Map, Value};

use super::BuildError;

/// Where vendors put the id of a request.
const REQUEST_ID_HEADERS: [&str; 6] = [
    "x-request-id",
    "request-id",
    "x-amzn-requestid",
    "apim-request-id",
    "x-debug-trace-id",
    "cf-ray",
];
/// How the names of rate-limit headers begin.
const RATE_LIMIT_PREFIXES: [&str; 2] = ["x-ratelimit-", "anthropic-ratelimit-"];

/// Builds the headers that every request carries: our name and the caller's own headers, whose values are secrets.
pub(super) fn request_headers(own: &[(String, Secret<String>)]) -> Result<HeaderMap, BuildError> {
    let mut headers = HeaderMap::with_capacity(8);
    let agent = concat!("provost/", env!("CARGO_PKG_VERSION"));
    headers.insert(USER_AGENT, HeaderValue::from_static(agent));
    for (name, value) in own {
        let refused = || BuildError::Header(name.clone());
        let header = HeaderName::try_from(name).ok().ok_or_else(refused)?;
        let value = secret_value(value.expose()).ok_or_else(refused)?;
        headers.insert(header, value);
    }
    Ok(headers)
}

/// A header value that is never printed.
pub(super) fn secret_value(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The provider's id of the request.
pub(super) fn request_id(headers: &HeaderMap) -> Option<String> {
    REQUEST_ID_HEADERS.iter().find_map(|name| headers.get(*name)?.to_str().ok()).map(str::to_owned)
}

/// The id and the rate limits of a successful response as metadata events.
pub(super) fn metadata(headers: &HeaderMap, request_id: Option<&str>) -> Vec<ModelEvent> {
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
