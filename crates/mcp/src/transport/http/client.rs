//! HTTP client of one server. Addresses are checked when dialled, and redirects are not followed.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderName};
use http::{HeaderMap, HeaderValue, Method};
use provost_net::{NetClient, NetError, NetOptions, NetPolicy, NetRequest, NetResponse, Url};

/// Practically unlimited: callers enforce timeouts, and an event stream has no end.
const NO_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 3600);

/// HTTP client of one server.
#[derive(Clone)]
pub(super) struct HttpClient(NetClient);

impl HttpClient {
    pub(super) fn new(policy: NetPolicy, connect_timeout: Duration) -> Self {
        Self(NetClient::open(NetOptions { connect_timeout, ..NetOptions::new(policy) }))
    }

    pub(super) fn request(&self, method: Method, url: &str) -> RequestBuilder {
        let request = match Url::parse(url) {
            Ok(url) => Ok(NetRequest::new(method, url, Instant::now() + NO_TIMEOUT)),
            Err(error) => Err(NetError::Url { problem: error.to_string(), sent: false }),
        };
        RequestBuilder { client: self.0.clone(), request }
    }
}

/// A request builder. Invalid headers are reported when the request is sent.
pub(super) struct RequestBuilder {
    client: NetClient,
    request: Result<NetRequest, NetError>,
}

impl RequestBuilder {
    pub(super) fn header(self, name: HeaderName, value: &str) -> Self {
        self.value(name, HeaderValue::from_str(value))
    }

    pub(super) fn bearer_auth(self, token: &str) -> Self {
        let value = HeaderValue::from_str(&format!("Bearer {token}")).map(|mut value| {
            value.set_sensitive(true);
            value
        });
        self.value(AUTHORIZATION, value)
    }

    pub(super) fn headers(mut self, headers: HeaderMap) -> Self {
        if let Ok(request) = &mut self.request {
            request.headers.extend(headers);
        }
        self
    }

    pub(super) fn body(mut self, body: Bytes) -> Self {
        if let Ok(request) = &mut self.request {
            request.body = body;
        }
        self
    }

    pub(super) async fn send(self) -> Result<NetResponse, NetError> {
        self.client.send(self.request?).await
    }

    fn value(
        mut self,
        name: HeaderName,
        value: Result<HeaderValue, http::header::InvalidHeaderValue>,
    ) -> Self {
        match (&mut self.request, value) {
            (Ok(request), Ok(value)) => {
                request.headers.append(name, value);
            }
            (Ok(_), Err(error)) => {
                let problem = format!("header `{name}` cannot be sent: {error}");
                self.request = Err(NetError::Url { problem, sent: false });
            }
            (Err(_), _) => {}
        }
        self
    }
}
