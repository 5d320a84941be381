//! Counters of the store since it was opened. They count the work of this process, not that of others with the same
//! database.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use provost_core::Usage;

/// Counters of the store since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreStats {
    /// Jobs that the writer completed.
    pub jobs: u64,
    /// Commits. `jobs / commits` is the mean group size.
    pub commits: u64,
    /// Groups that failed as a whole.
    pub groups_failed: u64,
    /// Maximum number of jobs in one commit so far.
    pub group_jobs_max: u64,
    /// Jobs in the write queue now.
    pub waiting: u64,
    /// Reads.
    pub reads: u64,
}

/// Changes that this store has committed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommittedChanges {
    /// Number of durable events by kind.
    pub events: BTreeMap<String, u64>,
    /// Ended runs by agent.
    pub ended_runs: BTreeMap<String, EndedRuns>,
}

/// Number and usage of ended runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EndedRuns {
    /// Number of runs.
    pub count: u64,
    /// Cost in millionths of the currency.
    pub cost_micros: u64,
    /// Tokens.
    pub usage: Usage,
}

impl CommittedChanges {
    fn merge(&mut self, other: Self) {
        for (kind, count) in other.events {
            *self.events.entry(kind).or_default() += count;
        }
        for (agent, ended) in other.ended_runs {
            self.ended_runs.entry(agent).or_default().add(ended);
        }
    }
}

impl EndedRuns {
    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.cost_micros = self.cost_micros.saturating_add(other.cost_micros);
        self.usage.input = self.usage.input.saturating_add(other.usage.input);
        self.usage.output = self.usage.output.saturating_add(other.usage.output);
    }
}

/// Changes of one transaction, counted after its commit.
#[derive(Debug, Default)]
pub(crate) struct ChangeCounts(CommittedChanges);

impl ChangeCounts {
    pub(crate) fn event(&mut self, kind: &str) {
        match self.0.events.get_mut(kind) {
            Some(count) => *count += 1,
            None => drop(self.0.events.insert(kind.to_owned(), 1)),
        }
    }

    pub(crate) fn ended_run(&mut self, agent: &str, cost_micros: u64, usage: Usage) {
        let ended = EndedRuns { count: 1, cost_micros, usage };
        self.0.ended_runs.entry(agent.to_owned()).or_default().add(ended);
    }

    pub(crate) fn append(&mut self, other: Self) {
        self.0.merge(other.0);
    }
}

/// The counters behind [`StoreStats`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    changes: Mutex<CommittedChanges>,
    jobs: AtomicU64,
    commits: AtomicU64,
    groups_failed: AtomicU64,
    group_jobs_max: AtomicU64,
    reads: AtomicU64,
}

impl Counters {
    /// Counts a completed group of `jobs`.
    pub(crate) fn record_group(&self, jobs: usize, committed: bool, failed: bool) {
        let jobs = u64::try_from(jobs).unwrap_or(u64::MAX);
        self.jobs.fetch_add(jobs, Ordering::Relaxed);
        self.commits.fetch_add(u64::from(committed), Ordering::Relaxed);
        self.groups_failed.fetch_add(u64::from(failed), Ordering::Relaxed);
        if committed {
            self.group_jobs_max.fetch_max(jobs, Ordering::Relaxed);
        }
    }

    pub(crate) fn record_changes(&self, changes: ChangeCounts) {
        self.changes.lock().merge(changes.0);
    }

    pub(crate) fn committed_changes(&self) -> CommittedChanges {
        self.changes.lock().clone()
    }

    pub(crate) fn record_read(&self) {
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the current values. `waiting` is the number of queued jobs.
    pub(crate) fn snapshot(&self, waiting: usize) -> StoreStats {
        StoreStats {
            jobs: self.jobs.load(Ordering::Relaxed),
            commits: self.commits.load(Ordering::Relaxed),
            groups_failed: self.groups_failed.load(Ordering::Relaxed),
            group_jobs_max: self.group_jobs_max.load(Ordering::Relaxed),
            waiting: u64::try_from(waiting).unwrap_or(u64::MAX),
            reads: self.reads.load(Ordering::Relaxed),
        }
    }
}
