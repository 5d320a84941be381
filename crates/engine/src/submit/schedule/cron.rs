//! Cron expressions: minute, hour, day of month, month, day of week.
//!
//! The times are local times of a zone. At a clock change:
//! - a local time that exists twice fires once, at its first occurrence;
//! - a local time that does not exist fires once, at the first moment after the gap. Several such times fire once
//!   together.
//!
//! Implemented here because the two rules above are guarantees, and because cron libraries depend on several procedural
//! macros. The zones are those of jiff. Their data is part of the program, so all machines agree about them.

use std::str::FromStr;

use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Span, Timestamp};
use provost_core::lifecycle::RequestError;
use provost_core::text::first_chars;

/// Number of years that are searched. A 29 February on a certain weekday may be 40 years away.
const YEARS_MAX: i16 = 50;
const MONTHS: &[&str] =
    &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Times of an expression. Each set has one bit per number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// True if the expression restricts both kinds of day. One match is then enough, as in every cron.
    either_day: bool,
}

impl FromStr for Cron {
    type Err = RequestError;

    fn from_str(text: &str) -> Result<Self, RequestError> {
        let fix = "write five fields (minute hour day month weekday), such as `30 9 * * mon-fri`, or @hourly, @daily, \
                   @weekly, @monthly, @yearly";
        let invalid = |problem: String| RequestError::invalid("schedule.timing.cron", problem, fix);
        let text = match text.trim() {
            "@hourly" => "0 * * * *",
            "@daily" | "@midnight" => "0 0 * * *",
            "@weekly" => "0 0 * * 0",
            "@monthly" => "0 0 1 * *",
            "@yearly" | "@annually" => "0 0 1 1 *",
            other => other,
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields.as_slice() else {
            return Err(invalid(format!("{} fields instead of five", fields.len())));
        };
        let set = |text: &str, field: Field| field.parse(text).map_err(&invalid);
        let week = set(weekdays, Field { name: "weekday", first: 0, last: 7, names: DAYS })?;
        let cron = Self {
            minutes: set(minutes, Field { name: "minute", first: 0, last: 59, names: &[] })?,
            hours: set(hours, Field { name: "hour", first: 0, last: 23, names: &[] })?,
            days: set(days, Field { name: "day", first: 1, last: 31, names: &[] })?,
            months: set(months, Field { name: "month", first: 1, last: 12, names: MONTHS })?,
            // Sunday is 0 and 7.
            weekdays: (week | (week >> 7)) & 0x7f,
            either_day: !days.starts_with('*') && !weekdays.starts_with('*'),
        };
        if cron.next_local(Date::constant(2024, 1, 1).at(0, 0, 0, 0)).is_none() {
            return Err(invalid("a date that never comes".to_owned()));
        }
        Ok(cron)
    }
}

/// One field of an expression.
#[derive(Clone, Copy)]
struct Field {
    name: &'static str,
    first: u32,
    last: u32,
    names: &'static [&'static str],
}

impl Field {
    /// Parses a comma-separated field into a set of bits.
    fn parse(self, text: &str) -> Result<u64, String> {
        text.split(',').try_fold(0, |set, item| Ok(set | self.item(item)?))
    }

    /// Parses `*`, `5` or `1-5`, optionally with a step such as `*/15`, into a set of bits.
    fn item(self, text: &str) -> Result<u64, String> {
        let wrong = || format!("`{}` is not a {}", bounded(text), self.name);
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, Some(step.parse::<u32>().map_err(|_error| wrong())?)),
            None => (text, None),
        };
        let (from, to) = match range.split_once('-') {
            Some((from, to)) => (self.number(from), self.number(to)),
            None if range == "*" => (Some(self.first), Some(self.last)),
            None if step.is_some() => (self.number(range), Some(self.last)),
            None => (self.number(range), self.number(range)),
        };
        let (Some(from), Some(to)) = (from, to) else { return Err(wrong()) };
        let step = step.unwrap_or(1);
        if step == 0 || from > to {
            return Err(wrong());
        }
        Ok((from..=to).step_by(step as usize).fold(0, |set, number| set | 1 << number))
    }

    /// Parses a number or a name. `None` if the text is neither, or the number is out of range.
    fn number(self, text: &str) -> Option<u32> {
        let lower = text.to_ascii_lowercase();
        if let Some(place) = self.names.iter().position(|name| *name == lower) {
            return Some(u32::try_from(place).ok()? + self.first);
        }
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.then(|| text.parse().ok()).flatten()?;
        (self.first..=self.last).contains(&number).then_some(number)
    }
}

