//! Connections of an HTTP client: every address is checked when it is dialled, and every connection is counted.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::client::NetOptions;
use crate::dial::Dialer;
use crate::error::NetError;
use crate::limits::CONNECTIONS_MAX;
use crate::tls::tls_config;

/// ALPN name of HTTP/2.
const HTTP2: &[u8] = b"h2";

/// Connects an HTTP client to a URI: a `tower` service that checks the scheme, the port and every address under its
/// policy.
///
/// [`NetClient`](crate::NetClient) uses one. Other HTTP clients, such as a gRPC channel, can use their own.
#[derive(Clone)]
pub struct Connector {
    dialer: Dialer,
    /// `None`: the configuration of the process. It is read when it is first needed, because many clients never use
    /// TLS.
    tls: Option<Arc<ClientConfig>>,
    slots: Arc<Semaphore>,
    timeout: Duration,
    http2_only: bool,
}

impl Connector {
    /// Creates a connector for clients that speak HTTP/2 and HTTP/1.1.
    pub(crate) fn new(options: NetOptions) -> Self {
        let NetOptions { policy, resolver, tls, connect_timeout } = options;
        let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let dialer = Dialer::new(policy, resolver);
        Self { dialer, tls, slots, timeout: connect_timeout, http2_only: false }
    }

    /// Creates a connector for clients that speak only HTTP/2: a TLS server that does not negotiate it is an error.
    pub fn http2_only(options: NetOptions) -> Self {
        Self { http2_only: true, ..Self::new(options) }
    }

    /// Returns the number of open connections, including those that are being opened.
    pub(crate) fn connections(&self) -> usize {
        CONNECTIONS_MAX - self.slots.available_permits()
    }

    /// Opens a connection to the host of a URI. Waits without a time limit while [`CONNECTIONS_MAX`] connections are
    /// open; the connect timeout starts after that.
    async fn connect(self, uri: Uri) -> Result<TokioIo<PooledConnection>, NetError> {
        let slots = Arc::clone(&self.slots).acquire_owned().await;
        let Ok(slots) = slots else {
            return Err(NetError::url("the client is closed"));
        };
        match timeout(self.timeout, self.stream(&uri)).await {
            Ok(stream) => Ok(TokioIo::new(PooledConnection { stream: stream?, _slot: slots })),
            Err(_) => Err(NetError::Timeout { sent: false }),
        }
    }

    /// Checks the scheme and every address, connects, and for `https` performs the TLS handshake.
    async fn stream(&self, uri: &Uri) -> Result<Stream, NetError> {
        let host = uri.host().unwrap_or_default();
        let scheme = uri.scheme_str().unwrap_or_default();
        self.dialer.policy().check_scheme(scheme, host)?;
        let is_tls = scheme == "https";
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let stream = self.dialer.connect_without_deadline(host, port).await?;
        if !is_tls {
            return Ok(Stream::Plain(stream));
        }
        let mut config = match &self.tls {
            Some(config) => Arc::clone(config),
            None => tls_config().await?,
        };
        if self.http2_only {
            Arc::make_mut(&mut config).alpn_protocols = vec![HTTP2.to_vec()];
        }
        let trimmed =
            host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let name = ServerName::try_from(trimmed.to_owned());
        let name =
            name.map_err(|error| NetError::url(format!("the host is not a valid name: {error}")))?;
        let stream = TlsConnector::from(config).connect(name, stream).await;
        let stream = stream.map_err(|error| handshake(host, error))?;
        if self.http2_only && stream.get_ref().1.alpn_protocol() != Some(HTTP2) {
            let source = Arc::new(io::Error::other("the server does not speak HTTP/2"));
            return Err(NetError::Tls { host: host.to_owned(), source, sent: false });
        }
        Ok(Stream::Secure(Box::new(stream)))
    }
}

/// Converts an error of the TLS handshake: [`NetError::Tls`] for certificate and protocol errors, otherwise
/// [`NetError::Connect`].
fn handshake(host: &str, source: io::Error) -> NetError {
    let host = host.to_owned();
    // Errors of the library concern trust and the protocol. Other errors are connection failures.
    match source.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
        true => NetError::Tls { host, source: Arc::new(source), sent: false },
        false => NetError::Connect { host, source: Arc::new(source), sent: false },
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("dialer", &self.dialer).finish_non_exhaustive()
    }
}

impl fmt::Debug for PooledConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PooledConnection").finish_non_exhaustive()
    }
}

impl tower_service::Service<Uri> for Connector {
    type Response = TokioIo<PooledConnection>;
    type Error = NetError;
    type Future = BoxFuture<'static, Result<TokioIo<PooledConnection>, NetError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), NetError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}

/// One connection. It counts against the limit of its [`Connector`] while it is open.
pub struct PooledConnection {
    stream: Stream,
    _slot: OwnedSemaphorePermit,
}

/// A TCP stream, with or without TLS.
enum Stream {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
}

impl Connection for PooledConnection {
    fn connected(&self) -> Connected {
        match &self.stream {
            Stream::Secure(stream) if stream.get_ref().1.alpn_protocol() == Some(HTTP2) => {
                Connected::new().negotiated_h2()
            }
            _ => Connected::new(),
        }
    }
}

/// Calls a method of the plain or the TLS stream.
macro_rules! on_stream {
    ($line:expr, $stream:ident => $call:expr) => {
        match &mut $line.get_mut().stream {
            Stream::Plain($stream) => {
                let $stream = Pin::new($stream);
                $call
            }
            Stream::Secure($stream) => {
                let $stream = Pin::new($stream.as_mut());
                $call
            }
        }
    };
}

impl AsyncRead for PooledConnection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        on_stream!(self, stream => stream.poll_read(cx, into))
    }
}

impl AsyncWrite for PooledConnection {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        on_stream!(self, stream => stream.poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, stream => stream.poll_shutdown(cx))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_stream!(self, stream => stream.poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Secure(stream) => stream.is_write_vectored(),
        }
    }
}
