//! HTTP requests.

use std::fmt;
use std::time::Instant;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue,
    PROXY_AUTHORIZATION, RANGE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, USER_AGENT,
};
use http::{Method, Uri};
use http_body_util::Full;
use url::Url;

use crate::error::{NetError, RefusalReason};

/// Headers that only the client sets. Otherwise, a caller could smuggle a second request or reach another virtual host.
const OWN_HEADERS: [HeaderName; 11] = [
    HOST,
    CONNECTION,
    CONTENT_LENGTH,
    TRANSFER_ENCODING,
    TE,
    TRAILER,
    UPGRADE,
    ACCEPT_ENCODING,
    PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("keep-alive"),
];

/// Encodings that the client can decode.
const ENCODINGS: HeaderValue = HeaderValue::from_static("gzip, deflate");
const AGENT: HeaderValue = HeaderValue::from_static(concat!("provost/", env!("CARGO_PKG_VERSION")));

/// An HTTP request with its deadline.
#[derive(Clone)]
pub struct NetRequest {
    /// Method. `CONNECT` and `TRACE` are refused.
    pub method: Method,
    /// URL. The fragment is not sent.
    pub url: Url,
    /// Headers. Connection headers (`Host`, `Content-Length`, `Accept-Encoding`, …) are set by the client and removed
    /// from this list.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
    /// Deadline for the connection, the response and its complete body.
    pub deadline: Instant,
    /// Maximum number of redirects. With 0, a redirect is returned as a response.
    pub redirects_max: u8,
}

impl NetRequest {
    /// Creates a request without headers and body, and without redirects.
    pub fn new(method: Method, url: Url, deadline: Instant) -> Self {
        let (headers, body) = (HeaderMap::new(), Bytes::new());
        Self { method, url, headers, body, deadline, redirects_max: 0 }
    }

    /// Creates a `GET` request.
    pub fn get(url: Url, deadline: Instant) -> Self {
        Self::new(Method::GET, url, deadline)
    }

    /// Creates a `POST` request.
    pub fn post(url: Url, body: impl Into<Bytes>, deadline: Instant) -> Self {
        Self { body: body.into(), ..Self::new(Method::POST, url, deadline) }
    }

    /// Appends a header. Existing values of the same name remain.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.append(name, value);
        self
    }

    /// Builds the HTTP request for one hop: removes [`OWN_HEADERS`] and adds defaults for `Accept`, `Accept-Encoding`
    /// and `User-Agent`. Refuses `CONNECT` and `TRACE`.
    pub(crate) fn to_http(&self) -> Result<http::Request<Full<Bytes>>, NetError> {
        if matches!(self.method, Method::CONNECT | Method::TRACE) {
            let host = self.url.host_str().unwrap_or_default();
            return Err(NetError::refused(host, None, RefusalReason::Method));
        }
        let mut request = http::Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = uri(&self.url)?;
        let mut headers = self.headers.clone();
        for name in &OWN_HEADERS {
            headers.remove(name);
        }
        // A range of an encoded body cannot be decoded.
        if !headers.contains_key(RANGE) {
            headers.insert(ACCEPT_ENCODING, ENCODINGS);
        }
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        headers.entry(USER_AGENT).or_insert(AGENT);
        *request.headers_mut() = headers;
        Ok(request)
    }
}

/// Omits the path, headers and body, because all of them may contain keys.
impl fmt::Debug for NetRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetRequest")
            .field("method", &self.method)
            .field("host", &self.url.host_str())
            .finish_non_exhaustive()
    }
}

/// Returns the URI for the connection pool: without a fragment, and without the trailing dot of a name, which would be
/// another name for the same host.
fn uri(url: &Url) -> Result<Uri, NetError> {
    let invalid =
        |error: &dyn std::fmt::Display| NetError::url(format!("it cannot be sent: {error}"));
    let text = url.as_str().split('#').next().unwrap_or_default();
    if !url.host_str().is_some_and(|host| host.ends_with('.')) {
        return Uri::try_from(text).map_err(|error| invalid(&error));
    }
    let mut url = url.clone();
    url.set_fragment(None);
    let trimmed = url.host_str().map(|host| host.trim_end_matches('.').to_owned());
    url.set_host(trimmed.as_deref()).map_err(|error| invalid(&error))?;
    Uri::try_from(url.as_str()).map_err(|error| invalid(&error))
}
