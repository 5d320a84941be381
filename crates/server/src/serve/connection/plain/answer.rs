//! A plain answer: its head and its body in one write.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, DATE};
use http_body::Body as _;
use http_body_util::BodyExt;
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::alarm::Alarm;
use crate::router::Unsealed;

/// Bytes of a body that go with their head; longer ones are not copied.
const TOGETHER_MAX: usize = 16 * 1024;
/// Bytes that most heads have room in.
const HEAD_USUAL: usize = 512;
/// Bytes of a buffer that is kept for the next answer.
const KEPT_MAX: usize = 4 * 1024;

/// Puts answers into words.
#[derive(Debug, Default)]
pub(super) struct Words {
    bytes: Vec<u8>,
    /// The second of which `date` is.
    second: u64,
    date: String,
}

impl Words {
    /// Sends an answer; `last` tells the caller that there will be no other. Each time that the caller takes nothing for so
    /// long it fails.
    pub(super) async fn send(
        &mut self,
        answer: Unsealed,
        last: bool,
        stream: &mut TcpStream,
        (alarm, patience): (&mut Alarm, Duration),
    ) -> io::Result<()> {
        let (response, seal) = answer.in_words();
        let (head, body) = response.into_parts();
        let body = whole(body).await?;
        self.bytes.clear();
        self.bytes.reserve(HEAD_USUAL + body.len().min(TOGETHER_MAX));
        self.put_head(&head, body.len(), last);
        seal.put(&mut self.bytes);
        self.put(b"\r\n");
        let apart = if body.len() > TOGETHER_MAX {
            &body[..]
        } else {
            self.bytes.extend_from_slice(&body);
            &[]
        };
        for bytes in [&self.bytes[..], apart] {
            let mut left = bytes;
            while !left.is_empty() {
                let mut until = None;
                let taken = poll_fn(|cx| {
                    let time = (&mut *alarm, &mut until, patience);
                    write(stream, left, time, cx)
                });
                left = left.get(taken.await?..).unwrap_or_default();
            }
        }
        if self.bytes.capacity() > KEPT_MAX {
            self.bytes = Vec::new();
        }
        Ok(())
    }

    /// The head without its last line.
    fn put_head(&mut self, head: &http::response::Parts, length: usize, last: bool) {
        self.put(b"HTTP/1.1 ");
        self.put(head.status.as_str().as_bytes());
        self.put(b" ");
        self.put(head.status.canonical_reason().unwrap_or("<none>").as_bytes());
        self.put(b"\r\n");
        for (name, value) in &head.headers {
            self.put_header(name.as_str(), value.as_bytes());
        }
        let says_length = !matches!(head.status.as_u16(), 100..=199 | 204 | 304);
        if says_length && !head.headers.contains_key(CONTENT_LENGTH) {
            self.put_header("content-length", length.to_string().as_bytes());
        }
        if last {
            self.put_header("connection", b"close");
        }
        if !head.headers.contains_key(DATE) {
            self.put_date();
        }
    }

    fn put_date(&mut self) {
        let now = SystemTime::now();
        let second = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if second != self.second || self.date.is_empty() {
            (self.second, self.date) = (second, httpdate::fmt_http_date(now));
        }
        self.bytes.extend_from_slice(b"date: ");
        self.bytes.extend_from_slice(self.date.as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn put_header(&mut self, name: &str, value: &[u8]) {
        self.put(name.as_bytes());
        self.put(b": ");
        self.put(value);
        self.put(b"\r\n");
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
}

/// The body of an answer that is no stream; it is there already.
async fn whole(mut body: Body) -> io::Result<Bytes> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame.map_err(io::Error::other)?.into_data() else { continue };
        if whole.is_empty() && body.is_end_stream() {
            return Ok(piece);
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole.freeze())
}

/// Gives some bytes away, before the caller has taken none for too long.
fn write(
    stream: &mut TcpStream,
    bytes: &[u8],
    (alarm, until, patience): (&mut Alarm, &mut Option<Instant>, Duration),
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    let written = Pin::new(stream).poll_write(cx, bytes);
    match written {
        Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
        Poll::Ready(_) => written,
        Poll::Pending => {
            let until = *until.get_or_insert_with(|| Instant::now() + patience);
            ready!(alarm.poll_until(until, cx));
            Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
        }
    }
}
