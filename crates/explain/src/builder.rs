//! Builder of an explanation, and the formats of times, counts and money.

use std::fmt::Display;
use std::time::Duration;

use provost_core::Timestamp;
use provost_core::text::truncate_chars;

use super::{Cause, Evidence, NextStep};

/// Characters of an error detail that a sentence repeats.
const DETAIL_CHARS_MAX: usize = 300;

/// An explanation under construction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExplanationBuilder {
    pub(super) cause: Cause,
    pub(super) sentence: String,
    pub(super) evidence: Vec<Evidence>,
    pub(super) next: Vec<NextStep>,
    pub(super) related: Vec<String>,
}

impl ExplanationBuilder {
    /// Creates an explanation with a cause and its sentence, without evidence and next steps.
    pub(super) fn new(cause: Cause, sentence: impl Into<String>) -> Self {
        Self {
            cause,
            sentence: sentence.into(),
            evidence: Vec::new(),
            next: Vec::new(),
            related: Vec::new(),
        }
    }

    /// Adds a piece of evidence.
    pub(super) fn with_evidence(mut self, what: &str, value: impl Display) -> Self {
        self.evidence.push(Evidence { what: what.to_owned(), value: value.to_string() });
        self
    }

    /// Adds a piece of evidence if it has a value.
    pub(super) fn with_evidence_opt(self, what: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.with_evidence(what, value),
            None => self,
        }
    }

    /// Adds a command unless the explanation already contains it. Keeps the order of the calls.
    pub(super) fn with_next_step(mut self, step: NextStep) -> Self {
        if self.next.iter().all(|known| known.command != step.command) {
            self.next.push(step);
        }
        self
    }

    /// Adds the id of a related subject unless the explanation already contains it.
    pub(super) fn with_related(mut self, id: impl Display) -> Self {
        let id = id.to_string();
        if !self.related.contains(&id) {
            self.related.push(id);
        }
        self
    }

    /// Adds the sentence of another explanation as evidence, with its commands and related subjects.
    pub(super) fn caused_by(self, what: &str, other: Self) -> Self {
        let explanation = self.with_evidence(what, &other.sentence);
        let explanation = other.next.into_iter().fold(explanation, Self::with_next_step);
        other.related.into_iter().fold(explanation, Self::with_related)
    }
}

/// Formats a time span with its two largest units.
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
    let units = parts.iter().filter(|(count, _)| *count > 0);
    let units: Vec<String> = units.map(|(count, unit)| format!("{count} {unit}")).collect();
    units.join(" ")
}

/// Formats the distance from `now` to `at`, such as `in 5 s` or `5 s ago`.
pub(super) fn distance(now: Timestamp, at: Timestamp) -> String {
    match at.cmp(&now) {
        std::cmp::Ordering::Greater => format!("in {}", span(at.since(now))),
        std::cmp::Ordering::Equal => "now".to_owned(),
        std::cmp::Ordering::Less => format!("{} ago", span(now.since(at))),
    }
}

/// Formats a timestamp with its distance from `now`.
pub(super) fn timestamp(now: Timestamp, at: Timestamp) -> String {
    format!("{} ({})", at.to_rfc3339(), distance(now, at))
}

/// Formats a number with the singular or the plural of its noun.
pub(super) fn count(number: u64, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        _ => format!("{number} {many}"),
    }
}

/// Formats millionths of a currency as a decimal amount.
pub(super) fn money(micros: i64, currency: &str) -> String {
    let (sign, micros) = (if micros < 0 { "-" } else { "" }, micros.unsigned_abs());
    let digits = format!("{:06}", micros % 1_000_000);
    let digits = digits.trim_end_matches('0');
    let digits = if digits.len() < 2 { format!("{digits:0<2}") } else { digits.to_owned() };
    format!("{sign}{}.{digits} {currency}", micros / 1_000_000)
}

/// Formats an error detail on one line, truncated to [`DETAIL_CHARS_MAX`].
pub(super) fn error_detail(detail: Option<&str>) -> String {
    let words: Vec<&str> = detail.unwrap_or_default().split_whitespace().collect();
    if words.is_empty() {
        return "no details were recorded".to_owned();
    }
    truncate_chars(&words.join(" "), DETAIL_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_by_their_two_largest_units() {
        for (millis, units) in [
            (7, "7 ms"),
            (45_000, "45 s"),
            (60_000, "1 min"),
            (200_000, "3 min 20 s"),
            (7_500_000, "2 h 5 min"),
            (86_400_000 + 3_600_000, "1 d 1 h"),
        ] {
            assert_eq!(span(Duration::from_millis(millis)), units);
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
        assert_eq!(error_detail(Some("a\n  b")), "a b");
        assert_eq!(error_detail(Some(&"é".repeat(1000))).chars().count(), DETAIL_CHARS_MAX + 1);
        assert_eq!(error_detail(None), "no details were recorded");
    }
}
