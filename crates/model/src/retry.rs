//! Whether a failed call is tried again, and when: a pure decision.

use std::time::Duration;

use provost_core::Backoff;

use crate::ModelError;

/// How often and how patiently a model call is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Tries after the first one.
    pub max_retries: u32,
    /// The first wait is a random time up to this; each further one up to twice the one before.
    pub base: Duration,
    /// No wait that we choose is longer.
    pub cap: Duration,
    /// The longest wait a provider may ask for; if it asks for more the call fails and says so.
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
    /// Never tries again.
    pub fn never() -> Self {
        Self { max_retries: 0, ..Self::default() }
    }

    /// How long to wait before the next try, or `None` if the call has failed for good.
    ///
    /// `retries` counts the tries after the first that were already made, `left` is the time until the deadline and
    /// `chance` a random number in `0.0 ..= 1.0`.
    pub fn decide(
        &self,
        error: &ModelError,
        retries: u32,
        left: Option<Duration>,
        chance: f64,
    ) -> Option<Duration> {
        if retries >= self.max_retries || !error.kind().retryable() {
            return None;
        }
        let wait = match error.retry_after {
            Some(asked) if asked > self.retry_after_max => return None,
            // A little more than asked, so that many waiting callers do not come back at the same moment.
            Some(asked) => asked.saturating_add(share(asked / 10, chance)),
            None => {
                let backoff = Backoff { first: self.base, max: self.cap };
                share(backoff.wait(retries), chance)
            }
        };
        let too_late = left.is_some_and(|left| wait >= left);
        (!too_late).then_some(wait)
    }
}

/// A part of a time. The longest times have no exact number, and rounding up from them must not panic.
fn share(time: Duration, part: f64) -> Duration {
    Duration::try_from_secs_f64(time.as_secs_f64() * part).unwrap_or(time)
}

#[cfg(test)]
mod tests;
