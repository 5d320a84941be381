//! Rules for redirects. Pure; the new URL is checked like any other.

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_LANGUAGE, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, HeaderMap,
    HeaderName, IF_MODIFIED_SINCE, IF_NONE_MATCH, LOCATION, RANGE, USER_AGENT,
};
use http::{Method, StatusCode};
use url::Url;

use crate::error::{NetError, RefusalReason};
use crate::limits::URL_BYTES_MAX;
use crate::request::NetRequest;

/// Headers that are sent to another host: only headers that cannot contain credentials.
const SAFE_HEADERS: [HeaderName; 9] = [
    ACCEPT,
    ACCEPT_LANGUAGE,
    CONTENT_TYPE,
    CONTENT_ENCODING,
    CONTENT_LANGUAGE,
    IF_MODIFIED_SINCE,
    IF_NONE_MATCH,
    RANGE,
    USER_AGENT,
];

/// Returns the request that follows a redirect. `None` if the response is not a redirect. 303, and 301 or 302 after
/// `POST`, turn it into a `GET` without a body. Fails for a change from `https` to `http`, and if a body would go to
/// another origin. A request to another origin keeps only [`SAFE_HEADERS`].
pub(crate) fn next(
    request_before: &NetRequest,
    status: StatusCode,
    response_headers: &HeaderMap,
) -> Result<Option<NetRequest>, NetError> {
    let keeps_method = match status {
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
        // All clients change POST to GET here, contrary to the original standard.
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => request_before.method != Method::POST,
        StatusCode::SEE_OTHER => matches!(request_before.method, Method::GET | Method::HEAD),
        _ => return Ok(None),
    };
    let Some(location) = response_headers.get(LOCATION) else {
        return Ok(None);
    };
    let mut request = request_before.clone();
    request.url = target(&request_before.url, location.as_bytes())?;
    let host = request.url.host_str().unwrap_or_default();
    if request_before.url.scheme() == "https" && request.url.scheme() == "http" {
        return Err(NetError::refused(host, None, RefusalReason::Downgrade));
    }
    let is_cross_origin = request_before.url.origin() != request.url.origin();
    if is_cross_origin && keeps_method && !request_before.body.is_empty() {
        return Err(NetError::refused(host, None, RefusalReason::BodyElsewhere));
    }
    if !keeps_method {
        request.method = Method::GET;
        request.body = Bytes::new();
        for name in [CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LANGUAGE] {
            request.headers.remove(name);
        }
    }
    if is_cross_origin {
        let safe = request_before.headers.iter().filter(|(name, _)| SAFE_HEADERS.contains(name));
        let safe = safe
            .filter(|(name, value)| !value.is_sensitive() && request.headers.contains_key(*name));
        request.headers = safe.map(|(name, value)| (name.clone(), value.clone())).collect();
    }
    Ok(Some(request))
}

/// Resolves a `Location` relative to the URL of the request. Keeps the fragment of that URL if the location has none.
fn target(from: &Url, location: &[u8]) -> Result<Url, NetError> {
    let invalid = |problem: String| NetError::Redirects {
        host: from.host_str().unwrap_or_default().to_owned(),
        problem,
    };
    if location.len() > URL_BYTES_MAX {
        return Err(invalid("the target is too long".to_owned()));
    }
    let location = std::str::from_utf8(location).map_err(|error| invalid(error.to_string()))?;
    let mut url =
        from.join(location).map_err(|error| invalid(format!("invalid target: {error}")))?;
    if url.fragment().is_none() {
        url.set_fragment(from.fragment());
    }
    Ok(url)
}

#[cfg(test)]
mod tests;
