//! Usage of the last minute. Pure: callers pass the time.
//!
//! Invariant: no period of one minute holds more than the limit. A token bucket cannot guarantee that for amounts of
//! different sizes unless it leaves a part of the limit unused.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Length of the window in slots.
const MINUTE_SLOTS: u64 = 60;
/// Length of a slot.
const SLOT: Duration = Duration::from_secs(1);

/// Amounts taken in the last minute, per second.
#[derive(Debug)]
pub(crate) struct SlidingWindow {
    limit: u64,
    epoch: Instant,
    /// Second and amount, oldest first. Each second occurs at most once.
    slots: VecDeque<(u64, u64)>,
    sum: u64,
}

/// Second in which an amount was taken. A correction applies to the same second.
pub(crate) type WindowSlot = u64;

impl SlidingWindow {
    pub(crate) fn new(limit: u64, epoch: Instant) -> Self {
        Self { limit, epoch, slots: VecDeque::new(), sum: 0 }
    }

    /// Returns the time until the amount fits. Zero if it fits now, `None` if it exceeds the limit.
    pub(crate) fn wait_for(&mut self, amount: u64, now: Instant) -> Option<Duration> {
        if amount > self.limit {
            return None;
        }
        self.drop_expired(now);
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

    /// Adds an amount to the current second, even if it exceeds the limit.
    pub(crate) fn take(&mut self, amount: u64, now: Instant) -> WindowSlot {
        let slot = self.slot(now);
        self.sum = self.sum.saturating_add(amount);
        match self.slots.back_mut() {
            Some((last, used)) if *last >= slot => *used = used.saturating_add(amount),
            _ => self.slots.push_back((slot, amount)),
        }
        slot
    }

    /// Replaces an amount that was taken by the amount that was used. Ignored if the slot has left the window.
    pub(crate) fn correct(&mut self, slot: WindowSlot, taken: u64, used: u64) {
        let found = self.slots.binary_search_by_key(&slot, |(slot, _)| *slot);
        // A slot older than a minute no longer counts.
        let Some((_, amount)) = found.ok().and_then(|at| self.slots.get_mut(at)) else { return };
        let before = *amount;
        *amount = before.saturating_sub(taken).saturating_add(used);
        self.sum = self.sum.saturating_sub(before).saturating_add(*amount);
    }

    /// Returns the second of a time, counted from the creation of the window.
    fn slot(&self, now: Instant) -> WindowSlot {
        now.saturating_duration_since(self.epoch).as_secs()
    }

    /// Returns the time at which the whole slot has left the window.
    fn free_at(&self, slot: WindowSlot) -> Instant {
        let seconds = u32::try_from(slot + MINUTE_SLOTS + 1).unwrap_or(u32::MAX);
        self.epoch + SLOT * seconds
    }

    /// Removes the slots that have left the window.
    fn drop_expired(&mut self, now: Instant) {
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
        let mut window = SlidingWindow::new(10, start);
        assert_eq!(window.wait_for(11, start), None, "never");
        window.take(4, at(start, 500));
        window.take(6, at(start, 2_000));
        assert_eq!(window.wait_for(0, at(start, 2_000)), Some(Duration::ZERO));
        assert_eq!(window.wait_for(4, at(start, 2_000)), Some(Duration::from_secs(59)));
        assert_eq!(window.wait_for(5, at(start, 2_000)), Some(Duration::from_secs(61)));
        assert_eq!(window.wait_for(4, at(start, 60_999)), Some(Duration::from_millis(1)));
        assert_eq!(window.wait_for(4, at(start, 61_000)), Some(Duration::ZERO));
        assert_eq!(window.wait_for(10, at(start, 63_000)), Some(Duration::ZERO));
    }

    #[test]
    fn corrections_count_where_it_was_taken() {
        let start = Instant::now();
        let mut window = SlidingWindow::new(10, start);
        let slot = window.take(8, start);
        window.correct(slot, 8, 3);
        assert_eq!(window.wait_for(7, start), Some(Duration::ZERO));
        assert_ne!(window.wait_for(8, start), Some(Duration::ZERO));
        window.correct(slot, 3, 30);
        assert_ne!(
            window.wait_for(1, at(start, 60_000)),
            Some(Duration::ZERO),
            "more than thought"
        );
        assert_eq!(window.wait_for(10, at(start, 61_000)), Some(Duration::ZERO));
        window.correct(slot, 30, 90);
        assert_eq!(window.wait_for(10, at(start, 61_000)), Some(Duration::ZERO), "too long ago");
    }

    #[test]
    fn no_minute_holds_more_than_the_limit() {
        for seed in 0..200 {
            let env = Env::simulated(seed);
            let (start, limit) = (Instant::now(), 20 + env.random() % 50);
            let mut window = SlidingWindow::new(limit, start);
            let (mut now, mut taken) = (start, Vec::new());
            for _ in 0..300 {
                now += Duration::from_millis(env.random() % 3_000);
                let amount = env.random() % 15;
                if window.wait_for(amount, now) == Some(Duration::ZERO) {
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
