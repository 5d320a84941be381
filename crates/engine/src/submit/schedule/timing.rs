//! When a schedule fires: pure arithmetic over moments.

use std::time::Duration;

use jiff::tz::TimeZone;
use provost_core::Timestamp;
use provost_core::hash::sha256_hex;
use provost_core::lifecycle::RequestError;
use provost_core::text::first_chars;
use serde::{Deserialize, Serialize};

use super::cron::Cron;

/// The shortest time between two firings.
const EVERY_MIN: Duration = Duration::from_secs(1);
/// The longest delay that spreads schedules.
pub(super) const JITTER_MAX: Duration = Duration::from_secs(3600);
/// How far back is looked for missed times, in growing steps: the newest are wanted, and they are near.
const LOOK_BACK: [Duration; 6] = [
    Duration::from_secs(60 * 60),
    Duration::from_secs(24 * 60 * 60),
    Duration::from_secs(32 * 24 * 60 * 60),
    Duration::from_secs(366 * 24 * 60 * 60),
    Duration::from_secs(4 * 366 * 24 * 60 * 60),
    Duration::MAX,
];

/// When something is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Timing {
    /// At the local times of a cron expression: minute, hour, day of month, month, day of week.
    Cron(String),
    /// Once.
    At(Timestamp),
    /// Again and again after so many milliseconds, counted from when the schedule was made.
    EveryMs(u64),
}

/// A timing that was checked, with its zone.
#[derive(Debug, Clone)]
pub(crate) struct Ticks {
    timing: Read,
    zone: TimeZone,
    /// Where intervals are counted from.
    anchor: Timestamp,
    /// What every time is delayed by.
    delay: Duration,
}

#[derive(Debug, Clone)]
enum Read {
    Cron(Cron),
    At(Timestamp),
    Every(i64),
}

impl Ticks {
    /// Checks a timing. The delay is a share of `jitter` that only the name of the schedule decides.
    pub(crate) fn new(
        timing: &Timing,
        zone: &str,
        anchor: Timestamp,
        jitter: Duration,
        name: &str,
    ) -> Result<Self, RequestError> {
        let zone = TimeZone::get(zone).map_err(|_error| {
            let problem = format!("`{}` is not a time zone", first_chars(zone, 64));
            RequestError::invalid(
                "schedule.zone",
                problem,
                "use an IANA name such as Europe/Berlin",
            )
        })?;
        let timing = match timing {
            Timing::Cron(text) => Read::Cron(text.parse()?),
            Timing::At(at) => Read::At(*at),
            Timing::EveryMs(every) => {
                let shortest = u64::try_from(EVERY_MIN.as_millis()).unwrap_or(u64::MAX);
                let every = i64::try_from(*every).ok().filter(|_| *every >= shortest);
                Read::Every(every.ok_or_else(|| {
                    let fix = format!("use at least {shortest} milliseconds");
                    RequestError::invalid("schedule.timing.every_ms", "out of range", fix)
                })?)
            }
        };
        if jitter > JITTER_MAX {
            let fix = format!("use at most {} milliseconds", JITTER_MAX.as_millis());
            return Err(RequestError::invalid("schedule.jitter_ms", "out of range", fix));
        }
        Ok(Self { timing, zone, anchor, delay: share_of(jitter, name) })
    }

    /// The first time after a moment, without the delay.
    pub(crate) fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.timing {
            Read::Cron(cron) => {
                let after = jiff::Timestamp::from_millisecond(after.as_millis()).ok()?;
                let next = cron.next_after(after, &self.zone)?;
                Some(Timestamp::from_millis(next.as_millisecond()))
            }
            Read::At(at) => (*at > after).then_some(*at),
            Read::Every(every) => {
                let since = after.as_millis().saturating_sub(self.anchor.as_millis());
                let count = since.div_euclid(*every).saturating_add(1).max(1);
                let next = self.anchor.as_millis().checked_add(count.checked_mul(*every)?)?;
                Some(Timestamp::from_millis(next))
            }
        }
    }

    /// When the schedule wakes for a time.
    pub(crate) fn delayed(&self, tick: Timestamp) -> Timestamp {
        tick.after(self.delay)
    }

    /// The time that a schedule woke for.
    pub(crate) fn tick_of(&self, next_at: Timestamp) -> Timestamp {
        let delay = i64::try_from(self.delay.as_millis()).unwrap_or_default();
        Timestamp::from_millis(next_at.as_millis().saturating_sub(delay))
    }

    /// The newest `count` times from `first` (which is one) until `until`, oldest first.
    pub(crate) fn newest(
        &self,
        first: Timestamp,
        until: Timestamp,
        count: usize,
    ) -> Vec<Timestamp> {
        for back in LOOK_BACK {
            let from = until
                .as_millis()
                .saturating_sub(i64::try_from(back.as_millis()).unwrap_or(i64::MAX));
            let whole = from <= first.as_millis();
            let mut ticks = std::collections::VecDeque::new();
            let mut tick = match whole {
                true => Some(first),
                false => self.next_after(Timestamp::from_millis(from)),
            };
            while let Some(found) = tick.filter(|tick| *tick <= until) {
                if ticks.len() == count {
                    ticks.pop_front();
                }
                ticks.push_back(found);
                tick = self.next_after(found);
            }
            if whole || ticks.len() == count {
                return ticks.into();
            }
        }
        Vec::new()
    }
}

