//! One connection, from its first byte to its last.

mod timed;

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::time::timeout;

use self::timed::Timed;
use crate::app::App;
use crate::router::{Peer, Site};

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
pub(super) async fn run(server: &Arc<Server>, stream: TcpStream, peer: IpAddr) {
    let shared = &server.app.shared;
    let _open = shared.metrics.connection();
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection ended before it began");
        return;
    }
    let turn = Turn::default();
    let io = TokioIo::new(Timed::new(stream, turn.clone(), &shared.options.limits));
    let answering = Arc::clone(server);
    let service = service_fn(move |request: Request<Incoming>| {
        answer(Arc::clone(&answering), request, peer, turn.begin())
    });
    let limits = &shared.options.limits;
    let connection = http1::Builder::new()
        .max_buf_size(limits.head_bytes_max.max(8 * 1024))
        .max_headers(limits.headers_max)
        .timer(TokioTimer::new())
        // The socket keeps the time itself. With a time of its own the protocol looks at an idle connection again after each
        // answer, which is when the socket starts to count.
        .header_read_timeout((limits.head_timeout + limits.idle_timeout) * 2)
        .serve_connection(io, service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = shared.draining.cancelled() => {
            connection.as_mut().graceful_shutdown();
            timeout(limits.drain_timeout, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke off");
    }
}

async fn answer(
    server: Arc<Server>,
    request: Request<Incoming>,
    peer: IpAddr,
    turn: TurnGuard,
) -> Result<Response<Sent>, std::convert::Infallible> {
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(Peer(peer));
    let response = server.site.answer(request).await;
    Ok(response.map(|body| Sent { body, _turn: turn }))
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
