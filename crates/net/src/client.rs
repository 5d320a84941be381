//! HTTP requests under one policy. Every connection is checked under this policy.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::capture_connection;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use tokio::time::{Instant, timeout_at};

use crate::connect::Connector;
use crate::error::{NetError, too_many};
use crate::limits::{
    CONNECT_TIMEOUT, HEAD_BYTES_MAX, IDLE_PER_HOST_MAX, IDLE_TIMEOUT, PING_INTERVAL, PING_TIMEOUT,
    REDIRECTS_MAX,
};
use crate::policy::NetPolicy;
use crate::redirect;
use crate::request::NetRequest;
use crate::resolver::{Resolver, SystemResolver};
use crate::response::NetResponse;

/// Options of a client.
#[derive(Clone)]
pub struct NetOptions {
    /// Policy of the client.
    pub policy: NetPolicy,
    /// DNS resolver.
    pub resolver: Arc<dyn Resolver>,
    /// TLS configuration. `None`: the configuration of the process, [`tls_config`](crate::tls_config).
    pub tls: Option<Arc<ClientConfig>>,
    /// Time limit of a connection until it can carry a request, including TLS.
    pub connect_timeout: Duration,
}

impl NetOptions {
    /// Returns options with the policy, the resolver of the system, the TLS configuration of the process and the
    /// default connect timeout.
    pub fn new(policy: NetPolicy) -> Self {
        let resolver = Arc::new(SystemResolver);
        Self { policy, resolver, tls: None, connect_timeout: CONNECT_TIMEOUT }
    }
}

/// Sends requests under one policy. Clones share their connections. Separate clients share none, so that no request
/// uses a connection that was checked under another policy.
#[derive(Clone)]
pub struct NetClient {
    client: Client<Connector, Full<Bytes>>,
    policy: NetPolicy,
    connector: Connector,
}

impl NetClient {
    /// Creates a client with the resolver of the system.
    pub fn new(policy: NetPolicy) -> Self {
        Self::open(NetOptions::new(policy))
    }

    /// Creates a client that resolves names with `resolver` instead of the system.
    pub fn with_resolver(policy: NetPolicy, resolver: Arc<dyn Resolver>) -> Self {
        Self::open(NetOptions { resolver, ..NetOptions::new(policy) })
    }

    /// Creates a client from its options. Opens no connection yet.
    pub fn open(options: NetOptions) -> Self {
        let policy = options.policy;
        let connector = Connector::new(options);
        let client = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_PER_HOST_MAX)
            .http1_max_buf_size(HEAD_BYTES_MAX)
            .http2_max_header_list_size(HEAD_BYTES_MAX as u32)
            .http2_keep_alive_interval(PING_INTERVAL)
            .http2_keep_alive_timeout(PING_TIMEOUT)
            .build(connector.clone());
        Self { client, policy, connector }
    }

    /// Returns the policy that every request of the client must satisfy.
    pub fn policy(&self) -> NetPolicy {
        self.policy
    }

    /// Returns the number of connections, including idle ones and those that are being opened.
    pub fn connections(&self) -> usize {
        self.connector.connections()
    }

    /// Sends a request, follows its redirects and waits for the head of the last response, whatever its status. Every
    /// address of the redirects is checked. More than [`NetRequest::redirects_max`] redirects are an error; with 0, a
    /// redirect is returned as the response.
    ///
    /// Dropping the future cancels the request: its connection is closed, or its stream is reset if other requests
    /// share the connection.
    pub async fn send(&self, mut request: NetRequest) -> Result<NetResponse, NetError> {
        let allowed = request.redirects_max.min(REDIRECTS_MAX);
        let mut followed = 0;
        loop {
            let response = match self.send_once(&request).await {
                Err(error) if followed > 0 => return Err(error.after_redirect()),
                response => response?,
            };
            if allowed == 0 {
                return Ok(response);
            }
            let next = redirect::next(&request, response.status, &response.headers);
            match next.map_err(NetError::after_redirect)? {
                None => return Ok(response),
                Some(_) if followed == allowed => {
                    return Err(too_many(response.host(), allowed));
                }
                Some(next) => request = next,
            }
            followed += 1;
        }
    }

    /// Checks and sends one request without following redirects, and waits for the head of the response. Fails with
    /// [`NetError::Timeout`] at the deadline.
    async fn send_once(&self, request: &NetRequest) -> Result<NetResponse, NetError> {
        self.policy.check_url(&request.url)?;
        let mut http_request = request.to_http()?;
        let deadline = Instant::from_std(request.deadline);
        if Instant::now() >= deadline {
            return Err(NetError::Timeout { sent: false });
        }
        // Reports the connection of the request. Once there is one, the request may have been sent.
        let captured = capture_connection(&mut http_request);
        let sent = || captured.connection_metadata().is_some();
        let host = request.url.host_str().unwrap_or_default();
        match timeout_at(deadline, self.client.request(http_request)).await {
            Ok(Ok(response)) => NetResponse::new(response, request.url.clone(), deadline),
            Ok(Err(error)) => match error.is_connect() {
                true => Err(NetError::from_connect(host, error)),
                false => Err(NetError::from_transport(host, error)),
            },
            Err(_) => Err(NetError::Timeout { sent: sent() }),
        }
    }
}

impl fmt::Debug for NetClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetClient")
            .field("policy", &self.policy)
            .field("connections", &self.connections())
            .finish_non_exhaustive()
    }
}
