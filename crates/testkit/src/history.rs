//! History checker: invariants of the events and leases of any run, even after crashes.
//!
//! Pure functions over collected data. Each function returns all violations, in plain text.
//!
//! ```
//! use provost_testkit::history::{self, Record};
//!
//! let record = |seq, kind: &str| Record { run: "r".into(), seq, epoch: 1, kind: kind.into(), at: 0 };
//! let records = [record(1, "run.started"), record(3, "run.finished")];
//! let violations = history::check(&records, |kind| kind == "run.finished");
//! assert_eq!(violations[0].to_string(), "run r: event 3 follows where 2 was due");
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// An event of a run, read from a log, a stream or the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Run of the event.
    pub run: String,
    /// Sequence number within the run.
    pub seq: u64,
    /// Epoch of the writer.
    pub epoch: u64,
    /// Kind of the event.
    pub kind: String,
    /// Time, in milliseconds of the store's clock.
    pub at: i64,
}

/// Lease of a run: from its claim until the run was settled or parked, or the lease expired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Session of the run.
    pub session: String,
    /// The run.
    pub run: String,
    /// Epoch of the claim.
    pub epoch: u64,
    /// Start, in milliseconds of the store's clock.
    pub from: i64,
    /// End, exclusive. `None`: the lease is active.
    pub until: Option<i64>,
}

/// A broken rule in the history of a run or session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// Numbers are missing before an event.
    Gap {
        /// The run.
        run: String,
        /// The expected number.
        due: u64,
        /// The number of the event.
        seq: u64,
    },
    /// A number came twice.
    Repeat {
        /// The run.
        run: String,
        /// The number.
        seq: u64,
    },
    /// A number came after a higher one.
    Late {
        /// The run.
        run: String,
        /// The number.
        seq: u64,
    },
    /// An owner wrote after a later owner had written.
    StaleEpoch {
        /// The run.
        run: String,
        /// The number of the event.
        seq: u64,
        /// Its epoch.
        epoch: u64,
        /// The epoch of an event before it.
        before: u64,
    },
    /// The run has no terminal event.
    NoEnd {
        /// The run.
        run: String,
        /// Its last event.
        last: String,
    },
    /// An event follows the terminal event.
    AfterEnd {
        /// The run.
        run: String,
        /// The number of the terminal event.
        end: u64,
        /// The number of the later event.
        seq: u64,
        /// Kind of the later event.
        kind: String,
    },
    /// A run that was accepted has no events.
    Lost {
        /// The run.
        run: String,
    },
    /// Two owners at the same time in one session.
    TwoOwners {
        /// The lease that began first.
        first: Lease,
        /// The lease that began before `first` ended.
        second: Lease,
    },
    /// A lease that ends before it begins.
    Inverted {
        /// The lease.
        lease: Lease,
    },
}

/// Returns all violations of [`sequences`], [`epochs`] and [`endings`].
///
/// Records are given in the order in which they were committed or read; runs may be mixed.
pub fn check(records: &[Record], is_terminal: impl Fn(&str) -> bool) -> Vec<Violation> {
    let mut violations = sequences(records);
    violations.extend(epochs(records));
    violations.extend(endings(records, is_terminal));
    violations
}

/// Returns a violation for each number that is missing, repeated or out of order. The records of a run must have the
/// numbers 1, 2, 3 … in the order given.
pub fn sequences(records: &[Record]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (run, records) in by_run(records) {
        let run = || run.to_owned();
        let mut seen = BTreeSet::new();
        let mut due = 1;
        for Record { seq, .. } in records {
            if !seen.insert(*seq) {
                violations.push(Violation::Repeat { run: run(), seq: *seq });
            } else if *seq < due {
                violations.push(Violation::Late { run: run(), seq: *seq });
            } else if *seq > due {
                violations.push(Violation::Gap { run: run(), due, seq: *seq });
            }
            due = due.max(seq.saturating_add(1));
        }
    }
    violations
}

/// Returns a violation for each event whose epoch is lower than an epoch before it in the same run.
pub fn epochs(records: &[Record]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (run, records) in sorted_by_run(records) {
        let mut before = 0;
        for &Record { seq, epoch, .. } in records {
            if epoch < before {
                let run = run.to_owned();
                violations.push(Violation::StaleEpoch { run, seq, epoch, before });
            }
            before = before.max(epoch);
        }
    }
    violations
}