/// Truncates a text for an error message.
fn bounded(text: &str) -> String {
    first_chars(text, 32).to_owned()
}

impl Cron {
    /// Returns the first time after a moment, in the local time of the zone. `None` if there is none.
    pub(super) fn next_after(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let mut local = zone.to_datetime(after);
        let last_year = local.year().saturating_add(YEARS_MAX);
        loop {
            let candidate = self.next_local(local)?;
            if candidate.year() > last_year {
                return None;
            }
            // Local times in order give moments in order, so the first moment that is late enough is the next one.
            if let Some(moment) = resolve(candidate, zone).filter(|moment| *moment > after) {
                return Some(moment);
            }
            local = candidate.checked_add(Span::new().minutes(1)).ok()?;
        }
    }

    /// Returns the first matching local time that is not before `from`. `None` if the next [`YEARS_MAX`] years have
    /// none.
    fn next_local(&self, from: DateTime) -> Option<DateTime> {
        let whole = from.date().at(from.hour(), from.minute(), 0, 0);
        let from =
            if whole < from { whole.checked_add(Span::new().minutes(1)).ok()? } else { whole };
        let mut date = from.date();
        let last_year = date.year().saturating_add(YEARS_MAX);
        let mut earliest = (from.hour(), from.minute());
        while date.year() <= last_year {
            if !has(self.months, date.month()) {
                date = date.last_of_month().tomorrow().ok()?;
            } else {
                if self.has_day(date)
                    && let Some((hour, minute)) = self.next_time(earliest.0, earliest.1)
                {
                    return Some(date.at(hour, minute, 0, 0));
                }
                date = date.tomorrow().ok()?;
            }
            earliest = (0, 0);
        }
        None
    }

    /// Returns true if the expression contains the date. If both day fields are restricted, one of them suffices.
    fn has_day(&self, date: Date) -> bool {
        let day = has(self.days, date.day());
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        if self.either_day { day || weekday } else { day && weekday }
    }

    /// Returns the first hour and minute of the expression from this time on. `None` if the day has none left.
    fn next_time(&self, hour: i8, minute: i8) -> Option<(i8, i8)> {
        let minute_in = |from: i8| (from..60).find(|minute| has(self.minutes, *minute));
        if has(self.hours, hour)
            && let Some(minute) = minute_in(minute)
        {
            return Some((hour, minute));
        }
        let hour = (hour + 1..24).find(|hour| has(self.hours, *hour))?;
        Some((hour, minute_in(0)?))
    }
}

/// Returns true if the set contains the number.
fn has(set: u64, number: i8) -> bool {
    set & (1 << number) != 0
}

/// Returns the moment of a local time: the first of two, or the moment of the clock change if the local time does not
/// exist. `None` outside of the range of timestamps.
fn resolve(local: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    let ambiguous = zone.to_ambiguous_timestamp(local);
    match ambiguous.offset() {
        AmbiguousOffset::Gap { .. } => {
            // With the old offset the time is after the change, with the new offset before it.
            let before = ambiguous.earlier().ok()?;
            zone.following(before).next().map(|change| change.timestamp())
        }
        AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => {
            ambiguous.earlier().ok()
        }
    }
}

#[cfg(test)]
mod tests;
