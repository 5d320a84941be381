//! Requests in a second: a bucket for each caller.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use provost_api::Problem;
use provost_core::ErrorKind;
use tokio::time::Instant;

use super::{ClientAddr, Route};
use crate::auth::{self, Principal};
use crate::error::ApiError;

/// Callers that are remembered at most.
const CALLERS_MAX: usize = 20_000;

const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// Finds out who calls and counts the request in the caller's bucket. A caller without a valid token is counted by address; a
/// caller in the same process is not counted.
pub(super) async fn enforce(
    State(Route { app, endpoint }): State<Route>,
    mut request: Request,
    next: Next,
) -> Response {
    let nowhere = ClientAddr::Remote(Ipv4Addr::UNSPECIFIED.into());
    let peer = match request.extensions().get().copied().unwrap_or(nowhere) {
        ClientAddr::Remote(peer) => peer,
        ClientAddr::InProcess => {
            request.extensions_mut().insert(Arc::new(Principal::local()));
            return next.run(request).await;
        }
    };
    let access = endpoint.access(app.options());
    let found = auth::identify(&app, access, request.headers(), peer).await;
    let token = found.as_ref().ok().and_then(|principal| principal.token.clone());
    let status = app.rates().take(token.map_or(Caller::Peer(peer), Caller::Token));
    let refused = status.and_then(|status| status.refused());
    let mut response = match refused.map_or(found, Err) {
        Ok(principal) => {
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        Err(problem) => ApiError::from(problem).into_response(),
    };
    if let Some(status) = status {
        status.write(response.headers_mut());
    }
    response
}

/// Whose bucket.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Caller {
    /// Whoever has this token.
    Token(String),
    /// Whoever has none, by address.
    Peer(IpAddr),
}

/// How a caller stands after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Requests that may come at once.
    pub(crate) limit: u32,
    /// Requests that may still come now.
    pub(crate) remaining: u32,
    /// Until the bucket is full again.
    pub(crate) reset: Duration,
    /// Until the next request is taken, if this one was refused.
    pub(crate) wait: Option<Duration>,
}

impl Standing {
    /// Tells the caller.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        headers.insert(LIMIT, HeaderValue::from(self.limit));
        headers.insert(REMAINING, HeaderValue::from(self.remaining));
        headers.insert(RESET, HeaderValue::from(self.reset.as_millis().div_ceil(1000) as u64));
    }

    /// The refusal, if it was refused.
    pub(crate) fn refused(&self) -> Option<Problem> {
        let wait = self.wait?;
        let detail = "too many requests: come back after the time in `Retry-After`";
        let mut problem = Problem::new(ErrorKind::RateLimited, "rate_limited", detail);
        problem.retry_after_ms = Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1));
        Some(problem)
    }
}

/// The buckets. Each fills by `rate` in a second and holds `burst`.
pub(crate) struct Rates {
    rate: f64,
    burst: u32,
    buckets: Mutex<HashMap<Caller, Bucket>>,
}

struct Bucket {
    level: f64,
    at: Instant,
}

impl Rates {
    pub(crate) fn new(rate: u32, burst: u32) -> Self {
        Self { rate: f64::from(rate), burst: burst.max(1), buckets: Mutex::default() }
    }

    /// Takes one request out of a bucket. Nothing is counted if there is no limit.
    pub(crate) fn take(&self, caller: Caller) -> Option<Standing> {
        if self.rate <= 0.0 {
            return None;
        }
        let (now, burst) = (Instant::now(), f64::from(self.burst));
        // Nothing that can fail happens under this lock.
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= CALLERS_MAX && !buckets.contains_key(&caller) {
            // A bucket that is full again says nothing. If all callers are busy, they all start anew.
            buckets.retain(|_, bucket| self.level(bucket, now) < burst);
            if buckets.len() >= CALLERS_MAX {
                buckets.clear();
            }
        }
        let bucket = buckets.entry(caller).or_insert(Bucket { level: burst, at: now });
        let level = self.level(bucket, now);
        let taken = level >= 1.0;
        *bucket = Bucket { level: if taken { level - 1.0 } else { level }, at: now };
        let (level, seconds) = (bucket.level, |missing: f64| {
            Duration::from_secs_f64((missing / self.rate).clamp(0.0, 86_400.0))
        });
        Some(Standing {
            limit: self.burst,
            remaining: level as u32,
            reset: seconds(burst - level),
            wait: (!taken).then(|| seconds(1.0 - level)),
        })
    }

    fn level(&self, bucket: &Bucket, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(bucket.at).as_secs_f64();
        (bucket.level + passed * self.rate).min(f64::from(self.burst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u32) -> Caller {
        Caller::Peer(IpAddr::from(number.to_be_bytes()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_bucket_empties_and_fills() {
        let rates = Rates::new(10, 3);
        let take = || rates.take(peer(1)).unwrap();
        assert_eq!((take().remaining, take().remaining, take().remaining), (2, 1, 0));
        let refused = take();
        assert_eq!(refused.wait, Some(Duration::from_millis(100)));
        assert_eq!(refused.refused().unwrap().retry_after_ms, Some(100));
        assert!(rates.take(peer(2)).unwrap().wait.is_none(), "others have buckets of their own");
        tokio::time::advance(Duration::from_millis(100)).await;
        assert_eq!((take().wait, take().wait.is_some()), (None, true));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(take().remaining, 2, "a bucket holds no more than a burst");
    }

    #[tokio::test(start_paused = true)]
    async fn callers_cannot_fill_the_memory() {
        let rates = Rates::new(1, 2);
        for number in 0..CALLERS_MAX as u32 + 5 {
            rates.take(peer(number));
        }
        assert!(rates.buckets.lock().unwrap().len() <= CALLERS_MAX);
        assert!(Rates::new(0, 1).take(peer(1)).is_none());
    }
}
