//! Times of a schedule, computed without a database.

use std::time::Duration;

use jiff::tz::TimeZone;
use provost_core::Timestamp;
use provost_core::hash::sha256_hex;
use provost_core::lifecycle::RequestError;
use provost_core::text::first_chars;
use serde::{Deserialize, Serialize};

use super::cron::Cron;

/// Shortest interval.
const EVERY_MIN: Duration = Duration::from_secs(1);
/// Longest jitter.
pub(super) const JITTER_MAX: Duration = Duration::from_secs(3600);
/// Periods that are searched for missed times, from short to long, because the latest missed times are usually recent.
const LOOKBACK: [Duration; 6] = [
    Duration::from_secs(60 * 60),
    Duration::from_secs(24 * 60 * 60),
    Duration::from_secs(32 * 24 * 60 * 60),
    Duration::from_secs(366 * 24 * 60 * 60),
    Duration::from_secs(4 * 366 * 24 * 60 * 60),
    Duration::MAX,
];

/// Times of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ScheduleSpec {
    /// Local times of a cron expression: minute, hour, day of month, month, day of week.
    Cron(String),
    /// One single time.
    At(Timestamp),
    /// Interval in milliseconds, counted from the creation of the schedule.
    EveryMs(u64),
}

/// Validated times with their zone.
#[derive(Debug, Clone)]
pub(crate) struct ScheduleTimes {
    timing: ParsedSpec,
    zone: TimeZone,
    /// Start of the intervals.
    anchor: Timestamp,
    /// Delay of every time.
    delay: Duration,
}

/// Validated times.
#[derive(Debug, Clone)]
enum ParsedSpec {
    Cron(Cron),
    At(Timestamp),
    Every(i64),
}

impl ScheduleTimes {
    /// Validates the times. The delay is a part of `jitter` that the name of the schedule determines.
    pub(crate) fn new(
        timing: &ScheduleSpec,
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
            ScheduleSpec::Cron(text) => ParsedSpec::Cron(text.parse()?),
            ScheduleSpec::At(at) => ParsedSpec::At(*at),
            ScheduleSpec::EveryMs(every) => {
                let shortest = u64::try_from(EVERY_MIN.as_millis()).unwrap_or(u64::MAX);
                let every = i64::try_from(*every).ok().filter(|_| *every >= shortest);
                ParsedSpec::Every(every.ok_or_else(|| {
                    let fix = format!("use at least {shortest} milliseconds");
                    RequestError::invalid("schedule.timing.every_ms", "out of range", fix)
                })?)
            }
        };
        if jitter > JITTER_MAX {
            let fix = format!("use at most {} milliseconds", JITTER_MAX.as_millis());
            return Err(RequestError::invalid("schedule.jitter_ms", "out of range", fix));
        }
        Ok(Self { timing, zone, anchor, delay: jitter_of(jitter, name) })
    }

    /// Returns the first time after a moment, without the delay. `None` if there is none.
    pub(crate) fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.timing {
            ParsedSpec::Cron(cron) => {
                let after = jiff::Timestamp::from_millisecond(after.as_millis()).ok()?;
                let next = cron.next_after(after, &self.zone)?;
                Some(Timestamp::from_millis(next.as_millisecond()))
            }
            ParsedSpec::At(at) => (*at > after).then_some(*at),
            ParsedSpec::Every(every) => {
                let since = after.as_millis().saturating_sub(self.anchor.as_millis());
                let count = since.div_euclid(*every).saturating_add(1).max(1);
                let next = self.anchor.as_millis().checked_add(count.checked_mul(*every)?)?;
                Some(Timestamp::from_millis(next))
            }
        }
    }

    /// Returns the moment at which a scheduled time fires: later by the jitter of the schedule.
    pub(crate) fn delayed(&self, tick: Timestamp) -> Timestamp {
        tick.after(self.delay)
    }

    /// Returns the scheduled time, without jitter, of a moment at which the schedule fires.
    pub(crate) fn tick_of(&self, next_at: Timestamp) -> Timestamp {
        let delay = i64::try_from(self.delay.as_millis()).unwrap_or_default();
        Timestamp::from_millis(next_at.as_millis().saturating_sub(delay))
    }

    /// Returns the latest `count` times from `first`, which is one of them, until `until`, oldest first.
    pub(crate) fn latest(
        &self,
        first: Timestamp,
        until: Timestamp,
        count: usize,
    ) -> Vec<Timestamp> {
        for back in LOOKBACK {
            let from = until
                .as_millis()
                .saturating_sub(i64::try_from(back.as_millis()).unwrap_or(i64::MAX));
            let reaches_first = from <= first.as_millis();
            let mut times = std::collections::VecDeque::new();
            let mut tick = match reaches_first {
                true => Some(first),
                false => self.next_after(Timestamp::from_millis(from)),
            };
            while let Some(found) = tick.filter(|tick| *tick <= until) {
                if times.len() == count {
                    times.pop_front();
                }
                times.push_back(found);
                tick = self.next_after(found);
            }
            if reaches_first || times.len() == count {
                return times.into();
            }
        }
        Vec::new()
    }
}

