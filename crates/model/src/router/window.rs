//! How much was used in the last minute. Pure: whoever asks brings the time.
//!
//! Invariant: no minute, wherever it begins, holds more than the limit. A bucket that fills up evenly cannot promise that for amounts
//! of different sizes without giving a part of the limit away.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// What limits are for.
const MINUTE_SLOTS: u64 = 60;
/// How exactly times are told apart.
const SLOT: Duration = Duration::from_secs(1);

/// What was taken in the last minute, by the second.
#[derive(Debug)]
pub(crate) struct Window {
    limit: u64,
    epoch: Instant,
    /// Second and amount, oldest first; no second is there twice.
    slots: VecDeque<(u64, u64)>,
    sum: u64,
}

/// When something was taken: its correction belongs to the same second.
pub(crate) type Slot = u64;

impl Window {
    pub(crate) fn new(limit: u64, epoch: Instant) -> Self {
        Self { limit, epoch, slots: VecDeque::new(), sum: 0 }
    }

    /// How long until so much more fits; nothing if it does now, [`None`] if it never does.
    pub(crate) fn fits_in(&mut self, amount: u64, now: Instant) -> Option<Duration> {
        if amount > self.limit {
            return None;
        }
        self.forget(now);
        let mut sum = self.sum;
        for (slot, used) in &self.slots {
            if sum.saturating_add(amount) <= self.limit {
                break;
            }
            sum = sum.saturating_sub(*used);
            if sum.saturating_add(amount) <= self.limit {
                return Some(self.free_at(*slot).saturating_duration_since(now));
            }
        }
        Some(Duration::ZERO)
    }

    /// Takes so much, whether it fits or not.
    pub(crate) fn take(&mut self, amount: u64, now: Instant) -> Slot {
        let slot = self.slot(now);
        self.sum = self.sum.saturating_add(amount);
        match self.slots.back_mut() {
            Some((last, used)) if *last >= slot => *used = used.saturating_add(amount),
            _ => self.slots.push_back((slot, amount)),
        }
        slot
    }

    /// Says what was really used of something that was taken.
    pub(crate) fn correct(&mut self, slot: Slot, taken: u64, used: u64) {
        let found = self.slots.binary_search_by_key(&slot, |(slot, _)| *slot);
        // It is older than a minute and counts no more.
        let Some((_, amount)) = found.ok().and_then(|at| self.slots.get_mut(at)) else { return };
        let before = *amount;
        *amount = before.saturating_sub(taken).saturating_add(used);
        self.sum = self.sum.saturating_sub(before).saturating_add(*amount);
    }

    fn slot(&self, now: Instant) -> Slot {
        now.saturating_duration_since(self.epoch).as_secs()
    }

    /// When what was used in a second is more than a minute ago, all of it.
    fn free_at(&self, slot: Slot) -> Instant {
        let seconds = u32::try_from(slot + MINUTE_SLOTS + 1).unwrap_or(u32::MAX);
        self.epoch + SLOT * seconds
    }

    fn forget(&mut self, now: Instant) {
        let slot = self.slot(now);
        while let Some((old, used)) = self.slots.front()
            && old + MINUTE_SLOTS < slot
        {
            self.sum = self.sum.saturating_sub(*used);
            self.slots.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use provost_core::Env;

    use super::*;

    fn at(start: Instant, millis: u64) -> Instant {
        start + Duration::from_millis(millis)
    }

    #[test]
    fn what_does_not_fit_waits_until_enough_is_a_minute_old() {
        let start = Instant::now();
        let mut window = Window::new(10, start);
        assert_eq!(window.fits_in(11, start), None, "never");
        window.take(4, at(start, 500));
        window.take(6, at(start, 2_000));
        assert_eq!(window.fits_in(0, at(start, 2_000)), Some(Duration::ZERO));
        assert_eq!(window.fits_in(4, at(start, 2_000)), Some(Duration::from_secs(59)));
        assert_eq!(window.fits_in(5, at(start, 2_000)), Some(Duration::from_secs(61)));
        assert_eq!(window.fits_in(4, at(start, 60_999)), Some(Duration::from_millis(1)));
        assert_eq!(window.fits_in(4, at(start, 61_000)), Some(Duration::ZERO));
        assert_eq!(window.fits_in(10, at(start, 63_000)), Some(Duration::ZERO));
    }

    #[test]
    fn corrections_count_where_it_was_taken() {
        let start = Instant::now();
        let mut window = Window::new(10, start);
        let slot = window.take(8, start);
        window.correct(slot, 8, 3);
        assert_eq!(window.fits_in(7, start), Some(Duration::ZERO));
        assert_ne!(window.fits_in(8, start), Some(Duration::ZERO));
        window.correct(slot, 3, 30);
        assert_ne!(window.fits_in(1, at(start, 60_000)), Some(Duration::ZERO), "more than thought");
        assert_eq!(window.fits_in(10, at(start, 61_000)), Some(Duration::ZERO));
        window.correct(slot, 30, 90);
        assert_eq!(window.fits_in(10, at(start, 61_000)), Some(Duration::ZERO), "too long ago");
    }

    #[test]
    fn no_minute_holds_more_than_the_limit() {
        for seed in 0..200 {
            let env = Env::simulated(seed);
            let (start, limit) = (Instant::now(), 20 + env.random() % 50);
            let mut window = Window::new(limit, start);
            let (mut now, mut taken) = (start, Vec::new());
            for _ in 0..300 {
                now += Duration::from_millis(env.random() % 3_000);
                let amount = env.random() % 15;
                if window.fits_in(amount, now) == Some(Duration::ZERO) {
                    window.take(amount, now);
                    taken.push((now, amount));
                }
            }
            for (from, _) in &taken {
                let end = *from + Duration::from_secs(60);
                let within = taken.iter().filter(|(at, _)| at >= from && *at < end);
                let sum: u64 = within.map(|(_, amount)| amount).sum();
                assert!(sum <= limit, "seed {seed}: {sum} of {limit}");
            }
        }
    }
}
