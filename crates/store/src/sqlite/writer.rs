//! The single writer of this process: it commits many jobs together.
//!
//! Each job runs in its own savepoint, so a failed job is rolled back without affecting the others. Callers get their
//! results only after the commit, because a job may have seen changes of earlier jobs in the same transaction.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use provost_bus::{Bus, BusMessage};
use provost_core::Env;

use crate::options::{FaultInjector, FaultPoint};
use crate::sqlite::Sqlite;
use crate::sqlite::job::{JobResult, WriteJob};
use crate::sqlite::write_queue::WriteReceiver;
use crate::stats::{ChangeCounts, Counters};
use crate::transaction::tx::TxAttempt;
use crate::{StoreError, Tx, Wakeup};

/// Maximum number of jobs in one commit. Bounds how long the first of them waits.
const GROUP_JOBS_MAX: usize = 32;

/// Executes the jobs of the queue on the only write connection.
pub(crate) struct Writer {
    pub(crate) db: Sqlite,
    pub(crate) env: Env,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) faults: Option<FaultInjector>,
    pub(crate) check_transactions: bool,
}

/// The jobs that have run in the current transaction.
#[derive(Default)]
struct CommitGroup {
    jobs: Vec<Box<dyn WriteJob>>,
    wakeups: Vec<Wakeup>,
    changes: ChangeCounts,
    /// Number of jobs whose changes are part of the commit.
    committed_jobs: usize,
}

impl Writer {
    /// Processes the queue until it is closed and empty.
    pub(crate) fn serve(self, mut incoming: WriteReceiver, busy_timeout: Duration) {
        while let Some(jobs) = incoming.next_group(GROUP_JOBS_MAX) {
            if let Err(error) = self.write(jobs) {
                // The queued jobs have waited for the same lock.
                incoming.fail_expired(busy_timeout, &error);
            }
        }
    }

    /// Executes and commits the jobs, and replies to all of them. A job that loses the whole transaction fails the
    /// jobs before it too; the remaining jobs run in a new transaction.
    ///
    /// Returns an error if no transaction could be started. In this case, all jobs have received the error.
    pub(crate) fn write(&self, jobs: Vec<Box<dyn WriteJob>>) -> Result<(), StoreError> {
        let mut jobs = jobs.into_iter();
        while jobs.len() > 0 {
            let mut group = CommitGroup::default();
            if let Err(error) = self.begin() {
                group.jobs = jobs.collect();
                self.reply(group, Err(error.clone()));
                return Err(error);
            }
            let applied = jobs.by_ref().try_for_each(|job| self.apply(&mut group, job));
            let ended = applied.and_then(|()| self.end(&group));
            if ended.is_err() {
                self.undo();
            }
            self.reply(group, ended);
        }
        Ok(())
    }

    /// Starts a write transaction.
    fn begin(&self) -> Result<(), StoreError> {
        FaultInjector::at(self.faults.as_ref(), FaultPoint::Begin)?;
        self.db.begin_write()
    }

    /// Executes one job in its own savepoint. An error means that the whole transaction is lost.
    fn apply(&self, group: &mut CommitGroup, mut job: Box<dyn WriteJob>) -> Result<(), StoreError> {
        let saved = self.db.savepoint();
        if saved.is_err() {
            group.jobs.push(job);
            return saved;
        }
        let mut attempt = TxAttempt::new(&self.env);
        if self.check_transactions {
            attempt = self.rehearse(&mut *job, attempt)?;
        }
        let mut result = job.run(&mut Tx::new(&mut &self.db, &mut attempt));
        if let Err(error) = attempt.finish() {
            result = job.fail(error);
        }
        group.jobs.push(job);
        if let Some(error) = self.db.lost_transaction() {
            return Err(error);
        }
        match result {
            JobResult::Commit => {
                group.wakeups.append(&mut attempt.wakeups);
                group.changes.append(attempt.changes);
                group.committed_jobs += 1;
                self.db.release()
            }
            JobResult::Rollback => self.db.rollback_to_savepoint(),
        }
    }

    /// Executes the first, checked attempt of a job and rolls it back. Returns the attempt that must repeat the same
    /// changes.
    fn rehearse(
        &self,
        job: &mut dyn WriteJob,
        attempt: TxAttempt,
    ) -> Result<TxAttempt, StoreError> {
        let mut attempt = attempt.checked();
        job.run(&mut Tx::new(&mut &self.db, &mut attempt));
        if let Some(error) = self.db.lost_transaction() {
            return Err(error);
        }
        self.db.rollback_to_savepoint()?;
        self.db.savepoint()?;
        Ok(attempt.again())
    }

    /// Commits the transaction, or rolls it back if no job succeeded.
    fn end(&self, group: &CommitGroup) -> Result<(), StoreError> {
        if group.committed_jobs == 0 {
            return self.db.rollback();
        }
        FaultInjector::at(self.faults.as_ref(), FaultPoint::Commit)?;
        self.db.commit()?;
        FaultInjector::at(self.faults.as_ref(), FaultPoint::AfterCommit)
    }

    /// Replies to the jobs of a group, counts it, and after a commit sends its wake-ups to the bus.
    fn reply(&self, group: CommitGroup, outcome: Result<(), StoreError>) {
        let CommitGroup { jobs, wakeups, changes, committed_jobs } = group;
        self.counters.record_group(
            jobs.len(),
            outcome.is_ok() && committed_jobs > 0,
            outcome.is_err(),
        );
        if outcome.is_ok() {
            // Before the replies, so that a caller finds its own changes in the counters.
            self.counters.record_changes(changes);
        }
        for job in jobs {
            job.reply(outcome.clone());
        }
        if outcome.is_ok() {
            let mut sent = HashSet::with_capacity(wakeups.len());
            for wakeup in wakeups {
                // Several jobs of one transaction may send the same wake-up.
                if sent.insert(wakeup) {
                    self.bus.send(BusMessage::Wakeup(wakeup));
                }
            }
        }
    }

    /// Rolls back the rest of a transaction. If that fails too, the start of the next transaction tries again.
    fn undo(&self) {
        if let Err(error) = self.db.rollback() {
            tracing::warn!(%error, "store: rolling back a transaction did not work");
        }
    }
}
