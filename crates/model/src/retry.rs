//! Decides whether and when a failed call is retried. Pure.

use std::time::Duration;

use provost_core::Backoff;

use crate::ModelError;

/// Limit and delays of the retries of a model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Largest number of retries after the first attempt.
    pub max_retries: u32,
    /// Upper bound of the first random delay. It doubles with each retry.
    pub base: Duration,
    /// Largest delay that the policy chooses.
    pub cap: Duration,
    /// Largest delay that a provider may request. If the provider requests more, the call fails.
    pub retry_after_max: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_retries: 4,
            base: Duration::from_millis(500),
            cap: Duration::from_secs(30),
            retry_after_max: Duration::from_secs(120),
        }
    }
}

impl RetryPolicy {
    /// Returns a policy without retries.
    pub fn never() -> Self {
        Self { max_retries: 0, ..Self::default() }
    }

    /// Returns the delay before the next attempt. `None` if the call must not be retried: the error is not retryable,
    /// no retry is left, the requested delay is too long, or the deadline would pass.
    ///
    /// `retries` is the number of retries so far, `time_left` is the time until the deadline and `jitter` is a random
    /// number in `0.0 ..= 1.0`.
    pub fn next_delay(
        &self,
        error: &ModelError,
        retries: u32,
        time_left: Option<Duration>,
        jitter: f64,
    ) -> Option<Duration> {
        if retries >= self.max_retries || !error.kind().retryable() {
            return None;
        }
        let wait = match error.retry_after {
            Some(requested) if requested > self.retry_after_max => return None,
            // Up to a tenth more than requested, so that the waiting callers do not all retry at the same moment.
            Some(requested) => requested.saturating_add(share(requested / 10, jitter)),
            None => {
                let backoff = Backoff { first: self.base, max: self.cap };
                share(backoff.wait(retries), jitter)
            }
        };
        let exceeds_deadline = time_left.is_some_and(|time_left| wait >= time_left);
        (!exceeds_deadline).then_some(wait)
    }
}

/// Returns a fraction of a duration. Rounding the longest durations can overflow, and then the whole duration is
/// returned.
fn share(time: Duration, part: f64) -> Duration {
    Duration::try_from_secs_f64(time.as_secs_f64() * part).unwrap_or(time)
}

#[cfg(test)]
mod tests;
