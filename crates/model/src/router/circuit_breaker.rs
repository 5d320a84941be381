//! A circuit breaker, which stops calls to an endpoint that keeps failing. Pure: callers pass the time.
//!
//! A closed breaker admits all calls. A number of consecutive failures opens it. After a while the open breaker admits
//! one probe. If the probe succeeds, the breaker closes; if it fails, the breaker opens again for twice as long.

use std::time::Duration;

use provost_core::Backoff;
use tokio::time::Instant;

/// Number of failures that open a circuit breaker, and how long it stays open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitBreakerConfig {
    /// Number of consecutive failures that opens the breaker.
    pub failures: u32,
    /// Time for which the breaker opens at first. It doubles with each failed probe.
    pub open_for: Duration,
    /// Longest time for which the breaker opens.
    pub open_max: Duration,
}

impl Default for CircuitBreakerConfig {
    fn default() -> Self {
        Self { failures: 5, open_for: Duration::from_secs(15), open_max: Duration::from_secs(300) }
    }
}

/// State of a circuit breaker: closed, open or half-open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CircuitState {
    /// All calls are admitted.
    Closed,
    /// No call is admitted.
    Open,
    /// One call is admitted as a probe.
    HalfOpen,
}

/// Proof that the breaker admitted a call. The caller returns it with the result of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BreakerAdmission {
    /// Generation of the breaker when the call started. Results of an older generation are ignored.
    generation: u32,
    is_probe: bool,
}

/// Rejects calls for a period after consecutive failures. After the period, it admits a single call as a probe.
#[derive(Debug)]
pub(crate) struct CircuitBreaker {
    config: CircuitBreakerConfig,
    failures: u32,
    /// Number of openings since the last success.
    openings: u32,
    generation: u32,
    open_until: Option<Instant>,
    is_probing: bool,
}

impl CircuitBreaker {
    pub(crate) fn new(config: CircuitBreakerConfig) -> Self {
        let (failures, openings, generation) = (0, 0, 0);
        Self { config, failures, openings, generation, open_until: None, is_probing: false }
    }

    /// Returns whether the breaker is closed, open or half-open.
    pub(crate) fn state(&self, now: Instant) -> CircuitState {
        match self.open_until {
            None => CircuitState::Closed,
            Some(until) if now < until => CircuitState::Open,
            Some(_) => CircuitState::HalfOpen,
        }
    }

    /// Returns the time until a call may be admitted. Zero if a call may be admitted now.
    pub(crate) fn retry_in(&self, now: Instant) -> Duration {
        match (self.open_until, self.is_probing) {
            (None, _) => Duration::ZERO,
            (Some(until), _) if now < until => until - now,
            (Some(_), false) => Duration::ZERO,
            // A probe is in progress. If it fails, the breaker opens for this long.
            (Some(_), true) => self.open_duration(),
        }
    }

    /// Admits a call. `None` if the breaker is open or a probe is in progress.
    pub(crate) fn admit(&mut self, now: Instant) -> Option<BreakerAdmission> {
        if !self.retry_in(now).is_zero() {
            return None;
        }
        let is_probe = self.open_until.is_some();
        self.is_probing |= is_probe;
        Some(BreakerAdmission { generation: self.generation, is_probe })
    }

    /// Closes the breaker and resets its counts. Ignored if the breaker has opened since the admission.
    pub(crate) fn record_success(&mut self, admission: BreakerAdmission) {
        if admission.generation != self.generation {
            return;
        }
        (self.failures, self.openings) = (0, 0);
        (self.open_until, self.is_probing) = (None, false);
    }

    /// Counts a failure. Opens the breaker if the call was a probe or the limit is reached, and returns true if it
    /// opened. Ignored if the breaker has opened since the admission.
    pub(crate) fn record_failure(&mut self, admission: BreakerAdmission, now: Instant) -> bool {
        if admission.generation != self.generation {
            return false;
        }
        self.failures = self.failures.saturating_add(1);
        if !admission.is_probe && self.failures < self.config.failures {
            return false;
        }
        self.open_until = Some(now + self.open_duration());
        self.openings = self.openings.saturating_add(1);
        self.generation = self.generation.wrapping_add(1);
        (self.failures, self.is_probing) = (0, false);
        true
    }

    /// Ends a call without a result, so that another call can be the probe.
    pub(crate) fn abandon(&mut self, admission: BreakerAdmission) {
        if admission.generation == self.generation && admission.is_probe {
            self.is_probing = false;
        }
    }

    /// Returns how long the breaker stays open. The duration grows with each opening without a success in between.
    fn open_duration(&self) -> Duration {
        let CircuitBreakerConfig { open_for, open_max, .. } = self.config;
        Backoff { first: open_for, max: open_max }.wait(self.openings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn breaker() -> (CircuitBreaker, Instant) {
        let config =
            CircuitBreakerConfig { failures: 3, open_for: 10 * SECOND, open_max: 30 * SECOND };
        (CircuitBreaker::new(config), Instant::now())
    }

    fn fail(breaker: &mut CircuitBreaker, now: Instant) -> bool {
        let admission = breaker.admit(now).unwrap();
        breaker.record_failure(admission, now)
    }

    #[test]
    fn failures_in_a_row_open_it_and_a_success_between_them_does_not() {
        let (mut breaker, now) = breaker();
        assert!(!fail(&mut breaker, now) && !fail(&mut breaker, now));
        let admission = breaker.admit(now).unwrap();
        breaker.record_success(admission);
        assert!(!fail(&mut breaker, now) && !fail(&mut breaker, now));
        assert!(fail(&mut breaker, now), "the third in a row");
        assert_eq!(breaker.state(now), CircuitState::Open);
        assert_eq!((breaker.admit(now), breaker.retry_in(now)), (None, 10 * SECOND));
    }

    #[test]
    fn one_call_tries_and_its_end_decides() {
        let (mut breaker, now) = breaker();
        assert_eq!((0..3).map(|_| fail(&mut breaker, now)).filter(|opened| *opened).count(), 1);
        let later = now + 10 * SECOND;
        assert_eq!(breaker.state(later), CircuitState::HalfOpen);
        let probe = breaker.admit(later).unwrap();
        assert_eq!(breaker.admit(later), None, "only one");
        assert!(breaker.record_failure(probe, later), "one failure is enough now");
        assert_eq!(breaker.retry_in(later), 20 * SECOND, "twice as long");
        let later = later + 20 * SECOND;
        let probe = breaker.admit(later).unwrap();
        breaker.record_failure(probe, later);
        assert_eq!(breaker.retry_in(later), 30 * SECOND, "but not for ever longer");
        let later = later + 30 * SECOND;
        let probe = breaker.admit(later).unwrap();
        breaker.abandon(probe);
        let probe = breaker.admit(later).unwrap();
        breaker.record_success(probe);
        assert_eq!(breaker.state(later), CircuitState::Closed);
        assert!(!fail(&mut breaker, later), "it begins anew");
    }

    #[test]
    fn what_an_old_call_says_does_not_count() {
        let (mut breaker, now) = breaker();
        let old = breaker.admit(now).unwrap();
        assert_eq!((0..3).map(|_| fail(&mut breaker, now)).filter(|opened| *opened).count(), 1);
        breaker.record_success(old);
        assert_eq!(breaker.state(now), CircuitState::Open);
        assert!(!breaker.record_failure(old, now));
        assert_eq!(breaker.retry_in(now), 10 * SECOND);
    }
}
