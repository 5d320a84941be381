//! A socket whose other side must not be slow: with the head of a request, with taking an answer, or with nothing at all.
//!
//! While a request is under way reading is not timed here: its body has limits of its own, and a stream may stay open.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::{TOO_SLOW, Turn};
use crate::alarm::Alarm;
use crate::config::Limits;

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
    /// What was read of it before.
    ahead: Bytes,
    turn: Turn,
    head_timeout: Duration,
    idle_timeout: Duration,
    write_timeout: Duration,
    /// The turn for which `awaited` counts.
    seen: u32,
    awaited: Awaited,
    /// Until when it is waited for; nothing before the first look.
    read_until: Option<Instant>,
    /// Until when something of the answer must be taken, while nothing is.
    write_until: Option<Instant>,
    reading: Alarm,
    writing: Alarm,
}

impl Timed {
    pub(super) fn new(stream: TcpStream, ahead: Bytes, turn: Turn, limits: &Limits) -> Self {
        let seen = turn.number();
        Self {
            stream,
            ahead,
            turn,
            head_timeout: limits.head_timeout,
            idle_timeout: limits.idle_timeout,
            write_timeout: limits.write_timeout,
            seen,
            // Whoever connects wants something: the first request has no more time than the rest of a head.
            awaited: Awaited::Head,
            read_until: None,
            write_until: None,
            reading: Alarm::default(),
            writing: Alarm::default(),
        }
    }

    /// Learns of a new turn. True if a request is under way.
    fn notice_turn(&mut self) -> bool {
        let number = self.turn.number();
        if number != self.seen {
            self.seen = number;
            self.awaited = Awaited::Request;
            self.read_until = None;
        }
        Turn::is_busy(number)
    }

    fn poll_bytes(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.ahead.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let count = self.ahead.len().min(buf.remaining());
        buf.put_slice(&self.ahead[..count]);
        self.ahead.advance(count);
        if self.ahead.is_empty() {
            // What is done with holds no memory.
            self.ahead = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let patience = match self.awaited {
            Awaited::Request => self.idle_timeout,
            Awaited::Head => self.head_timeout,
        };
        let until = *self.read_until.get_or_insert_with(|| Instant::now() + patience);
        ready!(self.reading.poll_until(until, cx));
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
            self.write_until = None;
            return written;
        }
        let until = *self.write_until.get_or_insert_with(|| Instant::now() + self.write_timeout);
        ready!(self.writing.poll_until(until, cx));
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
        let read = self.poll_bytes(cx, buf);
        if self.notice_turn() {
            return read;
        }
        match read {
            Poll::Pending => self.poll_patience(cx),
            Poll::Ready(Ok(())) if buf.filled().len() > before => {
                if self.awaited == Awaited::Request {
                    self.awaited = Awaited::Head;
                    self.read_until = None;
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
