//! The connections of a client's pool: each dialled under the client's own policy, each counted.

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

use crate::dial::Dialer;
use crate::error::NetError;
use crate::tls::tls_config;

/// Makes connections for the pool.
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) dialer: Dialer,
    /// `None` is the set-up of the process, which is read when it is first needed: many clients never speak TLS.
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(crate) room: Arc<Semaphore>,
    pub(crate) timeout: Duration,
}

impl Connector {
    async fn connect(self, uri: Uri) -> Result<TokioIo<Line>, NetError> {
        let room = Arc::clone(&self.room).acquire_owned().await;
        let Ok(room) = room else {
            return Err(NetError::url("the client is closed"));
        };
        match timeout(self.timeout, self.line(&uri)).await {
            Ok(line) => Ok(TokioIo::new(Line { stream: line?, _room: room })),
            Err(_) => Err(NetError::Timeout { sent: false }),
        }
    }

    async fn line(&self, uri: &Uri) -> Result<Stream, NetError> {
        let host = uri.host().unwrap_or_default();
        let scheme = uri.scheme_str().unwrap_or_default();
        self.dialer.policy().check_scheme(scheme, host)?;
        let secure = scheme == "https";
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let stream = self.dialer.dial(host, port).await?;
        if !secure {
            return Ok(Stream::Plain(stream));
        }
        let config = match &self.tls {
            Some(config) => Arc::clone(config),
            None => tls_config().await?,
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let name = ServerName::try_from(bare.to_owned());
        let name = name.map_err(|error| NetError::url(format!("its host is no name: {error}")))?;
        let stream = TlsConnector::from(config).connect(name, stream).await;
        stream
            .map(|stream| Stream::Secure(Box::new(stream)))
            .map_err(|error| handshake(host, error))
    }
}

fn handshake(host: &str, source: io::Error) -> NetError {
    let host = host.to_owned();
    // What comes from the library is about trust and protocol; the rest is a line that broke.
    match source.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
        true => NetError::Tls { host, source: Arc::new(source), sent: false },
        false => NetError::Connect { host, source: Arc::new(source), sent: false },
    }
}

impl tower_service::Service<Uri> for Connector {
    type Response = TokioIo<Line>;
    type Error = NetError;
    type Future = BoxFuture<'static, Result<TokioIo<Line>, NetError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), NetError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}

/// One connection. While it lives it takes room of its client.
pub(crate) struct Line {
    stream: Stream,
    _room: OwnedSemaphorePermit,
}

enum Stream {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
}

impl Connection for Line {
    fn connected(&self) -> Connected {
        match &self.stream {
            Stream::Secure(stream) if stream.get_ref().1.alpn_protocol() == Some(b"h2") => {
                Connected::new().negotiated_h2()
            }
            _ => Connected::new(),
        }
    }
}

/// Hands a call on to whichever stream there is.
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

impl AsyncRead for Line {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        on_stream!(self, stream => stream.poll_read(cx, into))
    }
}

impl AsyncWrite for Line {
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
