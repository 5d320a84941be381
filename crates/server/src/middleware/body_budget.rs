//! Reads request bodies within limits of size and time, and limits the total size of all bodies in memory.

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

/// Total size of the request bodies in memory.
#[derive(Debug, Clone)]
pub(crate) struct BodyBudget {
    used: Arc<AtomicUsize>,
    max: usize,
}

/// Bytes that one body reserves. Dropping the reservation releases them.
#[derive(Debug)]
pub(crate) struct BodyReservation {
    budget: BodyBudget,
    bytes: usize,
}

impl BodyBudget {
    pub(crate) fn new(max: usize) -> Self {
        Self { used: Arc::default(), max }
    }

    /// Returns an empty reservation. Its reader grows it as bytes arrive.
    fn reserve(&self) -> BodyReservation {
        BodyReservation { budget: self.clone(), bytes: 0 }
    }
}

impl BodyReservation {
    /// Reserves more bytes. Returns an error if all bodies together exceed the budget.
    fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        self.bytes += bytes;
        let before = self.budget.used.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes <= self.budget.max {
            return Ok(());
        }
        let detail = "the server is processing too many large requests: try again in a moment";
        let mut problem = Problem::new(ErrorKind::Unavailable, "overloaded", detail);
        problem.retry_after_ms = Some(1_000);
        Err(problem)
    }
}

impl Drop for BodyReservation {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Limits of one body.
pub(super) struct BodyLimits<'a> {
    pub(super) bytes_max: usize,
    /// Maximum time without data.
    pub(super) stall_timeout: Duration,
    /// Maximum total time.
    pub(super) timeout: Duration,
    pub(super) budget: &'a BodyBudget,
}

/// Reads a body, and reserves its bytes. Returns an error if it exceeds its limit, the budget is used up or it does not
/// arrive in time. A `Content-Length` above the limit is rejected without reading.
pub(super) async fn read_within(
    headers: &HeaderMap,
    mut body: Body,
    limits: BodyLimits<'_>,
) -> Result<(Bytes, BodyReservation), Problem> {
    let mut reservation = limits.budget.reserve();
    let max = limits.bytes_max;
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if length.is_some_and(|length: u64| length > max as u64) {
        return Err(too_large_error(max));
    }
    let deadline = Instant::now() + limits.timeout;
    let mut bytes = BytesMut::new();
    loop {
        let stalled = Instant::now() + limits.stall_timeout;
        let frame = timeout_at(stalled.min(deadline), body.frame()).await;
        let Some(frame) = frame.map_err(|_elapsed| timeout_error())? else {
            break;
        };
        let frame = frame.map_err(|error| {
            tracing::debug!(%error, "a request body ended early");
            error::invalid("body", "it ended early")
        })?;
        // Trailers are ignored.
        let Ok(chunk) = frame.into_data() else {
            continue;
        };
        if bytes.len() + chunk.len() > max {
            return Err(too_large_error(max));
        }
        reservation.grow(chunk.len())?;
        bytes.extend_from_slice(&chunk);
    }
    Ok((bytes.freeze(), reservation))
}

fn too_large_error(max: usize) -> Problem {
    let detail = format!("the body exceeds the limit of {max} bytes");
    Problem::new(ErrorKind::Invalid, "too_large", detail).status(413)
}

fn timeout_error() -> Problem {
    let detail = "the body did not arrive in time: send it again";
    Problem::new(ErrorKind::Timeout, "body_timeout", detail).status(408)
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;
    use crate::config::Limits;

    fn pieces(pieces: Vec<&'static [u8]>) -> Body {
        let pieces = pieces.into_iter().map(|chunk| Ok::<_, std::io::Error>(Bytes::from(chunk)));
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
        let problem = read_all(pieces(vec![b"ab", b"cde"]), 4, &budget).await.unwrap_err();
        assert_eq!((problem.status, problem.code.as_str()), (413, "too_large"));
        assert_eq!(budget.used.load(Ordering::Relaxed), 0, "the reservation is released");
    }

    #[tokio::test]
    async fn a_length_that_is_too_much_is_refused_unread() {
        let budget = BodyBudget::new(100);
        let headers = HeaderMap::from_iter([(CONTENT_LENGTH, "5".parse().unwrap())]);
        let body = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        let problem = read_within(&headers, body, limits(4, &budget)).await.unwrap_err();
        assert_eq!(problem.status, 413);
    }

    #[tokio::test]
    async fn all_bodies_together_have_a_limit() {
        let (none, budget) = (HeaderMap::new(), BodyBudget::new(6));
        let body = pieces(vec![b"abcd"]);
        let reserved = read_within(&none, body, limits(9, &budget)).await.unwrap();
        let problem = read_all(pieces(vec![b"abc"]), 9, &budget).await.unwrap_err();
        assert_eq!((problem.status, problem.code.as_str()), (503, "overloaded"));
        drop(reserved);
        assert!(read_all(pieces(vec![b"abc"]), 9, &budget).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stands_still_or_trickles_is_given_up() {
        let budget = BodyBudget::new(10_000);
        let stalled_body = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        let started = Instant::now();
        let problem = read_all(stalled_body, 4, &budget).await.unwrap_err();
        assert_eq!((problem.status, started.elapsed().as_secs()), (408, 30));
        let trickle = stream::unfold((), |()| async {
            tokio::time::sleep(std::time::Duration::from_secs(29)).await;
            Some((Ok::<_, std::io::Error>(Bytes::from_static(b"x")), ()))
        });
        let started = Instant::now();
        let problem = read_all(Body::from_stream(trickle), 999, &budget).await.unwrap_err();
        assert_eq!((problem.status, started.elapsed().as_secs()), (408, 300));
    }
}
