//! Connections to gRPC servers: one for each place, made when it is first needed, shared by all calls, checked when it is dialled.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use http::Uri;
use hyper_util::rt::TokioIo;
use provost_core::contract::ToolFault;
use provost_net::{Dialer, NetError};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::transport::{Channel, Endpoint};

use crate::fault;
use crate::limits::{CHANNELS_MAX, CONNECT_TIMEOUT};

/// How long a connection that is used may be silent before it is asked whether it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// How long it may take to answer that.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// A place that is spoken to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) plaintext: bool,
    pub(crate) allow_private: bool,
}

/// Connections by place.
#[derive(Clone, Default)]
pub(crate) struct Channels {
    open: Arc<Mutex<HashMap<Place, (Channel, Instant)>>>,
}

impl Channels {
    /// The connection to a place. Nothing is dialled before the first call.
    pub(crate) fn get(
        &self,
        place: &Place,
        dialer: &Dialer,
        tls: Option<&Arc<ClientConfig>>,
    ) -> Result<Channel, ToolFault> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((channel, used)) = open.get_mut(place) {
            *used = Instant::now();
            return Ok(channel.clone());
        }
        if open.len() >= CHANNELS_MAX
            && let Some(oldest) = open.iter().min_by_key(|(_, (_, used))| *used)
        {
            let oldest = oldest.0.clone();
            open.remove(&oldest);
        }
        let channel = connection(place, dialer.clone(), tls.cloned())?;
        open.insert(place.clone(), (channel.clone(), Instant::now()));
        Ok(channel)
    }
}

fn connection(
    place: &Place,
    dialer: Dialer,
    tls: Option<Arc<ClientConfig>>,
) -> Result<Channel, ToolFault> {
    let bad = |error: &dyn std::fmt::Display| {
        fault::definition(format!("the endpoint is no address of a gRPC server: {error}"))
    };
    let scheme = if place.plaintext { "http" } else { "https" };
    let origin: Uri =
        format!("{scheme}://{}:{}", place.host, place.port).parse().map_err(|error| bad(&error))?;
    // The transport itself knows nothing of TLS: whoever dials does it.
    let address = format!("http://{}:{}", place.host, place.port);
    let endpoint = Endpoint::from_shared(address)
        .map_err(|error| bad(&error))?
        .origin(origin)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(false);
    let place = place.clone();
    let dial = tower::service_fn(move |_uri: Uri| {
        let (place, dialer, tls) = (place.clone(), dialer.clone(), tls.clone());
        async move { dialled(&place, &dialer, tls).await.map(TokioIo::new) }
    });
    Ok(endpoint.connect_with_connector_lazy(dial))
}

async fn dialled(
    place: &Place,
    dialer: &Dialer,
    tls: Option<Arc<ClientConfig>>,
) -> Result<BoxedStream, NetError> {
    let deadline = Instant::now() + CONNECT_TIMEOUT;
    let stream = dialer.connect(&place.host, place.port, deadline).await?;
    if place.plaintext {
        return Ok(Box::new(stream));
    }
    let failed = |source: std::io::Error| NetError::Tls {
        host: place.host.clone(),
        source: Arc::new(source),
        sent: false,
    };
    let shared = match tls {
        Some(config) => config,
        None => provost_net::tls_config().await?,
    };
    let mut config = ClientConfig::clone(&shared);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let bare = place.host.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(bare.to_owned())
        .map_err(|error| failed(std::io::Error::other(error)))?;
    let handshake: BoxFuture<'_, _> =
        Box::pin(tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream));
    match tokio::time::timeout_at(deadline.into(), handshake).await {
        Ok(Ok(stream)) if stream.get_ref().1.alpn_protocol() == Some(b"h2") => Ok(Box::new(stream)),
        Ok(Ok(_)) => Err(failed(std::io::Error::other("the server does not speak HTTP/2"))),
        Ok(Err(error)) => Err(failed(error)),
        Err(_) => Err(NetError::Timeout { sent: false }),
    }
}

/// Bytes both ways.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// With or without TLS.
pub(crate) type BoxedStream = Box<dyn Stream>;
