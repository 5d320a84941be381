//! What the headers of an answer tell.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use provost_core::Timestamp;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde_json::{Map, Value};

use crate::ModelEvent;

/// Where vendors put the id of a request.
const REQUEST_ID_HEADERS: [&str; 5] =
    ["x-request-id", "request-id", "x-amzn-requestid", "apim-request-id", "cf-ray"];
/// How the names of rate-limit headers begin.
const RATE_LIMIT_PREFIXES: [&str; 2] = ["x-ratelimit-", "anthropic-ratelimit-"];

/// The provider's id of the request.
pub(super) fn request_id(headers: &HeaderMap) -> Option<String> {
    REQUEST_ID_HEADERS.iter().find_map(|name| headers.get(*name)?.to_str().ok()).map(str::to_owned)
}

/// How long the provider asks to wait.
pub(super) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(millis) = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(millis / 1000.0).ok();
    }
    let text = text(RETRY_AFTER.as_str())?;
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let at = httpdate::parse_http_date(text).ok()?;
    Some(at.duration_since(system_time(now)).unwrap_or(Duration::ZERO))
}

fn system_time(now: Timestamp) -> SystemTime {
    UNIX_EPOCH + now.since(Timestamp::from_millis(0))
}

/// The id and the rate limits of a successful answer as metadata events.
pub(super) fn metadata(headers: &HeaderMap, request_id: Option<&str>, out: &mut Vec<ModelEvent>) {
    if let Some(id) = request_id {
        out.push(ModelEvent::Metadata("request_id".to_owned(), id.into()));
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
        out.push(ModelEvent::Metadata("rate_limits".to_owned(), Value::Object(limits)));
    }
}

#[cfg(test)]
mod tests;
