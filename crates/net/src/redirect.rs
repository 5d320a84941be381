//! Where a redirect leads, and what may go there. Pure; the address itself is checked as any other.

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_LANGUAGE, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, HeaderMap,
    HeaderName, IF_MODIFIED_SINCE, IF_NONE_MATCH, LOCATION, RANGE, USER_AGENT,
};
use http::{Method, StatusCode};
use url::Url;

use crate::error::{NetError, Why};
use crate::limits::URL_BYTES_MAX;
use crate::request::NetRequest;

/// What goes to another host: only what is known to prove nothing. A key can be in any other header.
const HARMLESS: [HeaderName; 9] = [
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

/// The request after a redirect, or `None` if the answer is none.
pub(crate) fn next(
    asked: &NetRequest,
    status: StatusCode,
    answered: &HeaderMap,
) -> Result<Option<NetRequest>, NetError> {
    let keeps_method = match status {
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
        // What every client does, whatever the standard said first.
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => asked.method != Method::POST,
        StatusCode::SEE_OTHER => matches!(asked.method, Method::GET | Method::HEAD),
        _ => return Ok(None),
    };
    let Some(location) = answered.get(LOCATION) else {
        return Ok(None);
    };
    let mut request = asked.clone();
    request.url = target(&asked.url, location.as_bytes())?;
    let host = request.url.host_str().unwrap_or_default();
    if asked.url.scheme() == "https" && request.url.scheme() == "http" {
        return Err(NetError::refused(host, None, Why::Downgrade));
    }
    let elsewhere = asked.url.origin() != request.url.origin();
    if elsewhere && keeps_method && !asked.body.is_empty() {
        return Err(NetError::refused(host, None, Why::BodyElsewhere));
    }
    if !keeps_method {
        request.method = Method::GET;
        request.body = Bytes::new();
        for name in [CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LANGUAGE] {
            request.headers.remove(name);
        }
    }
    if elsewhere {
        let kept = asked.headers.iter().filter(|(name, _)| HARMLESS.contains(name));
        let kept = kept
            .filter(|(name, value)| !value.is_sensitive() && request.headers.contains_key(*name));
        request.headers = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    }
    Ok(Some(request))
}

fn target(from: &Url, location: &[u8]) -> Result<Url, NetError> {
    let bad = |problem: String| NetError::Redirects {
        host: from.host_str().unwrap_or_default().to_owned(),
        problem,
    };
    if location.len() > URL_BYTES_MAX {
        return Err(bad("its address is too long".to_owned()));
    }
    let location = std::str::from_utf8(location).map_err(|error| bad(error.to_string()))?;
    let mut url = from.join(location).map_err(|error| bad(format!("to no address: {error}")))?;
    if url.fragment().is_none() {
        url.set_fragment(from.fragment());
    }
    Ok(url)
}

#[cfg(test)]
mod tests;
