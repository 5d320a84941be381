//! The way to authorization servers: names that a server tells us are not trusted, so each address is checked when it is
//! dialled.

use std::time::{Duration, Instant};

use provost_net::{NetClient, NetPolicy, NetRequest, Url};
use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRedirectPolicy,
    OAuthHttpRequest,
};

/// Bytes of an answer; metadata and tokens are small.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Redirects of one request for metadata.
const REDIRECTS_MAX: u8 = 5;
/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Makes the requests of one server's authorization.
pub(super) struct Wire {
    client: NetClient,
}

impl Wire {
    /// Only a server on this machine may send us to this machine.
    pub(super) fn new(server: &str, allow_private: bool) -> Result<Self, String> {
        let url = Url::parse(server).map_err(|error| error.to_string())?;
        let host = url.host_str().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let address = bare.parse::<std::net::IpAddr>();
        let here = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
        let policy =
            NetPolicy { allow_loopback: here, allow_private, plain_http: url.scheme() == "http" };
        Ok(Self { client: NetClient::new(policy) })
    }
}

impl OAuthHttpClient for Wire {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let limit = request.timeout.unwrap_or(TIMEOUT).min(TIMEOUT);
            let redirects_max = match request.redirect_policy {
                OAuthHttpRedirectPolicy::Follow => REDIRECTS_MAX,
                _ => 0,
            };
            let (parts, body) = request.request.into_parts();
            let url = Url::parse(&parts.uri.to_string())?;
            let mut wanted = NetRequest::new(parts.method, url, Instant::now() + limit);
            wanted.headers = parts.headers;
            wanted.body = body.into();
            wanted.redirects_max = redirects_max;
            let answer = self.client.send(wanted).await?;
            let mut response = http::Response::builder().status(answer.status);
            if let Some(headers) = response.headers_mut() {
                headers.extend(answer.headers.clone());
            }
            let body = answer.bytes(BODY_BYTES_MAX).await?.to_vec();
            Ok::<_, OAuthHttpClientError>(response.body(body)?)
        })
    }
}
