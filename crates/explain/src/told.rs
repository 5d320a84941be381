//! An answer in the making, and the words for times, counts and money.

use std::fmt::Display;
use std::time::Duration;

use provost_core::Timestamp;
use provost_core::text::truncate_chars;

use super::{Cause, Evidence, NextStep};

/// Characters of a problem that a sentence repeats.
const PROBLEM_CHARS_MAX: usize = 300;

/// What is told about a subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) cause: Cause,
    pub(super) sentence: String,
    pub(super) evidence: Vec<Evidence>,
    pub(super) next: Vec<NextStep>,
    pub(super) related: Vec<String>,
}

impl Told {
    pub(super) fn new(cause: Cause, sentence: impl Into<String>) -> Self {
        Self {
            cause,
            sentence: sentence.into(),
            evidence: Vec::new(),
            next: Vec::new(),
            related: Vec::new(),
        }
    }

    /// Adds something that was seen.
    pub(super) fn see(mut self, what: &str, value: impl Display) -> Self {
        self.evidence.push(Evidence { what: what.to_owned(), value: value.to_string() });
        self
    }

    /// Adds something that was seen, if it was.
    pub(super) fn see_some(self, what: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.see(what, value),
            None => self,
        }
    }

    /// Adds a command, unless it is there.
    pub(super) fn then(mut self, step: NextStep) -> Self {
        if self.next.iter().all(|known| known.command != step.command) {
            self.next.push(step);
        }
        self
    }

    /// Adds what it waits for, unless it is there.
    pub(super) fn about(mut self, id: impl Display) -> Self {
        let id = id.to_string();
        if !self.related.contains(&id) {
            self.related.push(id);
        }
        self
    }

    /// Adds everything that is told about what it waits for.
    pub(super) fn because_of(self, what: &str, other: Self) -> Self {
        let told = self.see(what, &other.sentence);
        let told = other.next.into_iter().fold(told, Self::then);
        other.related.into_iter().fold(told, Self::about)
    }
}

/// A time span as people say it: its two largest units.
pub(super) fn span(time: Duration) -> String {
    let millis = time.as_millis();
    if millis < 1000 {
        return format!("{millis} ms");
    }
    let seconds = time.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let parts = match (days, hours, minutes) {
        (0, 0, 0) => [(seconds, "s"), (0, "")],
        (0, 0, _) => [(minutes, "min"), (seconds % 60, "s")],
        (0, _, _) => [(hours, "h"), (minutes, "min")],
        _ => [(days, "d"), (hours, "h")],
    };
    let said = parts.iter().filter(|(count, _)| *count > 0);
    let said: Vec<String> = said.map(|(count, unit)| format!("{count} {unit}")).collect();
    said.join(" ")
}

/// How far away a moment is.
pub(super) fn distance(now: Timestamp, at: Timestamp) -> String {
    match at.cmp(&now) {
        std::cmp::Ordering::Greater => format!("in {}", span(at.since(now))),
        std::cmp::Ordering::Equal => "now".to_owned(),
        std::cmp::Ordering::Less => format!("{} ago", span(now.since(at))),
    }
}

/// A moment, and how far away it is.
pub(super) fn moment(now: Timestamp, at: Timestamp) -> String {
    format!("{} ({})", at.to_rfc3339(), distance(now, at))
}

/// So many of something.
pub(super) fn count(number: u64, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        _ => format!("{number} {many}"),
    }
}

/// Millionths of a currency as people write them.
pub(super) fn money(micros: i64, currency: &str) -> String {
    let (sign, micros) = (if micros < 0 { "-" } else { "" }, micros.unsigned_abs());
    let digits = format!("{:06}", micros % 1_000_000);
    let digits = digits.trim_end_matches('0');
    let digits = if digits.len() < 2 { format!("{digits:0<2}") } else { digits.to_owned() };
    format!("{sign}{}.{digits} {currency}", micros / 1_000_000)
}

/// What somebody else said, on one line and not too long.
pub(super) fn problem(detail: Option<&str>) -> String {
    let words: Vec<&str> = detail.unwrap_or_default().split_whitespace().collect();
    if words.is_empty() {
        return "nothing more was written down".to_owned();
    }
    truncate_chars(&words.join(" "), PROBLEM_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_by_their_two_largest_units() {
        for (millis, said) in [
            (7, "7 ms"),
            (45_000, "45 s"),
            (60_000, "1 min"),
            (200_000, "3 min 20 s"),
            (7_500_000, "2 h 5 min"),
            (86_400_000 + 3_600_000, "1 d 1 h"),
        ] {
            assert_eq!(span(Duration::from_millis(millis)), said);
        }
        let now = Timestamp::from_millis(10_000);
        assert_eq!(distance(now, Timestamp::from_millis(12_000)), "in 2 s");
        assert_eq!(distance(now, Timestamp::from_millis(9_000)), "1 s ago");
    }

    #[test]
    fn money_is_told_without_needless_digits() {
        assert_eq!(money(1_250_000, "USD"), "1.25 USD");
        assert_eq!(money(-10, "USD"), "-0.00001 USD");
        assert_eq!(money(2_000_000, "EUR"), "2.00 EUR");
    }

    #[test]
    fn a_problem_is_one_line_and_short() {
        assert_eq!(problem(Some("a\n  b")), "a b");
        assert_eq!(problem(Some(&"é".repeat(1000))).chars().count(), PROBLEM_CHARS_MAX + 1);
        assert_eq!(problem(None), "nothing more was written down");
    }
}
