//! The HTTP client of one server: what it may reach is checked when it dials, and it follows no redirects.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderName};
use http::{HeaderMap, HeaderValue, Method};
use provost_net::{NetClient, NetError, NetOptions, NetPolicy, NetRequest, NetResponse, Url};

/// As good as never: who calls keeps the time, and a stream of events has no end.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// Begins requests.
#[derive(Clone)]
pub(super) struct Client(NetClient);

impl Client {
    pub(super) fn new(policy: NetPolicy, connect_timeout: Duration) -> Self {
        Self(NetClient::open(NetOptions { connect_timeout, ..NetOptions::new(policy) }))
    }

    pub(super) fn request(&self, method: Method, url: &str) -> Request {
        let request = match Url::parse(url) {
            Ok(url) => Ok(NetRequest::new(method, url, Instant::now() + FOREVER)),
            Err(error) => Err(NetError::Url { problem: error.to_string(), sent: false }),
        };
        Request { client: self.0.clone(), request }
    }
}

/// A request in the making. What cannot be put into it is told when it is sent.
pub(super) struct Request {
    client: NetClient,
    request: Result<NetRequest, NetError>,
}

impl Request {
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
                let problem = format!("the header `{name}` cannot be sent: {error}");
                self.request = Err(NetError::Url { problem, sent: false });
            }
            (Err(_), _) => {}
        }
        self
    }
}
