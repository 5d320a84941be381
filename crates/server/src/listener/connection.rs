//! One connection.

use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use axum::Router;
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
use tower::ServiceExt;

use super::timed_stream::TimedStream;
use crate::app::App;
use crate::middleware::ClientAddr;

/// Serves a connection until it ends, times out, or the server shuts down.
pub(super) async fn run(app: App, router: Router, stream: TcpStream, peer: IpAddr) {
    let _open = app.metrics().connection();
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection ended before its first request");
        return;
    }
    let limits = &app.options().limits;
    let requests = Requests::default();
    let io = TokioIo::new(TimedStream::new(stream, requests.clone(), limits));
    let service = service_fn(|request| respond(router.clone(), request, peer, requests.start()));
    let connection = http1::Builder::new()
        .max_buf_size(limits.head_bytes_max.max(8 * 1024))
        .max_headers(limits.headers_max)
        .timer(TokioTimer::new())
        // `TimedStream` has tighter limits. This limit makes hyper read after each response, which starts them.
        .header_read_timeout(limits.head_timeout + limits.idle_timeout)
        .serve_connection(io, service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = app.shutdown().cancelled() => {
            connection.as_mut().graceful_shutdown();
            timeout(limits.drain_timeout, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended with an error");
    }
}

async fn respond(
    router: Router,
    request: Request<Incoming>,
    peer: IpAddr,
    guard: RequestGuard,
) -> io::Result<Response<GuardedBody>> {
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(ClientAddr::Remote(peer));
    let Ok(response) = router.oneshot(request).await;
    Ok(response.map(|body| GuardedBody { body, _guard: guard }))
}

/// Requests of a connection: their number, and whether one is in progress. A request is in progress from its headers until the
/// end of its response.
#[derive(Debug, Clone, Default)]
pub(super) struct Requests(Arc<RequestState>);

#[derive(Debug, Default)]
struct RequestState {
    count: AtomicU64,
    in_progress: AtomicBool,
}

impl Requests {
    pub(super) fn count(&self) -> u64 {
        self.0.count.load(Ordering::Relaxed)
    }

    pub(super) fn is_in_progress(&self) -> bool {
        self.0.in_progress.load(Ordering::Relaxed)
    }

    fn start(&self) -> RequestGuard {
        self.0.count.fetch_add(1, Ordering::Relaxed);
        self.0.in_progress.store(true, Ordering::Relaxed);
        RequestGuard(self.clone())
    }
}

/// Marks a request as in progress until the guard is dropped.
struct RequestGuard(Requests);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.0.in_progress.store(false, Ordering::Relaxed);
    }
}

/// Body of a response. It keeps its request in progress until it is dropped.
struct GuardedBody {
    body: Body,
    _guard: RequestGuard,
}

impl http_body::Body for GuardedBody {
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
