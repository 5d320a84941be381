//! A circuit breaker: an endpoint that keeps failing is left alone for a while. Pure: whoever asks brings the time.
//!
//! Closed lets everything through. So many failures in a row open it, and nobody is let through until a while has passed; then one
//! call may try. If that one succeeds it is closed again, if not it is open for twice as long as before.

use std::time::Duration;

use provost_core::Backoff;
use tokio::time::Instant;

/// When a breaker opens and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerPolicy {
    /// Failures in a row that open it.
    pub failures: u32,
    /// How long it stays open the first time; each further time twice as long.
    pub open_for: Duration,
    /// It is never open longer than this at once.
    pub open_max: Duration,
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        Self { failures: 5, open_for: Duration::from_secs(15), open_max: Duration::from_secs(300) }
    }
}

/// How a breaker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// Calls go through.
    Closed,
    /// No call goes through.
    Open,
    /// One call tries whether it works again.
    HalfOpen,
}

/// What a call that was let through brings back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BreakerPass {
    /// The count of openings when it began: what a call of an older time says does not count.
    generation: u32,
    probe: bool,
}

#[derive(Debug)]
pub(crate) struct CircuitBreaker {
    policy: BreakerPolicy,
    failures: u32,
    /// Openings since the last success.
    openings: u32,
    generation: u32,
    open_until: Option<Instant>,
    probing: bool,
}

impl CircuitBreaker {
    pub(crate) fn new(policy: BreakerPolicy) -> Self {
        let (failures, openings, generation) = (0, 0, 0);
        Self { policy, failures, openings, generation, open_until: None, probing: false }
    }

    pub(crate) fn state(&self, now: Instant) -> BreakerState {
        match self.open_until {
            None => BreakerState::Closed,
            Some(until) if now < until => BreakerState::Open,
            Some(_) => BreakerState::HalfOpen,
        }
    }

    /// How long until a call may go through; nothing if one may now.
    pub(crate) fn retry_in(&self, now: Instant) -> Duration {
        match (self.open_until, self.probing) {
            (None, _) => Duration::ZERO,
            (Some(until), _) if now < until => until - now,
            (Some(_), false) => Duration::ZERO,
            // Somebody tries at this moment; when that fails it is open for this long.
            (Some(_), true) => self.opening(),
        }
    }

    /// Lets a call through, if one may go through.
    pub(crate) fn admit(&mut self, now: Instant) -> Option<BreakerPass> {
        if !self.retry_in(now).is_zero() {
            return None;
        }
        let probe = self.open_until.is_some();
        self.probing |= probe;
        Some(BreakerPass { generation: self.generation, probe })
    }

    pub(crate) fn succeeded(&mut self, pass: BreakerPass) {
        if pass.generation != self.generation {
            return;
        }
        (self.failures, self.openings) = (0, 0);
        (self.open_until, self.probing) = (None, false);
    }

    /// True if this failure has opened it.
    pub(crate) fn failed(&mut self, pass: BreakerPass, now: Instant) -> bool {
        if pass.generation != self.generation {
            return false;
        }
        self.failures = self.failures.saturating_add(1);
        if !pass.probe && self.failures < self.policy.failures {
            return false;
        }
        self.open_until = Some(now + self.opening());
        self.openings = self.openings.saturating_add(1);
        self.generation = self.generation.wrapping_add(1);
        (self.failures, self.probing) = (0, false);
        true
    }

    /// The call ended without saying whether the endpoint works.
    pub(crate) fn abandoned(&mut self, pass: BreakerPass) {
        if pass.generation == self.generation && pass.probe {
            self.probing = false;
        }
    }

    fn opening(&self) -> Duration {
        let BreakerPolicy { open_for, open_max, .. } = self.policy;
        Backoff { first: open_for, max: open_max }.wait(self.openings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn breaker() -> (CircuitBreaker, Instant) {
        let policy = BreakerPolicy { failures: 3, open_for: 10 * SECOND, open_max: 30 * SECOND };
        (CircuitBreaker::new(policy), Instant::now())
    }

    fn fail(breaker: &mut CircuitBreaker, now: Instant) -> bool {
        let pass = breaker.admit(now).unwrap();
        breaker.failed(pass, now)
    }

    #[test]
    fn failures_in_a_row_open_it_and_a_success_between_them_does_not() {
        let (mut breaker, now) = breaker();
        assert!(!fail(&mut breaker, now) && !fail(&mut breaker, now));
        let pass = breaker.admit(now).unwrap();
        breaker.succeeded(pass);
        assert!(!fail(&mut breaker, now) && !fail(&mut breaker, now));
        assert!(fail(&mut breaker, now), "the third in a row");
        assert_eq!(breaker.state(now), BreakerState::Open);
        assert_eq!((breaker.admit(now), breaker.retry_in(now)), (None, 10 * SECOND));
    }

    #[test]
    fn one_call_tries_and_its_end_decides() {
        let (mut breaker, now) = breaker();
        assert_eq!((0..3).map(|_| fail(&mut breaker, now)).filter(|opened| *opened).count(), 1);
        let later = now + 10 * SECOND;
        assert_eq!(breaker.state(later), BreakerState::HalfOpen);
        let probe = breaker.admit(later).unwrap();
        assert_eq!(breaker.admit(later), None, "only one");
        assert!(breaker.failed(probe, later), "one failure is enough now");
        assert_eq!(breaker.retry_in(later), 20 * SECOND, "twice as long");
        let later = later + 20 * SECOND;
        let probe = breaker.admit(later).unwrap();
        breaker.failed(probe, later);
        assert_eq!(breaker.retry_in(later), 30 * SECOND, "but not for ever longer");
        let later = later + 30 * SECOND;
        let probe = breaker.admit(later).unwrap();
        breaker.abandoned(probe);
        let probe = breaker.admit(later).unwrap();
        breaker.succeeded(probe);
        assert_eq!(breaker.state(later), BreakerState::Closed);
        assert!(!fail(&mut breaker, later), "it begins anew");
    }

    #[test]
    fn what_an_old_call_says_does_not_count() {
        let (mut breaker, now) = breaker();
        let old = breaker.admit(now).unwrap();
        assert_eq!((0..3).map(|_| fail(&mut breaker, now)).filter(|opened| *opened).count(), 1);
        breaker.succeeded(old);
        assert_eq!(breaker.state(now), BreakerState::Open);
        assert!(!breaker.failed(old, now));
        assert_eq!(breaker.retry_in(now), 10 * SECOND);
    }
}
