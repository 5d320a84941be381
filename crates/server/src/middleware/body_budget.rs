//! Bodies: read as a whole, within a size and a time, and all of them together within a share of the memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body_util::BodyExt;
use provost_api::Problem;
use provost_core::ErrorKind;
use tokio::time::{Instant, timeout_at};

use crate::error;

/// The bytes of bodies that are being read or worked on.
#[derive(Debug, Clone)]
pub(crate) struct BodyBudget {
    used: Arc<AtomicUsize>,
    max: usize,
}

/// The part of the budget that one body has; it is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: BodyBudget,
    bytes: usize,
}

impl BodyBudget {
    pub(crate) fn new(max: usize) -> Self {
        Self { used: Arc::default(), max }
    }

    fn share(&self) -> Share {
        Share { budget: self.clone(), bytes: 0 }
    }
}

impl Share {
    fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        self.bytes += bytes;
        let before = self.budget.used.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes <= self.budget.max {
            return Ok(());
        }
        let detail = "the server is busy with large requests: try again in a moment";
        let mut problem = Problem::new(ErrorKind::Unavailable, "overloaded", detail);
        problem.retry_after_ms = Some(1_000);
        Err(problem)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The limits of one body.
pub(super) struct BodyLimits<'a> {
    pub(super) bytes_max: usize,
    /// How long a body may bring nothing.
    pub(super) stall_timeout: Duration,
    /// How long it may take in all.
    pub(super) timeout: Duration,
    pub(super) budget: &'a BodyBudget,
}

/// Reads a body. One that is too long by its own `Content-Length` is refused before a byte of it is read.
pub(super) async fn read_within(
    headers: &HeaderMap,
    mut body: Body,
    limits: BodyLimits<'_>,
) -> Result<(Bytes, Share), Problem> {
    let mut share = limits.budget.share();
    let max = limits.bytes_max;
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if length.is_some_and(|length: u64| length > max as u64) {
        return Err(too_large(max));
    }
    let deadline = Instant::now() + limits.timeout;
    let mut whole = BytesMut::new();
    loop {
        let stalled = Instant::now() + limits.stall_timeout;
        let frame = timeout_at(stalled.min(deadline), body.frame()).await;
        let Some(frame) = frame.map_err(|_elapsed| too_slow())? else {
            break;
        };
        let frame = frame.map_err(|error| {
            tracing::debug!(%error, "a body broke off");
            error::invalid("body", "it broke off")
        })?;
        // Trailers are not used.
        let Ok(piece) = frame.into_data() else {
            continue;
        };
        if whole.len() + piece.len() > max {
            return Err(too_large(max));
        }
        share.grow(piece.len())?;
        whole.extend_from_slice(&piece);
    }
    Ok((whole.freeze(), share))
}

fn too_large(max: usize) -> Problem {
    let detail = format!("the body has more than {max} bytes: send less");
    Problem::new(ErrorKind::Invalid, "too_large", detail).status(413)
}

fn too_slow() -> Problem {
    let detail = "the body did not arrive in time: send it again";
    Problem::new(ErrorKind::Timeout, "body_timeout", detail).status(408)
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;
    use crate::config::Limits;

    fn pieces(pieces: Vec<&'static [u8]>) -> Body {
        let pieces = pieces.into_iter().map(|piece| Ok::<_, std::io::Error>(Bytes::from(piece)));
        Body::from_stream(stream::iter(pieces))
    }

    async fn read_all(body: Body, max: usize, budget: &BodyBudget) -> Result<Bytes, Problem> {
        read_within(&HeaderMap::new(), body, limits(max, budget)).await.map(|(bytes, _)| bytes)
    }

    fn limits(bytes_max: usize, budget: &BodyBudget) -> BodyLimits<'_> {
        let Limits { body_stall_timeout, body_timeout, .. } = Limits::default();
        BodyLimits { bytes_max, stall_timeout: body_stall_timeout, timeout: body_timeout, budget }
    }

    #[tokio::test]
    async fn a_body_is_as_long_as_it_may_be() {
        let budget = BodyBudget::new(100);
        let read = read_all(pieces(vec![b"ab", b"cd"]), 4, &budget).await;
        assert_eq!(read.unwrap(), "abcd");
        let refused = read_all(pieces(vec![b"ab", b"cde"]), 4, &budget).await.unwrap_err();
        assert_eq!((refused.status, refused.code.as_str()), (413, "too_large"));
        assert_eq!(budget.used.load(Ordering::Relaxed), 0, "the share is given back");
    }

    #[tokio::test]
    async fn a_length_that_is_too_much_is_refused_unread() {
        let budget = BodyBudget::new(100);
        let headers = HeaderMap::from_iter([(CONTENT_LENGTH, "5".parse().unwrap())]);
        let body = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        let refused = read_within(&headers, body, limits(4, &budget)).await.unwrap_err();
        assert_eq!(refused.status, 413);
    }

    #[tokio::test]
    async fn all_bodies_together_have_a_limit() {
        let (none, budget) = (HeaderMap::new(), BodyBudget::new(6));
        let body = pieces(vec![b"abcd"]);
        let held = read_within(&none, body, limits(9, &budget)).await.unwrap();
        let refused = read_all(pieces(vec![b"abc"]), 9, &budget).await.unwrap_err();
        assert_eq!((refused.status, refused.code.as_str()), (503, "overloaded"));
        drop(held);
        assert!(read_all(pieces(vec![b"abc"]), 9, &budget).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stands_still_or_trickles_is_given_up() {
        let budget = BodyBudget::new(10_000);
        let still = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        let started = Instant::now();
        let refused = read_all(still, 4, &budget).await.unwrap_err();
        assert_eq!((refused.status, started.elapsed().as_secs()), (408, 30));
        let trickle = stream::unfold((), |()| async {
            tokio::time::sleep(std::time::Duration::from_secs(29)).await;
            Some((Ok::<_, std::io::Error>(Bytes::from_static(b"x")), ()))
        });
        let started = Instant::now();
        let refused = read_all(Body::from_stream(trickle), 999, &budget).await.unwrap_err();
        assert_eq!((refused.status, started.elapsed().as_secs()), (408, 300));
    }
}
