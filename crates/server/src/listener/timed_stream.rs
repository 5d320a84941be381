//! A socket with timeouts for request headers, for idle connections and for writes.
//!
//! hyper has one timeout for headers and idle connections, and closes without a response. This module separates the two and
//! answers slow headers with 408. It sets no read timeout while a request is in progress: bodies have their own limits, and
//! streams stay open.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};
use tokio_io_timeout::TimeoutWriter;

use super::connection::Requests;
use crate::config::Limits;

/// Response to slow request headers.
const HEAD_TIMEOUT_RESPONSE: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// Expected data while no request is in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// The rest of the request headers, or the first headers of a connection.
    Head,
    /// The first byte of the next request.
    NextRequest,
}

/// A socket with time limits.
pub(super) struct TimedStream {
    stream: Pin<Box<TimeoutWriter<TcpStream>>>,
    requests: Requests,
    /// Number of requests when `reading` was set.
    requests_seen: u64,
    head_timeout: Duration,
    idle_timeout: Duration,
    reading: Reading,
    /// Timeout of `reading`. `None` while a request is in progress.
    timer: Option<Pin<Box<Sleep>>>,
}

impl TimedStream {
    pub(super) fn new(stream: TcpStream, requests: Requests, limits: &Limits) -> Self {
        let mut stream = TimeoutWriter::new(stream);
        stream.set_timeout(Some(limits.write_timeout));
        Self {
            stream: Box::pin(stream),
            requests,
            requests_seen: 0,
            head_timeout: limits.head_timeout,
            idle_timeout: limits.idle_timeout,
            reading: Reading::Head,
            timer: None,
        }
    }

    /// Completes when the peer has exceeded the timeout.
    fn poll_timeout(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let limit = match self.reading {
            Reading::Head => self.head_timeout,
            Reading::NextRequest => self.idle_timeout,
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(timer.as_mut().poll(cx));
        if self.reading == Reading::Head {
            // Best effort: a client this slow may have disconnected.
            self.stream.get_ref().try_write(HEAD_TIMEOUT_RESPONSE).unwrap_or_default();
        }
        Poll::Ready(io::ErrorKind::TimedOut.into())
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = self.stream.as_mut().poll_read(cx, buf);
        let count = self.requests.count();
        if count != self.requests_seen {
            self.requests_seen = count;
            self.reading = Reading::NextRequest;
            self.timer = None;
        }
        if self.requests.is_in_progress() {
            return read;
        }
        match read {
            Poll::Pending => self.poll_timeout(cx).map(Err),
            Poll::Ready(Ok(())) if buf.filled().len() > before => {
                if self.reading == Reading::NextRequest {
                    self.reading = Reading::Head;
                    self.timer = None;
                }
                read
            }
            Poll::Ready(_) => read,
        }
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream.as_mut().poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream.as_mut().poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_shutdown(cx)
    }
}
