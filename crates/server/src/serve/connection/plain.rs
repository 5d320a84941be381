//! The plain way: requests that arrive in one piece and answers that leave in one.
//!
//! Most requests are no longer than a packet and ask for nothing special, so they are read at a glance and answered with one
//! write. Whatever else a connection carries (a slow head, chunks, an expectation, a stream, anything that is odd) is not
//! judged here: it goes to the general reader from its first byte on, and the connection stays there.

mod answer;
mod request;

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;

use self::answer::Words;
use super::{Server, TOO_SLOW};
use crate::alarm::Alarm;
use crate::router::Origin;

/// Bytes that are looked at: a plain request is no longer.
const GLANCE: usize = 8 * 1024;

/// Serves plain requests. Gives what a connection brought that is none, or nothing if it has ended.
pub(super) async fn serve(
    server: &Server,
    stream: &mut TcpStream,
    peer: IpAddr,
) -> io::Result<Option<Bytes>> {
    let limits = &server.app.shared.options.limits;
    let (mut alarm, mut words) = (Alarm::default(), Words::default());
    let mut ahead = Bytes::new();
    // Whoever connects wants something: the first request has no more time than the rest of a head.
    let mut patience = limits.head_timeout;
    let mut warning = TOO_SLOW;
    loop {
        if ahead.is_empty() {
            let next = poll_fn(|cx| next(server, stream, cx));
            let Ok(next) = alarm.within(patience, next).await else {
                // As good as it goes: whoever is that slow may not listen either.
                stream.try_write(warning).unwrap_or_default();
                return Ok(None);
            };
            ahead = next?;
            if ahead.is_empty() {
                return Ok(None);
            }
        }
        (patience, warning) = (limits.idle_timeout, b"");
        let Some((request, rest)) = request::read(&ahead, limits.headers_max) else {
            return Ok(Some(ahead));
        };
        let route = server.site.find(&request);
        if !route.is_brief() {
            return Ok(Some(ahead));
        }
        ahead = rest;
        let origin = (Origin::Peer(peer), &mut alarm);
        let answered = {
            let mut answering = pin!(server.site.answer_at(route, request, origin));
            poll_fn(|cx| match answering.as_mut().poll(cx) {
                Poll::Ready(response) => Poll::Ready(Some(response)),
                Poll::Pending => listen(stream, &mut ahead, cx).map(|()| None),
            })
            .await
        };
        let Some(response) = answered else { return Ok(None) };
        let last = server.app.is_stopping();
        let time = (&mut alarm, limits.write_timeout);
        words.send(response, last, stream, time).await?;
        if last {
            return Ok(None);
        }
    }
}

/// What comes next; nothing if the caller or the server goes.
fn next(server: &Server, stream: &mut TcpStream, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
    match glance(stream, cx) {
        // What has arrived is still answered.
        Poll::Pending if server.app.is_stopping() => Poll::Ready(Ok(Bytes::new())),
        looked => looked,
    }
}

/// Listens to a caller who waits for an answer. Ready if they are gone: then nobody wants it.
fn listen(stream: &mut TcpStream, ahead: &mut Bytes, cx: &mut Context<'_>) -> Poll<()> {
    while ahead.is_empty() {
        match glance(stream, cx) {
            Poll::Ready(Ok(bytes)) if !bytes.is_empty() => *ahead = bytes,
            Poll::Ready(_) => return Poll::Ready(()),
            Poll::Pending => return Poll::Pending,
        }
    }
    Poll::Pending
}

/// What is there to be read. A connection that waits has no buffer.
fn glance(stream: &mut TcpStream, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
    let mut space = [MaybeUninit::uninit(); GLANCE];
    let mut buffer = ReadBuf::uninit(&mut space);
    let read = Pin::new(stream).poll_read(cx, &mut buffer)?;
    read.map(|()| Ok(Bytes::copy_from_slice(buffer.filled())))
}
