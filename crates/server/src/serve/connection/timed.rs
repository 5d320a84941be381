//! A socket whose other side must not be slow: with the head of a request, with taking an answer, or with nothing at all.
//!
//! While a request is under way reading is not timed here: its body has limits of its own, and a stream may stay open.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

use super::Turn;
use crate::limit::Limits;

/// What a caller hears whose head did not arrive in time.
const TOO_SLOW: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// What the other side is waited for, outside of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// The first byte of a request.
    Request,
    /// The rest of its head.
    Head,
}

/// A socket with time limits.
pub(super) struct Timed {
    stream: TcpStream,
    turn: Turn,
    head_timeout: Duration,
    idle_timeout: Duration,
    write_timeout: Duration,
    /// The turn for which `awaited` counts.
    seen: u32,
    awaited: Awaited,
    reading: Option<Pin<Box<Sleep>>>,
    writing: Option<Pin<Box<Sleep>>>,
}

impl Timed {
    pub(super) fn new(stream: TcpStream, turn: Turn, limits: &Limits) -> Self {
        let seen = turn.number();
        Self {
            stream,
            turn,
            head_timeout: limits.head_timeout,
            idle_timeout: limits.idle_timeout,
            write_timeout: limits.write_timeout,
            seen,
            // Whoever connects wants something: the first request has no more time than the rest of a head.
            awaited: Awaited::Head,
            reading: None,
            writing: None,
        }
    }

    /// Learns of a new turn. True if a request is under way.
    fn notice_turn(&mut self) -> bool {
        let number = self.turn.number();
        if number != self.seen {
            self.seen = number;
            self.awaited = Awaited::Request;
            self.reading = None;
        }
        Turn::is_busy(number)
    }

    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let patience = match self.awaited {
            Awaited::Request => self.idle_timeout,
            Awaited::Head => self.head_timeout,
        };
        let sleep =
            self.reading.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + patience)));
        ready!(sleep.as_mut().poll(cx));
        if self.awaited == Awaited::Head {
            // As good as it goes: whoever is that slow may not listen either.
            self.stream.try_write(TOO_SLOW).unwrap_or_default();
        }
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    fn timed_write(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.writing = None;
            return written;
        }
        let until = Instant::now() + self.write_timeout;
        let sleep = self.writing.get_or_insert_with(|| Box::pin(sleep_until(until)));
        ready!(sleep.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Timed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if self.notice_turn() {
            return read;
        }
        match read {
            Poll::Pending => self.poll_patience(cx),
            Poll::Ready(Ok(())) if buf.filled().len() > before => {
                if self.awaited == Awaited::Request {
                    self.awaited = Awaited::Head;
                    self.reading = None;
                }
                read
            }
            Poll::Ready(_) => read,
        }
    }
}

impl AsyncWrite for Timed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.timed_write(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.timed_write(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