/// Returns a violation for each run without a terminal event, and for each event after the first terminal event of its
/// run.
pub fn endings(records: &[Record], is_terminal: impl Fn(&str) -> bool) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (run, records) in sorted_by_run(records) {
        let Some(end) = records.iter().position(|record| is_terminal(&record.kind)) else {
            let last = records.last().map_or("none", |record| &record.kind).to_owned();
            violations.push(Violation::NoEnd { run: run.to_owned(), last });
            continue;
        };
        violations.extend(records[end + 1..].iter().map(|record| Violation::AfterEnd {
            run: run.to_owned(),
            end: records[end].seq,
            seq: record.seq,
            kind: record.kind.clone(),
        }));
    }
    violations
}

/// Returns a violation for each accepted run without events.
pub fn lost<'a>(records: &[Record], accepted: impl IntoIterator<Item = &'a str>) -> Vec<Violation> {
    let known = by_run(records);
    let lost = accepted.into_iter().filter(|run| !known.contains_key(run));
    lost.map(|run| Violation::Lost { run: run.to_owned() }).collect()
}

/// Returns a violation for each lease that starts while another lease of its session is active, and for each lease that
/// ends before it starts.
pub fn leases(leases: &[Lease]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut sessions: BTreeMap<&str, Vec<&Lease>> = BTreeMap::new();
    for lease in leases {
        match lease.until {
            Some(until) if until < lease.from => {
                violations.push(Violation::Inverted { lease: lease.clone() });
            }
            Some(until) if until == lease.from => {}
            _ => sessions.entry(&lease.session).or_default().push(lease),
        }
    }
    for mut leases in sessions.into_values() {
        leases.sort_by_key(|lease| (lease.from, lease.epoch));
        let mut longest: Option<&Lease> = None;
        for lease in leases {
            if let Some(first) = longest
                && first.until.is_none_or(|until| lease.from < until)
            {
                let (first, second) = (first.clone(), lease.clone());
                violations.push(Violation::TwoOwners { first, second });
            }
            let end = |lease: &Lease| lease.until.unwrap_or(i64::MAX);
            longest = longest.filter(|longest| end(longest) >= end(lease)).or(Some(lease));
        }
    }
    violations
}

/// Panics with a list of the violations if there are any.
///
/// # Panics
/// If there is a violation.
#[track_caller]
#[expect(clippy::panic, reason = "this is how a test fails")]
pub fn assert_holds(violations: &[Violation]) {
    if !violations.is_empty() {
        let lines: Vec<_> = violations.iter().map(ToString::to_string).collect();
        panic!("the history has {} violations:\n{}", lines.len(), lines.join("\n"));
    }
}

/// Groups the records by run, in the order given.
fn by_run(records: &[Record]) -> BTreeMap<&str, Vec<&Record>> {
    let mut runs: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
    for record in records {
        runs.entry(&record.run).or_default().push(record);
    }
    runs
}

/// Groups the records by run, sorted by sequence number.
fn sorted_by_run(records: &[Record]) -> BTreeMap<&str, Vec<&Record>> {
    let mut runs = by_run(records);
    for records in runs.values_mut() {
        records.sort_by_key(|record| record.seq);
    }
    runs
}

impl fmt::Display for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, epoch, from, .. } = self;
        match self.until {
            Some(until) => write!(f, "run {run} epoch {epoch} from {from} until {until}"),
            None => write!(f, "run {run} epoch {epoch} from {from} on"),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gap { run, due, seq } => {
                write!(f, "run {run}: event {seq} follows where {due} was due")
            }
            Self::Repeat { run, seq } => write!(f, "run {run}: event {seq} came twice"),
            Self::Late { run, seq } => write!(f, "run {run}: event {seq} came after a higher one"),
            Self::StaleEpoch { run, seq, epoch, before } => {
                write!(f, "run {run}: event {seq} has epoch {epoch} after one of epoch {before}")
            }
            Self::NoEnd { run, last } => write!(f, "run {run}: no end, the last event is {last}"),
            Self::AfterEnd { run, end, seq, kind } => {
                write!(f, "run {run}: event {seq} ({kind}) came after the end at {end}")
            }
            Self::Lost { run } => write!(f, "run {run}: accepted, but it has no events"),
            Self::TwoOwners { first, second } => {
                write!(f, "session {}: {second} although {first}", first.session)
            }
            Self::Inverted { lease } => {
                write!(f, "session {}: {lease} ends before it begins", lease.session)
            }
        }
    }
}

#[cfg(test)]
mod tests;
