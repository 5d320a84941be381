//! Requests under one policy, over connections that were all checked under it.

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
use crate::lookup::{Lookup, SystemLookup};
use crate::policy::NetPolicy;
use crate::redirect;
use crate::request::NetRequest;
use crate::response::NetResponse;

/// How a client is made.
#[derive(Clone)]
pub struct NetOptions {
    /// What it may reach.
    pub policy: NetPolicy,
    /// Who knows names.
    pub lookup: Arc<dyn Lookup>,
    /// Whom it trusts; `None` is the set-up of the process, [`tls_config`](crate::tls_config).
    pub tls: Option<Arc<ClientConfig>>,
    /// How long a connection may take until it can carry a request, TLS included.
    pub connect_timeout: Duration,
}

impl NetOptions {
    /// The usual way, under a policy.
    pub fn new(policy: NetPolicy) -> Self {
        let lookup = Arc::new(SystemLookup);
        Self { policy, lookup, tls: None, connect_timeout: CONNECT_TIMEOUT }
    }
}

/// Makes requests under one policy. Cheap to clone: clones share their connections. Two clients share none, so that no
/// request goes over a connection that was checked under another policy.
#[derive(Clone)]
pub struct NetClient {
    client: Client<Connector, Full<Bytes>>,
    policy: NetPolicy,
    connector: Connector,
}

impl NetClient {
    /// A client that looks names up as the system does.
    pub fn new(policy: NetPolicy) -> Self {
        Self::open(NetOptions::new(policy))
    }

    /// A client with names of one's own.
    pub fn with_lookup(policy: NetPolicy, lookup: Arc<dyn Lookup>) -> Self {
        Self::open(NetOptions { lookup, ..NetOptions::new(policy) })
    }

    /// A client with all options.
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

    /// What it may reach.
    pub fn policy(&self) -> NetPolicy {
        self.policy
    }

    /// How many connections it holds, idle ones and those that are being made included.
    pub fn connections(&self) -> usize {
        self.connector.connections()
    }

    /// Makes a request and waits for the head of its answer, whatever status it has. Each address on the way is checked.
    ///
    /// Dropping the future gives the request up: its connection is closed, or reset if others share it.
    pub async fn send(&self, mut request: NetRequest) -> Result<NetResponse, NetError> {
        let allowed = request.redirects_max.min(REDIRECTS_MAX);
        let mut followed = 0;
        loop {
            let answer = match self.once(&request).await {
                Err(error) if followed > 0 => return Err(error.after_redirect()),
                answer => answer?,
            };
            if allowed == 0 {
                return Ok(answer);
            }
            let next = redirect::next(&request, answer.status, &answer.headers);
            match next.map_err(NetError::after_redirect)? {
                None => return Ok(answer),
                Some(_) if followed == allowed => {
                    return Err(too_many(answer.host(), allowed));
                }
                Some(next) => request = next,
            }
            followed += 1;
        }
    }

    async fn once(&self, request: &NetRequest) -> Result<NetResponse, NetError> {
        self.policy.check_url(&request.url)?;
        let mut sending = request.to_http()?;
        let deadline = Instant::from_std(request.deadline);
        if Instant::now() >= deadline {
            return Err(NetError::Timeout { sent: false });
        }
        // It is told which connection the request got: from then on it may have been sent.
        let captured = capture_connection(&mut sending);
        let sent = || captured.connection_metadata().is_some();
        let host = request.url.host_str().unwrap_or_default();
        match timeout_at(deadline, self.client.request(sending)).await {
            Ok(Ok(response)) => NetResponse::new(response, request.url.clone(), deadline),
            Ok(Err(error)) => match error.is_connect() {
                true => Err(NetError::of_connect(host, error)),
                false => Err(NetError::of_transport(host, error)),
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
