//! Exponential backoff, as a pure value: the caller waits, and adds randomness if many callers retry together.

use std::time::Duration;

/// Delays that double after each failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// First delay.
    pub first: Duration,
    /// Maximum delay.
    pub max: Duration,
}

impl Backoff {
    /// Returns the delay after `doublings` earlier delays: twice as long each time, up to the maximum.
    pub fn wait(self, doublings: u32) -> Duration {
        let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let backoff =
            Backoff { first: Duration::from_millis(100), max: Duration::from_millis(1000) };
        let waits: Vec<u128> = (0..6).map(|n| backoff.wait(n).as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1000, 1000]);
        assert_eq!(backoff.wait(u32::MAX), backoff.max);
        let longest = Backoff { first: Duration::MAX, max: Duration::MAX };
        assert_eq!(longest.wait(40), Duration::MAX, "no overflow");
    }
}
