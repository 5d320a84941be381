//! gRPC channels: one per endpoint, connected on first use and shared by all calls.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Uri;
use parking_lot::Mutex;
use provost_core::contract::ToolContractError;
use provost_net::Connector;
use tonic::transport::{Channel, Endpoint};
use tower::Service as _;

use crate::limits::CHANNELS_MAX;
use crate::transport::client::ToolHttpClient;
use crate::transport::error;

/// Time without traffic after which a connection with active calls is pinged.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// Timeout of a ping.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Address of an endpoint and its network access. Each key has its own channel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct EndpointKey {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) plaintext: bool,
    pub(crate) allow_private: bool,
}

impl EndpointKey {
    /// Returns the scheme and authority of the endpoint as a URI.
    pub(crate) fn uri(&self) -> Result<Uri, ToolContractError> {
        let Self { host, port, plaintext, .. } = self;
        let scheme = if *plaintext { "http" } else { "https" };
        format!("{scheme}://{host}:{port}").parse().map_err(|error| {
            error::invalid_definition(format!("the endpoint is not a valid gRPC address: {error}"))
        })
    }
}

/// Open channels, at most [`CHANNELS_MAX`]. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Channels {
    open: Arc<Mutex<HashMap<EndpointKey, OpenChannel>>>,
    /// Connector with the operator's network policy.
    public: Connector,
    /// Connector that also allows the private network, for tools with `allow_private`.
    private: Connector,
}

/// An open channel with the time of its last use.
struct OpenChannel {
    channel: Channel,
    used: Instant,
}

impl Channels {
    pub(crate) fn new(client: &ToolHttpClient) -> Self {
        Self {
            open: Arc::default(),
            public: Connector::http2_only(client.options(false)),
            private: Connector::http2_only(client.options(true)),
        }
    }

    /// Returns the channel to an endpoint. Creates it if needed, and closes the least recently used channel if there
    /// are too many. A new channel connects with the first call.
    pub(crate) fn get(&self, key: &EndpointKey) -> Result<Channel, ToolContractError> {
        let mut open = self.open.lock();
        if let Some(found) = open.get_mut(key) {
            found.used = Instant::now();
            return Ok(found.channel.clone());
        }
        let channel = self.connect_lazily(key)?;
        let oldest = open.iter().min_by_key(|(_, it)| it.used).map(|(key, _)| key.clone());
        if let Some(oldest) = oldest.filter(|_| open.len() >= CHANNELS_MAX) {
            open.remove(&oldest);
        }
        open.insert(key.clone(), OpenChannel { channel: channel.clone(), used: Instant::now() });
        Ok(channel)
    }

    /// Creates a channel that connects with the first call.
    fn connect_lazily(&self, key: &EndpointKey) -> Result<Channel, ToolContractError> {
        let uri = key.uri()?;
        let connector = if key.allow_private { &self.private } else { &self.public };
        let (mut connector, target) = (connector.clone(), uri.clone());
        // The connector establishes TLS itself. A `tonic` that was built with TLS rejects an `https` endpoint without a
        // TLS configuration, so only the origin is `https`.
        let endpoint = Endpoint::from(plaintext_uri(key)?)
            .origin(uri)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .keep_alive_while_idle(false);
        let connect = tower::service_fn(move |_: Uri| connector.call(target.clone()));
        Ok(endpoint.connect_with_connector_lazy(connect))
    }
}

/// Returns the URI with the scheme `http`, because the connector adds TLS.
fn plaintext_uri(key: &EndpointKey) -> Result<Uri, ToolContractError> {
    EndpointKey { plaintext: true, ..key.clone() }.uri()
}
