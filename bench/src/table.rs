//! The table of the results: measurement, baseline and limit.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use crate::Result;
use crate::measure::Pairs;

/// Unit of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Seconds.
    Time,
    /// Bytes.
    Bytes,
    /// Operations per second.
    PerSecond,
    /// A ratio.
    Times,
    /// A number of items.
    Count,
}

impl Unit {
    fn show(self, value: f64) -> String {
        let size = value.abs();
        match self {
            Self::Time if size >= 1.0 => format!("{value:.2} s"),
            Self::Time if size >= 1e-3 => format!("{:.2} ms", value * 1e3),
            Self::Time if size >= 1e-6 => format!("{:.1} us", value * 1e6),
            Self::Time => format!("{:.0} ns", value * 1e9),
            Self::Bytes if size >= 1024.0 * 1024.0 => {
                format!("{:.1} MiB", value / 1024.0 / 1024.0)
            }
            Self::Bytes if size >= 10.0 * 1024.0 => format!("{:.1} KiB", value / 1024.0),
            Self::Bytes => format!("{value:.0} B"),
            Self::PerSecond => format!("{value:.0}/s"),
            Self::Times => format!("{value:.2} x"),
            Self::Count => format!("{value:.1}"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Pass,
    Fail,
    /// For information, without a limit.
    Info,
    Unmeasured,
}

/// A limit in words, and whether the measurement is within it.
type Limit = (String, Verdict);

struct Row {
    what: String,
    provost: String,
    baseline: String,
    ratio: String,
    limit: String,
    verdict: Verdict,
}

impl Row {
    fn cells(&self) -> [&str; 6] {
        let verdict = match self.verdict {
            Verdict::Pass => "PASS",
            Verdict::Fail => "FAIL",
            Verdict::Info => "",
            Verdict::Unmeasured => "NOT MEASURED",
        };
        [&self.what, &self.provost, &self.baseline, &self.ratio, &self.limit, verdict]
    }
}

/// Collects rows and prints them.
pub(crate) struct Table {
    facts: String,
    rows: Vec<Row>,
}

impl Table {
    pub(crate) fn new(facts: String) -> Self {
        Self { facts, rows: Vec::new() }
    }

    /// Adds a comparison whose ratio to the baseline must not exceed `limit`.
    pub(crate) fn ratio_at_most(&mut self, what: &str, unit: Unit, pairs: &Pairs, limit: f64) {
        let limit_text = format!("<= {}", Unit::Times.show(limit));
        self.compare(what, unit, pairs, (limit_text, verdict(pairs.ratio() <= limit)));
    }

    /// Adds a comparison whose ratio to the baseline must reach `limit`.
    pub(crate) fn ratio_at_least(&mut self, what: &str, unit: Unit, pairs: &Pairs, limit: f64) {
        let limit_text = format!(">= {}", Unit::Times.show(limit));
        self.compare(what, unit, pairs, (limit_text, verdict(pairs.ratio() >= limit)));
    }

    /// Adds a comparison whose difference to the baseline must not exceed `limit`.
    pub(crate) fn excess_at_most(&mut self, what: &str, unit: Unit, pairs: &Pairs, limit: f64) {
        let limit_text = format!("<= baseline + {}", unit.show(limit));
        self.compare(what, unit, pairs, (limit_text, verdict(pairs.excess() <= limit)));
    }

    /// Adds a comparison without a limit.
    pub(crate) fn compare_only(&mut self, what: &str, unit: Unit, pairs: &Pairs) {
        self.compare(what, unit, pairs, (String::new(), Verdict::Info));
    }

    /// Adds a number that must not exceed `limit`.
    pub(crate) fn at_most(&mut self, what: &str, unit: Unit, provost: f64, limit: f64) {
        self.rows.push(Row {
            what: what.to_owned(),
            provost: unit.show(provost),
            baseline: String::new(),
            ratio: String::new(),
            limit: format!("<= {}", unit.show(limit)),
            verdict: verdict(provost <= limit),
        });
    }

    /// Adds a number that must reach `limit`.
    pub(crate) fn at_least(&mut self, what: &str, unit: Unit, provost: f64, limit: f64) {
        self.rows.push(Row {
            what: what.to_owned(),
            provost: unit.show(provost),
            baseline: String::new(),
            ratio: String::new(),
            limit: format!(">= {}", unit.show(limit)),
            verdict: verdict(provost >= limit),
        });
    }

    /// Adds a fact.
    pub(crate) fn info(&mut self, what: &str, fact: impl Into<String>) {
        self.plain(what, fact.into(), Verdict::Info);
    }

    /// Adds a number without a limit.
    pub(crate) fn number(&mut self, what: &str, unit: Unit, provost: f64) {
        self.info(what, unit.show(provost));
    }

    /// Adds a missing measurement, with the reason.
    pub(crate) fn unmeasured(&mut self, what: &str, why: impl Into<String>) {
        self.plain(what, why.into(), Verdict::Unmeasured);
    }

    /// Returns true if everything with a limit was measured and is within its limit.
    pub(crate) fn all_passed(&self) -> bool {
        self.rows.iter().all(|row| matches!(row.verdict, Verdict::Pass | Verdict::Info))
    }

    /// Writes the table to standard output.
    pub(crate) fn print(&self) -> Result<()> {
        let head = ["", "Provost", "baseline", "ratio", "limit", ""];
        let lines: Vec<[&str; 6]> =
            std::iter::once(head).chain(self.rows.iter().map(Row::cells)).collect();
        let widths: [usize; 6] = std::array::from_fn(|column| {
            lines.iter().map(|line| line[column].len()).max().unwrap_or(0)
        });
        let mut text = format!("{}\n\n", self.facts);
        for line in &lines {
            let mut shown = format!("{:<1$}", line[0], widths[0]);
            for column in 1..5 {
                write!(shown, "  {:>1$}", line[column], widths[column])?;
            }
            writeln!(text, "{}", format!("{shown}  {}", line[5]).trim_end())?;
        }
        let count = |expected| self.rows.iter().filter(|row| row.verdict == expected).count();
        let (passed, missed) = (count(Verdict::Pass), count(Verdict::Fail));
        let unmeasured = count(Verdict::Unmeasured);
        writeln!(text, "\n{passed} passed, {missed} failed, {unmeasured} not measured")?;
        io::stdout().lock().write_all(text.as_bytes())?;
        Ok(())
    }

    fn compare(&mut self, what: &str, unit: Unit, pairs: &Pairs, limit: Limit) {
        self.rows.push(Row {
            what: what.to_owned(),
            provost: unit.show(pairs.provost()),
            baseline: unit.show(pairs.baseline()),
            ratio: Unit::Times.show(pairs.ratio()),
            limit: limit.0,
            verdict: limit.1,
        });
    }

    fn plain(&mut self, what: &str, provost: String, verdict: Verdict) {
        self.rows.push(Row {
            what: what.to_owned(),
            provost,
            baseline: String::new(),
            ratio: String::new(),
            limit: String::new(),
            verdict,
        });
    }
}

fn verdict(within: bool) -> Verdict {
    if within { Verdict::Pass } else { Verdict::Fail }
}