/// Returns a part of `whole`, less than all of it, that only the name determines.
fn jitter_of(whole: Duration, name: &str) -> Duration {
    let digits = sha256_hex(name.as_bytes());
    let number = u64::from_str_radix(digits.get(..8).unwrap_or("0"), 16).unwrap_or_default();
    let whole_ms = u64::try_from(whole.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(whole_ms.saturating_mul(number) >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(timing: ScheduleSpec, jitter_s: u64, name: &str) -> ScheduleTimes {
        let jitter = Duration::from_secs(jitter_s);
        ScheduleTimes::new(&timing, "UTC", Timestamp::from_millis(500), jitter, name).unwrap()
    }

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn intervals_are_counted_from_the_beginning() {
        let every = times(ScheduleSpec::EveryMs(1000), 0, "a");
        assert_eq!(every.next_after(at(0)), Some(at(1500)));
        assert_eq!(every.next_after(at(1499)), Some(at(1500)));
        assert_eq!(every.next_after(at(1500)), Some(at(2500)));
        let once = times(ScheduleSpec::At(at(9)), 0, "a");
        assert_eq!((once.next_after(at(8)), once.next_after(at(9))), (Some(at(9)), None));
    }

    #[test]
    fn the_newest_missed_times_are_found_however_long_ago_the_first_was() {
        let every = times(ScheduleSpec::EveryMs(1000), 0, "a");
        assert_eq!(every.latest(at(1500), at(4600), 2), [at(3500), at(4500)]);
        assert_eq!(every.latest(at(1500), at(2000), 5), [at(1500)]);
        let minutely = times(ScheduleSpec::Cron("* * * * *".to_owned()), 0, "a");
        let (first, years) = (at(60_000), 40 * 366 * 86_400_000_i64);
        assert_eq!(minutely.latest(first, at(years), 1), [at(years)]);
        let rare = times(ScheduleSpec::Cron("0 0 1 1 *".to_owned()), 0, "a");
        assert_eq!(rare.latest(at(0), at(years), 1).len(), 1);
    }

    #[test]
    fn the_delay_is_decided_by_the_name_and_bounded() {
        let delays: std::collections::BTreeSet<_> = (0..50)
            .map(|n| times(ScheduleSpec::EveryMs(1000), 60, &format!("s{n}")).delay)
            .collect();
        assert!(delays.len() > 40, "they are spread");
        assert!(delays.iter().all(|delay| *delay < Duration::from_secs(60)));
        let named = times(ScheduleSpec::EveryMs(1000), 60, "s1");
        assert_eq!(named.tick_of(named.delayed(at(77))), at(77));
        assert_eq!(named.delay, times(ScheduleSpec::EveryMs(1000), 60, "s1").delay);
    }

    #[test]
    fn what_cannot_be_kept_is_refused() {
        let jitter = Duration::from_millis;
        let bad = [
            ScheduleTimes::new(&ScheduleSpec::EveryMs(10), "UTC", at(0), jitter(0), "x"),
            ScheduleTimes::new(&ScheduleSpec::EveryMs(u64::MAX), "UTC", at(0), jitter(0), "x"),
            ScheduleTimes::new(&ScheduleSpec::Cron("x".to_owned()), "UTC", at(0), jitter(0), "x"),
            ScheduleTimes::new(&ScheduleSpec::At(at(0)), "Middle/Earth", at(0), jitter(0), "x"),
            ScheduleTimes::new(&ScheduleSpec::At(at(0)), "UTC", at(0), jitter(u64::MAX), "x"),
        ];
        assert!(bad.iter().all(Result::is_err));
    }
}
