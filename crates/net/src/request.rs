//! What is asked for.

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

use crate::error::{NetError, Why};

/// Headers that are the client's own. Whoever could set them could smuggle a second request or reach another host's pages.
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

/// What can be unpacked here.
const ENCODINGS: HeaderValue = HeaderValue::from_static("gzip, deflate");
const AGENT: HeaderValue = HeaderValue::from_static(concat!("provost/", env!("CARGO_PKG_VERSION")));

/// A request.
#[derive(Clone)]
pub struct NetRequest {
    /// The method. `CONNECT` and `TRACE` are refused.
    pub method: Method,
    /// Where to. A fragment stays here.
    pub url: Url,
    /// Headers. Those that belong to the connection (`Host`, `Content-Length`, `Accept-Encoding`, …) are the client's own
    /// and are left out.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// When all must be over: connection, answer and the last byte of its body.
    pub deadline: Instant,
    /// Redirects that are followed. With 0 a redirect is an answer like any other.
    pub redirects_max: u8,
}

impl NetRequest {
    /// A request without headers and body that follows no redirects.
    pub fn new(method: Method, url: Url, deadline: Instant) -> Self {
        let (headers, body) = (HeaderMap::new(), Bytes::new());
        Self { method, url, headers, body, deadline, redirects_max: 0 }
    }

    /// A `GET`.
    pub fn get(url: Url, deadline: Instant) -> Self {
        Self::new(Method::GET, url, deadline)
    }

    /// A `POST` of a body.
    pub fn post(url: Url, body: impl Into<Bytes>, deadline: Instant) -> Self {
        Self { body: body.into(), ..Self::new(Method::POST, url, deadline) }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.append(name, value);
        self
    }

    /// As it goes out once.
    pub(crate) fn to_http(&self) -> Result<http::Request<Full<Bytes>>, NetError> {
        if matches!(self.method, Method::CONNECT | Method::TRACE) {
            let host = self.url.host_str().unwrap_or_default();
            return Err(NetError::refused(host, None, Why::Method));
        }
        let mut request = http::Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = uri(&self.url)?;
        let mut headers = self.headers.clone();
        for name in &OWN_HEADERS {
            headers.remove(name);
        }
        // A part of what is packed cannot be unpacked.
        if !headers.contains_key(RANGE) {
            headers.insert(ACCEPT_ENCODING, ENCODINGS);
        }
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        headers.entry(USER_AGENT).or_insert(AGENT);
        *request.headers_mut() = headers;
        Ok(request)
    }
}

/// Without the rest of the address, headers and body: keys are in all of them.
impl fmt::Debug for NetRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetRequest")
            .field("method", &self.method)
            .field("host", &self.url.host_str())
            .finish_non_exhaustive()
    }
}

/// The address as it is dialled and pooled: without a fragment, and without the dot at the end of a name, which would lead
/// to the same host under another name.
fn uri(url: &Url) -> Result<Uri, NetError> {
    let bad = |error: &dyn std::fmt::Display| NetError::url(format!("it cannot be sent: {error}"));
    let text = url.as_str().split('#').next().unwrap_or_default();
    if !url.host_str().is_some_and(|host| host.ends_with('.')) {
        return Uri::try_from(text).map_err(|error| bad(&error));
    }
    let mut url = url.clone();
    url.set_fragment(None);
    let bare = url.host_str().map(|host| host.trim_end_matches('.').to_owned());
    url.set_host(bare.as_deref()).map_err(|error| bad(&error))?;
    Uri::try_from(url.as_str()).map_err(|error| bad(&error))
}
