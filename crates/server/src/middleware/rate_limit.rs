//! Limits the request rate with a token bucket per caller.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use parking_lot::Mutex;
use provost_api::Problem;
use provost_core::ErrorKind;
use tokio::time::Instant;

use super::{ClientAddr, Route};
use crate::auth::{self, Principal};
use crate::error::ApiError;

/// Maximum number of buckets.
const CALLERS_MAX: usize = 20_000;

const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// Authenticates the caller and counts the request in its bucket. Callers without a valid token are counted by address. Callers
/// in the same process are not counted.
pub(super) async fn enforce(
    State(Route { app, endpoint }): State<Route>,
    mut request: Request,
    next: Next,
) -> Response {
    let unknown = ClientAddr::Remote(Ipv4Addr::UNSPECIFIED.into());
    let peer = match request.extensions().get().copied().unwrap_or(unknown) {
        ClientAddr::Remote(peer) => peer,
        ClientAddr::InProcess => {
            request.extensions_mut().insert(Arc::new(Principal::local()));
            return next.run(request).await;
        }
    };
    let access = endpoint.access(app.options());
    let found = auth::authenticate(&app, access, request.headers()).await;
    let token = found.as_ref().ok().and_then(|principal| principal.token.clone());
    let status =
        app.rate_limiter().take(token.map_or(RateLimitKey::Address(peer), RateLimitKey::Token));
    let rejection = status.and_then(|status| status.rejection());
    let mut response = match rejection.map_or(found, Err) {
        Ok(principal) => {
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        Err(problem) => ApiError::from(problem).into_response(),
    };
    if let Some(status) = status {
        status.write_headers(response.headers_mut());
    }
    response
}

/// Caller whose requests are counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum RateLimitKey {
    /// A token.
    Token(String),
    /// The address of a caller without a token.
    Address(IpAddr),
}

/// Remaining requests of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateLimitStatus {
    /// Size of the bucket.
    pub(crate) limit: u32,
    /// Number of requests that are available now.
    pub(crate) remaining: u32,
    /// Time until the bucket is full.
    pub(crate) reset: Duration,
    /// Time until the next request is accepted. `None` if this request was accepted.
    pub(crate) retry_after: Option<Duration>,
}

impl RateLimitStatus {
    /// Adds the rate limit headers to a response.
    pub(crate) fn write_headers(&self, headers: &mut HeaderMap) {
        headers.insert(LIMIT, HeaderValue::from(self.limit));
        headers.insert(REMAINING, HeaderValue::from(self.remaining));
        headers.insert(RESET, HeaderValue::from(self.reset.as_millis().div_ceil(1000) as u64));
    }

    /// Returns the problem of a rejected request. `None` if the request was accepted.
    pub(crate) fn rejection(&self) -> Option<Problem> {
        let retry_after = self.retry_after?;
        let detail = "too many requests: try again after the time in `Retry-After`";
        let mut problem = Problem::new(ErrorKind::RateLimited, "rate_limited", detail);
        problem.retry_after_ms =
            Some(u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX).max(1));
        Some(problem)
    }
}

/// The buckets of all callers. Each holds `burst` requests and is refilled with `rate` requests per second.
pub(crate) struct RateLimiter {
    rate: f64,
    burst: u32,
    buckets: Mutex<HashMap<RateLimitKey, Bucket>>,
}

/// Available requests of a caller at a time.
struct Bucket {
    level: f64,
    at: Instant,
}

impl RateLimiter {
    pub(crate) fn new(rate: u32, burst: u32) -> Self {
        Self { rate: f64::from(rate), burst: burst.max(1), buckets: Mutex::default() }
    }

    /// Counts one request of a caller, and returns its status. `None` if there is no limit. Removes full buckets if
    /// there are too many.
    pub(crate) fn take(&self, caller: RateLimitKey) -> Option<RateLimitStatus> {
        if self.rate <= 0.0 {
            return None;
        }
        let (now, burst) = (Instant::now(), f64::from(self.burst));
        // No code that can panic runs under this lock.
        let mut buckets = self.buckets.lock();
        if buckets.len() >= CALLERS_MAX && !buckets.contains_key(&caller) {
            // Full buckets have no state to keep. If all callers are active, all buckets are reset.
            buckets.retain(|_, bucket| self.level(bucket, now) < burst);
            if buckets.len() >= CALLERS_MAX {
                buckets.clear();
            }
        }
        let bucket = buckets.entry(caller).or_insert(Bucket { level: burst, at: now });
        let level = self.level(bucket, now);
        let is_allowed = level >= 1.0;
        *bucket = Bucket { level: if is_allowed { level - 1.0 } else { level }, at: now };
        let (level, seconds) = (bucket.level, |missing: f64| {
            Duration::from_secs_f64((missing / self.rate).clamp(0.0, 86_400.0))
        });
        Some(RateLimitStatus {
            limit: self.burst,
            remaining: level as u32,
            reset: seconds(burst - level),
            retry_after: (!is_allowed).then(|| seconds(1.0 - level)),
        })
    }

    /// Returns the number of available requests of a bucket.
    fn level(&self, bucket: &Bucket, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(bucket.at).as_secs_f64();
        (bucket.level + passed * self.rate).min(f64::from(self.burst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> RateLimitKey {
        RateLimitKey::Address(IpAddr::from(number.to_be_bytes()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_bucket_empties_and_fills() {
        let limiter = RateLimiter::new(10, 3);
        let take = || limiter.take(address(1)).unwrap();
        assert_eq!((take().remaining, take().remaining, take().remaining), (2, 1, 0));
        let rejection = take();
        assert_eq!(rejection.retry_after, Some(Duration::from_millis(100)));
        assert_eq!(rejection.rejection().unwrap().retry_after_ms, Some(100));
        assert!(
            limiter.take(address(2)).unwrap().retry_after.is_none(),
            "other callers have their own buckets"
        );
        tokio::time::advance(Duration::from_millis(100)).await;
        assert_eq!((take().retry_after, take().retry_after.is_some()), (None, true));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(take().remaining, 2, "a bucket never exceeds the burst");
    }

    #[tokio::test(start_paused = true)]
    async fn callers_cannot_fill_the_memory() {
        let limiter = RateLimiter::new(1, 2);
        for number in 0..CALLERS_MAX as u32 + 5 {
            limiter.take(address(number));
        }
        assert!(limiter.buckets.lock().len() <= CALLERS_MAX);
        assert!(RateLimiter::new(0, 1).take(address(1)).is_none());
    }
}
