//! The one writer of this process: many jobs, one commit.
//!
//! Each job runs in a savepoint of its own, so a job that fails leaves nothing and the others are kept. Nobody is answered
//! before the commit: what a job saw of the jobs before it is true only then.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use provost_bus::{Bus, Message};
use provost_core::Env;

use crate::options::{FaultPoint, Faults};
use crate::sqlite::Sqlite;
use crate::sqlite::job::{Job, Verdict};
use crate::sqlite::write_queue::Incoming;
use crate::stats::Counters;
use crate::transaction::tx::Attempt;
use crate::{Hint, StoreError, Tx};

/// The most jobs in one commit: bounds how long the first of them waits.
const GROUP_JOBS_MAX: usize = 32;

pub(crate) struct Writer {
    pub(crate) db: Sqlite,
    pub(crate) env: Env,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) faults: Option<Faults>,
    pub(crate) check_transactions: bool,
}

/// The jobs of one transaction that ran so far.
#[derive(Default)]
struct Group {
    jobs: Vec<Box<dyn Job>>,
    hints: Vec<Hint>,
    /// How many jobs were kept.
    kept: usize,
}

impl Writer {
    /// Serves the queue until it is closed and empty.
    pub(crate) fn serve(self, mut incoming: Incoming, busy_timeout: Duration) {
        while let Some(jobs) = incoming.next_group(GROUP_JOBS_MAX) {
            if let Err(error) = self.write(jobs) {
                // They have waited just as long for the same thing.
                incoming.fail_expired(busy_timeout, &error);
            }
        }
    }

    /// Applies the jobs, commits, and answers them all. A job that loses the whole transaction takes along those before it; the
    /// others run in a new one.
    ///
    /// An error means that no transaction could be started; the jobs have been told.
    pub(crate) fn write(&self, jobs: Vec<Box<dyn Job>>) -> Result<(), StoreError> {
        let mut jobs = jobs.into_iter();
        while jobs.len() > 0 {
            let mut group = Group::default();
            if let Err(error) = self.begin() {
                group.jobs = jobs.collect();
                self.answer(group, Err(error.clone()));
                return Err(error);
            }
            let applied = jobs.by_ref().try_for_each(|job| self.apply(&mut group, job));
            let ended = applied.and_then(|()| self.end(&group));
            if ended.is_err() {
                self.undo();
            }
            self.answer(group, ended);
        }
        Ok(())
    }

    fn begin(&self) -> Result<(), StoreError> {
        Faults::at(self.faults.as_ref(), FaultPoint::Begin)?;
        self.db.begin_write()
    }

    /// Runs one job. An error means that the whole transaction is lost.
    fn apply(&self, group: &mut Group, mut job: Box<dyn Job>) -> Result<(), StoreError> {
        let saved = self.db.savepoint();
        if saved.is_err() {
            group.jobs.push(job);
            return saved;
        }
        let mut attempt = Attempt::new(&self.env);
        if self.check_transactions {
            attempt = self.rehearse(&mut *job, attempt)?;
        }
        let mut verdict = job.run(&mut Tx::new(&mut &self.db, &mut attempt));
        if let Err(error) = attempt.finish() {
            verdict = job.fail(error);
        }
        group.jobs.push(job);
        if let Some(error) = self.db.lost_transaction() {
            return Err(error);
        }
        match verdict {
            Verdict::Keep => {
                group.hints.append(&mut attempt.hints);
                group.kept += 1;
                self.db.release()
            }
            Verdict::Discard => self.db.rollback_to_savepoint(),
        }
    }

    /// Runs one job and takes its changes back. Returns the attempt that must repeat them.
    fn rehearse(&self, job: &mut dyn Job, attempt: Attempt) -> Result<Attempt, StoreError> {
        let mut attempt = attempt.checked();
        job.run(&mut Tx::new(&mut &self.db, &mut attempt));
        if let Some(error) = self.db.lost_transaction() {
            return Err(error);
        }
        self.db.rollback_to_savepoint()?;
        self.db.savepoint()?;
        Ok(attempt.again())
    }

    /// Commits, unless no job was kept.
    fn end(&self, group: &Group) -> Result<(), StoreError> {
        if group.kept == 0 {
            return self.db.rollback();
        }
        Faults::at(self.faults.as_ref(), FaultPoint::Commit)?;
        self.db.commit()?;
        Faults::at(self.faults.as_ref(), FaultPoint::Answer)
    }

    fn answer(&self, group: Group, outcome: Result<(), StoreError>) {
        let Group { jobs, hints, kept } = group;
        self.counters.answered(jobs.len(), outcome.is_ok() && kept > 0, outcome.is_err());
        for job in jobs {
            job.answer(outcome.clone());
        }
        if outcome.is_ok() {
            let mut sent = HashSet::with_capacity(hints.len());
            for wakeup in hints {
                // Several changes of one transaction may send the same one.
                if sent.insert(wakeup) {
                    self.bus.send(Message::Wakeup(wakeup));
                }
            }
        }
    }

    /// Rolls back what is left of a transaction. If even that fails, the next start of one tries again.
    fn undo(&self) {
        if let Err(error) = self.db.rollback() {
            tracing::warn!(%error, "store: rolling back a transaction did not work");
        }
    }
}
