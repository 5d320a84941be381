//! Retries of runs, as a pure decision.

use std::collections::BTreeSet;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::env::time::millis;
use crate::execution_policy::PolicyError;
use crate::recovery::{OutcomeCode, RetryClass};
use crate::text::string_enum::string_enum;
use crate::usage::limits::{
    ATTEMPTS_DEFAULT, ATTEMPTS_MAX, RETRY_CAP, RETRY_DELAY_DEFAULT, RETRY_FACTOR_DEFAULT,
    RETRY_FACTOR_MAX,
};

string_enum! {
    /// Randomization of a delay, so that many failed runs do not retry at the same time.
    #[derive(Default)]
    Jitter, "a jitter" {
        /// A random delay from zero to the full delay.
        #[default]
        Full = "full",
        /// Exactly the delay.
        None = "none",
    }
}

/// Retry policy of a run.
///
/// The default is 3 attempts with a growing delay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetryPolicy {
    /// Maximum number of attempts, including the first.
    pub max_attempts: u32,
    /// First delay. Zero retries immediately.
    #[serde(rename = "delay_ms", with = "millis")]
    #[schemars(with = "u64")]
    pub delay: Duration,
    /// Factor by which each further delay grows.
    pub factor: u32,
    /// Maximum delay, except for delays that a provider requests.
    #[serde(rename = "cap_ms", with = "millis")]
    #[schemars(with = "u64")]
    pub cap: Duration,
    /// Randomization of delays.
    pub jitter: Jitter,
    /// Outcomes that are retried. `None` means all outcomes whose retry class is not `never`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_on: Option<BTreeSet<OutcomeCode>>,
    /// True to pause a run after its last attempt, for an operator, instead of ending it.
    pub pause_at_end: bool,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: ATTEMPTS_DEFAULT,
            delay: RETRY_DELAY_DEFAULT,
            factor: RETRY_FACTOR_DEFAULT,
            cap: RETRY_CAP,
            jitter: Jitter::default(),
            retry_on: None,
            pause_at_end: false,
        }
    }
}

impl RetryPolicy {
    /// Returns a policy with a single attempt.
    pub fn never() -> Self {
        Self { max_attempts: 1, ..Self::default() }
    }

    /// Fails for the first invalid value.
    pub fn validate(&self) -> Result<(), PolicyError> {
        if !(1..=ATTEMPTS_MAX).contains(&self.max_attempts) {
            return Err(PolicyError::invalid(
                "policy.retry.max_attempts",
                format!("{} attempts are out of range", self.max_attempts),
                format!("use 1 to {ATTEMPTS_MAX}; 1 never tries again"),
            ));
        }
        if !(1..=RETRY_FACTOR_MAX).contains(&self.factor) {
            return Err(PolicyError::invalid(
                "policy.retry.factor",
                format!("{} is out of range", self.factor),
                format!("use 1 to {RETRY_FACTOR_MAX}; 1 waits equally long each time"),
            ));
        }
        let final_code = |code: &&OutcomeCode| code.retry_class() == RetryClass::Never;
        if let Some(code) = self.retry_on.iter().flatten().find(final_code) {
            return Err(PolicyError::invalid(
                "policy.retry.retry_on",
                format!("`{code}` is final"),
                "leave it out",
            ));
        }
        Ok(())
    }

    /// Returns the normal form: all values within their limits.
    #[must_use]
    pub fn normalized(mut self) -> Self {
        self.max_attempts = self.max_attempts.clamp(1, ATTEMPTS_MAX);
        self.factor = self.factor.clamp(1, RETRY_FACTOR_MAX);
        self.cap = self.cap.min(RETRY_CAP);
        self.delay = self.delay.min(self.cap);
        self
    }

    /// Returns true if the policy retries this outcome.
    pub fn retries(&self, code: OutcomeCode) -> bool {
        code.retry_class() != RetryClass::Never
            && self.retry_on.as_ref().is_none_or(|codes| codes.contains(&code))
    }

    /// Returns the delay before the attempt after `attempt` (1 is the first), or `None` if that was the last one.
    ///
    /// A delay that the provider requested always applies, with a small random addition. `chance` is a random number in
    /// `0.0 ..= 1.0`.
    pub fn next_delay(
        &self,
        attempt: u32,
        retry_after: Option<Duration>,
        chance: f64,
    ) -> Option<Duration> {
        if attempt >= self.max_attempts {
            return None;
        }
        Some(match (retry_after, self.jitter) {
            (Some(asked), _) => asked.saturating_add(share(asked / 10, chance)),
            (None, Jitter::Full) => share(self.ceiling(attempt), chance),
            (None, Jitter::None) => self.ceiling(attempt),
        })
    }

    /// Returns the delay after an attempt without jitter, limited by the cap.
    fn ceiling(&self, attempt: u32) -> Duration {
        grown(self.delay, self.factor, attempt.saturating_sub(1)).min(self.cap)
    }
}

/// Returns `first` times `factor` to the power of `times`.
pub(crate) fn grown(first: Duration, factor: u32, times: u32) -> Duration {
    first.saturating_mul(factor.saturating_pow(times))
}

/// Returns a fraction of a duration. Very long durations are inexact, and rounding up must not overflow.
pub(crate) fn share(time: Duration, part: f64) -> Duration {
    Duration::try_from_secs_f64(time.as_secs_f64() * part.clamp(0.0, 1.0)).unwrap_or(time)
}

#[cfg(test)]
mod tests;
