//! Streams while they are open: counted, and ended between two events once the server stops or their time is over.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http_body::Frame;
use tokio::time::{Sleep, sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::app::App;
use crate::metrics::Open;

/// The body of a stream. Each of its pieces is a whole number of events.
struct Watched {
    body: Body,
    drained: Pin<Box<WaitForCancellationFutureOwned>>,
    over: Option<Pin<Box<Sleep>>>,
    _open: Open,
}

impl Watched {
    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        let drained = self.drained.as_mut().poll(cx).is_ready();
        drained || self.over.as_mut().is_some_and(|over| over.as_mut().poll(cx).is_ready())
    }
}

/// Looks after an answer if it is a stream.
pub(super) fn watch(app: &App, response: Response) -> Response {
    let kind = response.headers().get(CONTENT_TYPE).map(|kind| kind.as_bytes());
    if !kind.is_some_and(|kind| kind.starts_with(b"text/event-stream")) {
        return response;
    }
    response.map(|body| {
        let drained = Box::pin(app.shared.draining.clone().cancelled_owned());
        let over = app.shared.options.limits.stream_timeout.map(|time| Box::pin(sleep(time)));
        Body::new(Watched { body, drained, over, _open: app.shared.metrics.stream() })
    })
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.is_over(cx) {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}
