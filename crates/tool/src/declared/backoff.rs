//! The delay between attempts.

use std::time::Duration;

use provost_core::resource::{RetrySpec, ToolRetryJitter};
use provost_core::{Backoff, Env};

/// Returns the delay after an attempt, counted from 1. Jitter spreads the retries of several callers.
pub(super) fn delay(retry: &RetrySpec, attempt: u32, env: &Env) -> Duration {
    let backoff = Backoff { first: retry.backoff.0, max: retry.max_backoff.0 };
    let longest = backoff.wait(attempt.saturating_sub(1));
    match retry.jitter {
        ToolRetryJitter::None => longest,
        ToolRetryJitter::Full => longest.mul_f64(env.random_unit()),
        ToolRetryJitter::Equal => longest / 2 + (longest / 2).mul_f64(env.random_unit()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use provost_core::resource::HumanDuration;

    use super::*;

    fn retry(backoff_ms: u64, max_ms: u64, jitter: ToolRetryJitter) -> RetrySpec {
        RetrySpec {
            max_attempts: 20,
            backoff: HumanDuration(Duration::from_millis(backoff_ms)),
            max_backoff: HumanDuration(Duration::from_millis(max_ms)),
            jitter,
        }
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let retry = retry(100, 1000, ToolRetryJitter::None);
        let pauses: Vec<_> =
            (1..=6).map(|n| delay(&retry, n, &Env::system()).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1000, 1000]);
        let long = super::tests::retry(u64::MAX / 2, u64::MAX, ToolRetryJitter::None);
        assert!(delay(&long, 20, &Env::system()) > Duration::from_secs(1), "no overflow");
    }

    #[test]
    fn chance_is_true_and_stays_in_bounds() {
        let env = Env::system();
        for (jitter, least) in [(ToolRetryJitter::Full, 0.0), (ToolRetryJitter::Equal, 0.5)] {
            let retry = retry(100_000, 1_000_000, jitter);
            let pauses: HashSet<Duration> = (0..500).map(|_| delay(&retry, 2, &env)).collect();
            let whole = Duration::from_millis(200_000);
            assert!(pauses.len() > 450, "callers must not come back in step");
            assert!(pauses.iter().all(|pause| *pause <= whole && *pause >= whole.mul_f64(least)));
            let low =
                pauses.iter().filter(|pause| **pause < whole.mul_f64(least + (1.0 - least) / 2.0));
            let low = low.count();
            assert!((150..350).contains(&low), "{low} of 500 in the lower half");
        }
    }
}
