//! A socket whose peer must not be slow: with the head of a request, with the next request, or with taking a response.
//!
//! hyper has one timeout for the head and for an idle connection, and closes without an answer; here they are two, and a slow
//! head is answered 408. While a request is in progress reading has no limit: its body has limits of its own, and a stream may
//! stay open.

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

/// The response to a slow head.
const TOO_SLOW: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// What is read outside of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// The rest of a head, or the first head of a connection.
    Head,
    /// The first byte of the next request.
    NextRequest,
}

/// A socket with time limits.
pub(super) struct TimedStream {
    stream: Pin<Box<TimeoutWriter<TcpStream>>>,
    requests: Requests,
    /// The number of requests when `reading` was set.
    seen: u64,
    head_timeout: Duration,
    idle_timeout: Duration,
    reading: Reading,
    /// Runs while something is read outside of requests.
    timer: Option<Pin<Box<Sleep>>>,
}

impl TimedStream {
    pub(super) fn new(stream: TcpStream, requests: Requests, limits: &Limits) -> Self {
        let mut stream = TimeoutWriter::new(stream);
        stream.set_timeout(Some(limits.write_timeout));
        Self {
            stream: Box::pin(stream),
            requests,
            seen: 0,
            head_timeout: limits.head_timeout,
            idle_timeout: limits.idle_timeout,
            reading: Reading::Head,
            timer: None,
        }
    }

    /// Ready once the peer has been too slow.
    fn poll_timeout(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let limit = match self.reading {
            Reading::Head => self.head_timeout,
            Reading::NextRequest => self.idle_timeout,
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(timer.as_mut().poll(cx));
        if self.reading == Reading::Head {
            // Best effort: a client this slow may have gone.
            self.stream.get_ref().try_write(TOO_SLOW).unwrap_or_default();
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
        if count != self.seen {
            self.seen = count;
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
