//! Connections to gRPC servers: one for each place, made when it is first needed, shared by all calls, checked when it is dialled.
//!
//! They are HTTP/2 connections of `hyper` without the layers that `tonic` puts around its own: each of those hands a call from
//! task to task, and what they do (time limits, reconnecting) is done here already.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::uri::PathAndQuery;
use http::{HeaderValue, Uri, header};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use provost_core::contract::ToolFault;
use provost_core::resource::ToolResource;
use provost_net::{Dialer, NetError};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::body::Body;

use crate::fault;
use crate::limits::{CHANNELS_MAX, CONNECT_TIMEOUT};

/// How long a connection that is used may be silent before it is asked whether it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// How long it may take to answer that.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a call that was not sent looks for a connection that stands.
const TRIES: usize = 2;

/// A place that is spoken to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) plaintext: bool,
    pub(crate) allow_private: bool,
}

/// How a tool is reached.
#[derive(Clone)]
pub(crate) struct Way {
    pub(crate) channel: Channel,
    pub(crate) path: PathAndQuery,
    used: Instant,
}

/// The ways that were found, each under what its tool says of it.
#[derive(Clone, Default)]
pub(crate) struct Channels {
    open: Arc<Mutex<Ways>>,
}

/// By the tools that ask for plain text or the private network, and then by their endpoints, as they are written: so a way that
/// is known is found without reading them.
type Ways = [HashMap<String, Way>; 4];

impl Channels {
    /// The way to a tool that `find` tells if it is not known. Nothing is dialled before the first call.
    pub(crate) fn get(
        &self,
        tool: &ToolResource,
        find: impl FnOnce() -> Result<(Origin, PathAndQuery), ToolFault>,
    ) -> Result<Way, ToolFault> {
        let plaintext = tool.grpc.as_ref().is_some_and(|grpc| grpc.plaintext);
        let kind = usize::from(plaintext) * 2 + usize::from(tool.allow_private);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(way) = open[kind].get_mut(&tool.endpoint) {
            way.used = Instant::now();
            return Ok(way.clone());
        }
        let (origin, path) = find()?;
        let there = open[kind].values().find(|way| way.channel.place() == &origin.place);
        let channel = match there {
            Some(way) => way.channel.clone(),
            None => Channel::new(origin)?,
        };
        if open[kind].len() >= CHANNELS_MAX
            && let Some(oldest) = open[kind].iter().min_by_key(|(_, way)| way.used)
        {
            let oldest = oldest.0.clone();
            open[kind].remove(&oldest);
        }
        let way = Way { channel, path, used: Instant::now() };
        open[kind].insert(tool.endpoint.clone(), way.clone());
        Ok(way)
    }
}

/// A place, and what it takes to connect to it.
pub(crate) struct Origin {
    pub(crate) place: Place,
    pub(crate) dialer: Dialer,
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

/// The connection to one place, made when it is first needed and again when it is lost.
#[derive(Clone)]
pub(crate) struct Channel {
    shared: Arc<Shared>,
    /// The content type of what is sent, if it is not the usual one.
    kind: Option<HeaderValue>,
}

struct Shared {
    origin: Origin,
    uri: Uri,
    line: Mutex<Option<SendRequest<Body>>>,
    /// Whoever holds it connects; all others wait for what comes of it.
    dialling: tokio::sync::Mutex<()>,
}

impl Channel {
    fn new(origin: Origin) -> Result<Self, ToolFault> {
        let Place { host, port, plaintext, .. } = &origin.place;
        let scheme = if *plaintext { "http" } else { "https" };
        let uri = format!("{scheme}://{host}:{port}").parse().map_err(|error| {
            fault::definition(format!("the endpoint is no address of a gRPC server: {error}"))
        })?;
        let (line, dialling) = (Mutex::default(), tokio::sync::Mutex::default());
        Ok(Self { shared: Arc::new(Shared { origin, uri, line, dialling }), kind: None })
    }

    /// The same with another content type.
    pub(crate) fn sending(self, kind: HeaderValue) -> Self {
        Self { kind: Some(kind), ..self }
    }

    /// Scheme and authority of what is asked for.
    pub(crate) fn uri(&self) -> Uri {
        self.shared.uri.clone()
    }

    fn place(&self) -> &Place {
        &self.shared.origin.place
    }
}

impl Shared {
    fn line(&self) -> MutexGuard<'_, Option<SendRequest<Body>>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn standing(&self) -> Option<SendRequest<Body>> {
        self.line().as_ref().filter(|line| !line.is_closed()).cloned()
    }

    /// A connection that stood a moment ago.
    async fn connected(&self) -> Result<SendRequest<Body>, NetError> {
        if let Some(line) = self.standing() {
            return Ok(line);
        }
        let _dialling = self.dialling.lock().await;
        if let Some(line) = self.standing() {
            return Ok(line);
        }
        let line = connect(&self.origin).await?;
        *self.line() = Some(line.clone());
        Ok(line)
    }

    async fn send(
        &self,
        mut request: http::Request<Body>,
    ) -> Result<http::Response<Incoming>, Box<dyn Error + Send + Sync>> {
        let mut unsent = None;
        for _ in 0..TRIES {
            let mut line = self.connected().await?;
            let mut lost = match line.try_send_request(request).await {
                Ok(answer) => return Ok(answer),
                Err(lost) => lost,
            };
            // What comes back had not been sent: the connection was just being closed.
            match lost.take_message() {
                Some(again) => request = again,
                None => return Err(lost.into_error().into()),
            }
            unsent = Some(lost.into_error());
            self.line().take_if(|line| line.is_closed());
        }
        let source = std::io::Error::other(unsent.map_or_else(String::new, |it| it.to_string()));
        let host = self.origin.place.host.clone();
        Err(NetError::Connect { host, source: Arc::new(source), sent: false }.into())
    }
}

impl tower::Service<http::Request<Body>> for Channel {
    type Response = http::Response<Incoming>;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        if let Some(kind) = &self.kind {
            request.headers_mut().insert(header::CONTENT_TYPE, kind.clone());
        }
        let shared = Arc::clone(&self.shared);
        async move { shared.send(request).await }.boxed()
    }
}

async fn connect(origin: &Origin) -> Result<SendRequest<Body>, NetError> {
    let stream = dialled(origin).await?;
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(false);
    let lost = |error: hyper::Error| NetError::Connect {
        host: origin.place.host.clone(),
        source: Arc::new(std::io::Error::other(error)),
        sent: false,
    };
    let (line, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(lost)?;
    // It ends when nobody can send any more, or when the other side ends it; whoever waits for an answer is told.
    tokio::spawn(async move { connection.await.err() });
    Ok(line)
}

async fn dialled(Origin { place, dialer, tls }: &Origin) -> Result<BoxedStream, NetError> {
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
        Some(config) => Arc::clone(config),
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