/// A part of a time that a name decides, so that equal schedules do not all start at once.
fn share_of(whole: Duration, name: &str) -> Duration {
    let digits = sha256_hex(name.as_bytes());
    let number = u64::from_str_radix(digits.get(..8).unwrap_or("0"), 16).unwrap_or_default();
    let whole_ms = u64::try_from(whole.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(whole_ms.saturating_mul(number) >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(timing: Timing, jitter_s: u64, name: &str) -> Ticks {
        let jitter = Duration::from_secs(jitter_s);
        Ticks::new(&timing, "UTC", Timestamp::from_millis(500), jitter, name).unwrap()
    }

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn intervals_are_counted_from_the_beginning() {
        let every = ticks(Timing::EveryMs(1000), 0, "a");
        assert_eq!(every.next_after(at(0)), Some(at(1500)));
        assert_eq!(every.next_after(at(1499)), Some(at(1500)));
        assert_eq!(every.next_after(at(1500)), Some(at(2500)));
        let once = ticks(Timing::At(at(9)), 0, "a");
        assert_eq!((once.next_after(at(8)), once.next_after(at(9))), (Some(at(9)), None));
    }

    #[test]
    fn the_newest_missed_times_are_found_however_long_ago_the_first_was() {
        let every = ticks(Timing::EveryMs(1000), 0, "a");
        assert_eq!(every.newest(at(1500), at(4600), 2), [at(3500), at(4500)]);
        assert_eq!(every.newest(at(1500), at(2000), 5), [at(1500)]);
        let minutely = ticks(Timing::Cron("* * * * *".to_owned()), 0, "a");
        let (first, years) = (at(60_000), 40 * 366 * 86_400_000_i64);
        assert_eq!(minutely.newest(first, at(years), 1), [at(years)]);
        let rare = ticks(Timing::Cron("0 0 1 1 *".to_owned()), 0, "a");
        assert_eq!(rare.newest(at(0), at(years), 1).len(), 1);
    }

    #[test]
    fn the_delay_is_decided_by_the_name_and_bounded() {
        let delays: std::collections::BTreeSet<_> =
            (0..50).map(|n| ticks(Timing::EveryMs(1000), 60, &format!("s{n}")).delay).collect();
        assert!(delays.len() > 40, "they are spread");
        assert!(delays.iter().all(|delay| *delay < Duration::from_secs(60)));
        let named = ticks(Timing::EveryMs(1000), 60, "s1");
        assert_eq!(named.tick_of(named.delayed(at(77))), at(77));
        assert_eq!(named.delay, ticks(Timing::EveryMs(1000), 60, "s1").delay);
    }

    #[test]
    fn what_cannot_be_kept_is_refused() {
        let jitter = Duration::from_millis;
        let bad = [
            Ticks::new(&Timing::EveryMs(10), "UTC", at(0), jitter(0), "x"),
            Ticks::new(&Timing::EveryMs(u64::MAX), "UTC", at(0), jitter(0), "x"),
            Ticks::new(&Timing::Cron("x".to_owned()), "UTC", at(0), jitter(0), "x"),
            Ticks::new(&Timing::At(at(0)), "Middle/Earth", at(0), jitter(0), "x"),
            Ticks::new(&Timing::At(at(0)), "UTC", at(0), jitter(u64::MAX), "x"),
        ];
        assert!(bad.iter().all(Result::is_err));
    }
}
