//! HTTP client for requests to the authorization server.

use std::time::{Duration, Instant};

use provost_net::{NetClient, NetPolicy, NetRequest, Url};
use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRedirectPolicy,
    OAuthHttpRequest,
};

/// Maximum size of a response. Metadata and tokens are small.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Maximum number of redirects of one metadata request.
const REDIRECTS_MAX: u8 = 5;
/// Timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(30);

/// HTTP client for the authorization of one server.
pub(super) struct AuthHttpClient {
    client: NetClient,
}

impl AuthHttpClient {
    /// Creates the client. It may use addresses on this machine only if the server is on this machine, and addresses in
    /// private networks only if `network` allows it.
    pub(super) fn new(server: &str, allow_private: bool) -> Result<Self, String> {
        let url = Url::parse(server).map_err(|error| error.to_string())?;
        let host = url.host_str().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let address = host.parse::<std::net::IpAddr>();
        let is_local = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
        let policy = NetPolicy {
            allow_loopback: is_local,
            allow_private,
            plain_http: url.scheme() == "http",
        };
        Ok(Self { client: NetClient::new(policy) })
    }
}

impl OAuthHttpClient for AuthHttpClient {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let limit = request.timeout.unwrap_or(TIMEOUT).min(TIMEOUT);
            let redirects_max = match request.redirect_policy {
                OAuthHttpRedirectPolicy::Follow => REDIRECTS_MAX,
                _ => 0,
            };
            let (parts, body) = request.request.into_parts();
            let url = Url::parse(&parts.uri.to_string())?;
            let mut net_request = NetRequest::new(parts.method, url, Instant::now() + limit);
            net_request.headers = parts.headers;
            net_request.body = body.into();
            net_request.redirects_max = redirects_max;
            let net_response = self.client.send(net_request).await?;
            let mut response = http::Response::builder().status(net_response.status);
            if let Some(headers) = response.headers_mut() {
                headers.extend(net_response.headers.clone());
            }
            let body = net_response.bytes(BODY_BYTES_MAX).await?.to_vec();
            Ok::<_, OAuthHttpClientError>(response.body(body)?)
        })
    }
}
