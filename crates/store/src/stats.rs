//! Counters of the store since it was opened.

use std::sync::atomic::{AtomicU64, Ordering};

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

/// The counters behind [`StoreStats`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
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

    /// Counts a read.
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
