//! One connection, from its first byte to its last.

mod plain;
mod timed;
mod untimed;

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::IpAddr;
use std::ops::DerefMut;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use self::timed::Timed;
use self::untimed::Untimed;
use crate::app::App;
use crate::router::{Origin, Site};

/// What a caller hears whose head did not arrive in time.
const TOO_SLOW: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// What all connections share.
pub(super) struct Server {
    pub(super) app: App,
    pub(super) site: Site,
}

/// Whether a request is under way: the number is odd while one is, and rises with each.
#[derive(Debug, Clone, Default)]
struct Turn(Arc<AtomicU32>);

impl Turn {
    fn number(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    fn is_busy(number: u32) -> bool {
        number % 2 == 1
    }

    fn begin(&self) -> TurnGuard {
        self.0.fetch_add(1, Ordering::Relaxed);
        TurnGuard(self.clone())
    }
}

/// Ends the turn when the answer is gone, sent or not.
struct TurnGuard(Turn);

impl Drop for TurnGuard {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The body of an answer; the turn lasts as long as it does.
struct Sent {
    body: Body,
    _turn: TurnGuard,
}

/// Serves a connection until it ends, its time is over, or the server stops.
pub(super) async fn run(server: &Arc<Server>, mut stream: TcpStream, peer: IpAddr) {
    let shared = &server.app.shared;
    let _open = shared.metrics.connection();
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection ended before it began");
        return;
    }
    // What it holds is given back before a stream begins, which may stay for long.
    let plain = Box::pin(plain::serve(server, &mut stream, peer));
    match until_drained(&server.app, plain, |_| {}).await {
        Ok(Some(ahead)) => general(server, stream, ahead, peer).await,
        // Said before it is closed: whoever has sent something that was not read would only hear that it broke off.
        Ok(None) => drop(stream.shutdown().await),
        Err(error) => tracing::debug!(%error, "a connection broke off"),
    }
}

/// Serves a connection with whatever HTTP/1 it speaks; `ahead` was read of it already.
async fn general(server: &Arc<Server>, stream: TcpStream, ahead: Bytes, peer: IpAddr) {
    let limits = &server.app.shared.options.limits;
    let turn = Turn::default();
    let io = TokioIo::new(Timed::new(stream, ahead, turn.clone(), limits));
    let answering = Arc::clone(server);
    let service = service_fn(move |request: Request<Incoming>| {
        answer(Arc::clone(&answering), request, peer, turn.begin())
    });
    let connection = http1::Builder::new()
        .max_buf_size(limits.head_bytes_max.max(8 * 1024))
        .max_headers(limits.headers_max)
        .timer(Untimed(Instant::now()))
        // The socket keeps the time itself. With a time of its own the protocol looks at an idle connection again after each
        // answer, which is when the socket starts to count.
        .header_read_timeout((limits.head_timeout + limits.idle_timeout) * 2)
        .serve_connection(io, service);
    let connection = pin!(connection);
    let ended = until_drained(&server.app, connection, |connection| {
        connection.as_mut().graceful_shutdown();
    });
    if let Err(error) = ended.await {
        tracing::debug!(%error, "a connection broke off");
    }
}

async fn answer(
    server: Arc<Server>,
    request: Request<Incoming>,
    peer: IpAddr,
    turn: TurnGuard,
) -> Result<Response<Sent>, Infallible> {
    let response = server.site.answer(request.map(Body::new), Origin::Peer(peer)).await;
    Ok(response.map(|body| Sent { body, _turn: turn }))
}

/// Carries a connection until it ends. Once the server stops it is told so, and has a little time left.
async fn until_drained<F, T: Default, E>(
    app: &App,
    mut serving: Pin<F>,
    tell: impl FnOnce(&mut Pin<F>),
) -> Result<T, E>
where
    F: DerefMut<Target: Future<Output = Result<T, E>>> + Unpin,
{
    let mut stopped = pin!(app.shared.draining.cancelled());
    let mut is_asked = false;
    let ended = poll_fn(|cx| {
        if let Poll::Ready(ended) = serving.as_mut().poll(cx) {
            return Poll::Ready(Some(ended));
        }
        // Whoever has asked once is told: asking again takes a lock that all connections share.
        if !is_asked || app.is_stopping() {
            is_asked = true;
            return stopped.as_mut().poll(cx).map(|()| None);
        }
        Poll::Pending
    });
    if let Some(ended) = ended.await {
        return ended;
    }
    tell(&mut serving);
    let time = app.shared.options.limits.drain_timeout;
    timeout(time, serving).await.unwrap_or(Ok(T::default()))
}

impl http_body::Body for Sent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
