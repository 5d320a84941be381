//! Whether a run is tried again, and when: a pure decision.

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
    /// How a wait is spread, so that many that failed together do not come back together.
    #[derive(Default)]
    Jitter, "a jitter" {
        /// A random time from nothing to the whole wait.
        #[default]
        Full = "full",
        /// Exactly the wait.
        None = "none",
    }
}

/// How a run is tried again after an attempt failed.
///
/// The default is 3 attempts with a growing wait. (The package this follows used 2 without any wait.)
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetryPolicy {
    /// Attempts in all, the first one included.
    pub max_attempts: u32,
    /// The first wait; zero tries again at once.
    #[serde(rename = "delay_ms", with = "millis")]
    #[schemars(with = "u64")]
    pub delay: Duration,
    /// How many times longer each further wait is.
    pub factor: u32,
    /// No wait that we choose is longer.
    #[serde(rename = "cap_ms", with = "millis")]
    #[schemars(with = "u64")]
    pub cap: Duration,
    /// How a wait is spread.
    pub jitter: Jitter,
    /// The outcomes that are tried again; without a list, all whose retry class is not `never`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_on: Option<BTreeSet<OutcomeCode>>,
    /// True if a run whose attempts are used up waits for an operator instead of ending.
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
    /// One attempt and no more.
    pub fn never() -> Self {
        Self { max_attempts: 1, ..Self::default() }
    }

    /// Checks every bound.
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

    /// The normal form: within the bounds, and no first wait that is longer than the longest.
    #[must_use]
    pub fn normalized(mut self) -> Self {
        self.max_attempts = self.max_attempts.clamp(1, ATTEMPTS_MAX);
        self.factor = self.factor.clamp(1, RETRY_FACTOR_MAX);
        self.cap = self.cap.min(RETRY_CAP);
        self.delay = self.delay.min(self.cap);
        self
    }

    /// Is this outcome one that is tried again at all?
    pub fn retries(&self, code: OutcomeCode) -> bool {
        code.retry_class() != RetryClass::Never
            && self.retry_on.as_ref().is_none_or(|codes| codes.contains(&code))
    }

    /// How long to wait after `attempt` (1 is the first) before the next one, or `None` if that was the last.
    ///
    /// What the other side asked for is honoured, however long, and spread a little. `chance` is a random number in
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

    fn ceiling(&self, attempt: u32) -> Duration {
        grown(self.delay, self.factor, attempt.saturating_sub(1)).min(self.cap)
    }
}

/// `first` times `factor` to the power of `times`.
pub(crate) fn grown(first: Duration, factor: u32, times: u32) -> Duration {
    first.saturating_mul(factor.saturating_pow(times))
}

/// A part of a time. The longest times have no exact number, and rounding up from them must not panic.
pub(crate) fn share(time: Duration, part: f64) -> Duration {
    Duration::try_from_secs_f64(time.as_secs_f64() * part.clamp(0.0, 1.0)).unwrap_or(time)
}

#[cfg(test)]
mod tests;
