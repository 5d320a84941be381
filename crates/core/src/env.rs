//! Clock, ids and randomness as one injected value.
//!
//! Every part that needs the time, a new id or a random number takes an [`Env`], so that a test or simulation can
//! replay it exactly. Sleeping is not part of it: the async runtime does that, and tests pause its clock.

pub(crate) mod time;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{Timestamp, TypedId};

/// Source of time, ids and randomness. The default is [`Env::system`].
#[derive(Clone, Default)]
pub struct Env {
    simulated: Option<Arc<Simulated>>,
    clock_offset_ms: i64,
}

/// Clock and random source of a simulated environment.
struct Simulated {
    now_ms: AtomicI64,
    random: AtomicU64,
}

impl Env {
    /// Returns an environment with the system clock and the random source of the operating system.
    pub fn system() -> Self {
        Self::default()
    }

    /// Returns an environment whose system clock has a fixed offset in milliseconds, to test the effects of a wrong
    /// clock.
    pub fn with_clock_offset(shift_ms: i64) -> Self {
        Self { simulated: None, clock_offset_ms: shift_ms }
    }

    /// Returns an environment whose clock moves only by [`Env::advance`], and whose random numbers follow from the
    /// seed.
    pub fn simulated(seed: u64) -> Self {
        let start_ms = 1_700_000_000_000;
        let simulated = Simulated {
            now_ms: AtomicI64::new(start_ms),
            random: AtomicU64::new(seed ^ 0x9e37_79b9_7f4a_7c15),
        };
        Self { simulated: Some(Arc::new(simulated)), clock_offset_ms: 0 }
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        match &self.simulated {
            Some(simulated) => Timestamp::from_millis(simulated.now_ms.load(Ordering::Relaxed)),
            None => self.at(since_epoch()),
        }
    }

    /// Converts a duration since 1970 to a timestamp with the clock offset.
    fn at(&self, since: Duration) -> Timestamp {
        let millis = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_millis(millis.saturating_add(self.clock_offset_ms))
    }

    /// Advances a simulated clock. Has no effect on the system clock.
    pub fn advance(&self, by: Duration) {
        if let Some(simulated) = &self.simulated {
            let by_ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
            simulated.now_ms.fetch_add(by_ms, Ordering::Relaxed);
        }
    }

    /// Creates a time-ordered id (UUID version 7). Ids keep the order of creation within a process to about a quarter
    /// of a microsecond, because records created in one millisecond are listed by id.
    pub fn id<T: TypedId>(&self) -> T {
        let (now, fraction) = match &self.simulated {
            // A simulated clock does not advance between two ids, so the fraction is random.
            Some(_) => (self.now(), self.random()),
            None => {
                let since = since_epoch();
                (self.at(since), u64::from(since.subsec_nanos() % 1_000_000) * 4096 / 1_000_000)
            }
        };
        let millis = u64::try_from(now.as_millis()).unwrap_or(0);
        let mut rest = [0u8; 10];
        // Twelve bits hold the fraction of the millisecond, as RFC 9562 allows (6.2, method 3); the version
        // overwrites the other four.
        rest[..2].copy_from_slice(&(fraction as u16 & 0x0fff).to_be_bytes());
        rest[2..].copy_from_slice(&self.random().to_le_bytes());
        T::from_uuid(uuid::Builder::from_unix_timestamp_millis(millis, &rest).into_uuid())
    }

    /// Returns 64 random bits.
    pub fn random(&self) -> u64 {
        match &self.simulated {
            Some(simulated) => {
                let state = simulated.random.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
                split_mix(state)
            }
            // Fallback if the operating system has no random source. The nanoseconds of the clock make collisions
            // unlikely, not impossible.
            None => getrandom::u64().unwrap_or_else(|_| {
                let since = since_epoch();
                split_mix(u64::from(since.subsec_nanos()) ^ since.as_secs())
            }),
        }
    }

    /// Returns a random number in `0.0 ..= 1.0`, for jitter.
    pub fn random_unit(&self) -> f64 {
        (self.random() >> 11) as f64 / ((1u64 << 53) - 1) as f64
    }
}

/// Returns the time since 1970 of the system clock. Zero for an earlier clock.
fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO)
}

/// Returns well-mixed bits for a counter: the finalizer of the SplitMix64 generator.
fn split_mix(state: u64) -> u64 {
    let mut mixed = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.simulated.is_some() { "Env(simulated)" } else { "Env(system)" })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Env;
    use crate::RunId;

    #[test]
    fn ids_that_are_made_one_after_the_other_rise_within_a_millisecond() {
        let env = Env::system();
        let mut last: RunId = env.id();
        for _ in 0..200 {
            let made = Instant::now();
            while made.elapsed() < Duration::from_micros(2) {}
            let next: RunId = env.id();
            assert!(last < next, "{last} {next}");
            last = next;
        }
    }

    #[test]
    fn ids_of_a_simulation_are_decided_by_its_seed() {
        let ids = |seed| {
            let env = Env::simulated(seed);
            std::array::from_fn::<RunId, 50, _>(|_| env.id())
        };
        let mut first = ids(1);
        assert_eq!((first, first == ids(2)), (ids(1), false));
        first.sort();
        assert!(first.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
