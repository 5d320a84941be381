//! The one writer of this process: many jobs, one commit.
//!
//! A job that fails leaves nothing and the others are kept. Hardly any job fails after it has changed something, so nothing is
//! prepared for it: if one does, the whole group is taken back and run once more, each job behind a savepoint.
//! Nobody is answered before the commit: what a job saw of the jobs before it is true only then.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use provost_core::Env;

use crate::counters::Counters;
use crate::hint::Hints;
use crate::job::{Job, Verdict};
use crate::options::{FaultPoint, Faults};
use crate::queue::Queue;
use crate::sql::Afterwards;
use crate::sqlite::Sqlite;
use crate::{StoreError, Tx};

/// The most jobs in one commit: bounds how long the first of them waits.
const GROUP_JOBS_MAX: usize = 32;

/// A group with so many jobs takes none of those that have come meanwhile. Nobody is answered before its commit: one that takes
/// whoever is there leaves those idle who would bring the next one, and all of them wait for each other.
const GROUP_JOBS_ENOUGH: usize = 16;

/// A group that has taken this long to apply takes no more jobs.
const GROUP_TIME_MAX: Duration = Duration::from_millis(20);

pub(crate) struct Writer {
    pub(crate) db: Sqlite,
    pub(crate) env: Env,
    pub(crate) hints: Arc<Hints>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) faults: Option<Faults>,
}

/// The jobs that share a commit.
#[derive(Default)]
struct Group {
    jobs: Vec<Box<dyn Job>>,
    afterwards: Afterwards,
    /// A transaction is under way.
    open: bool,
    /// How many jobs the transaction holds changes of.
    kept: usize,
    /// Each job runs behind a savepoint: one of them has failed half way.
    guarded: bool,
    /// Where the changes begin. What ran before rests on what was committed and need not run again.
    unchanged: Place,
}

/// A place within a group: so many jobs, hints, and jobs with changes.
#[derive(Default, Clone, Copy)]
struct Place {
    jobs: usize,
    hints: usize,
    kept: usize,
}

/// What became of a job.
enum Applied {
    Done,
    /// It failed half way and nothing less than the whole transaction can be taken back.
    Again,
}

impl Group {
    /// The place after what is in it now.
    fn place(&self) -> Place {
        let (jobs, hints) = (self.jobs.len(), self.afterwards.hints.len());
        Place { jobs, hints, kept: self.kept }
    }

    /// Forgets what was to happen after a place.
    fn forget(&mut self, place: Place) {
        self.afterwards.hints.truncate(place.hints);
    }

    /// Takes out the jobs whose changes are gone; they run again, each behind a savepoint.
    fn take_back(&mut self) -> Vec<Box<dyn Job>> {
        let Place { jobs, kept, .. } = self.unchanged;
        self.forget(self.unchanged);
        (self.kept, self.open, self.guarded) = (kept, false, true);
        self.jobs.split_off(jobs)
    }

    fn answer(self, counters: &Counters, outcome: &Result<(), StoreError>) {
        counters.answered(self.jobs.len(), outcome.is_ok() && self.kept > 0, outcome.is_err());
        for job in self.jobs {
            job.answer(outcome.clone());
        }
    }
}

impl Writer {
    /// Serves the queue until it is closed and empty.
    pub(crate) fn serve(self, queue: &Queue, busy_timeout: Duration) {
        while let Some(jobs) = queue.wait(GROUP_JOBS_MAX) {
            if let Err(error) = self.write_group(jobs, &mut |room| queue.take(room)) {
                // They have waited just as long for the same thing.
                for job in queue.expired(busy_timeout) {
                    job.answer(Err(error.clone()));
                }
            }
        }
    }

    /// Applies the job, commits, and answers it. An error means that no transaction could be started; the job has been told.
    pub(crate) fn write(&self, job: Box<dyn Job>) -> Result<(), StoreError> {
        self.write_group(vec![job], &mut |_| Vec::new())
    }

    /// Applies the jobs, and those that `more` brings meanwhile, commits, and answers them all.
    ///
    /// An error means that no transaction could be started; the jobs have been told.
    fn write_group(
        &self,
        jobs: Vec<Box<dyn Job>>,
        more: &mut dyn FnMut(usize) -> Vec<Box<dyn Job>>,
    ) -> Result<(), StoreError> {
        let started = Instant::now();
        let mut waiting = VecDeque::from(jobs);
        let mut group = Group::default();
        loop {
            let enough =
                group.jobs.len() >= GROUP_JOBS_ENOUGH || started.elapsed() >= GROUP_TIME_MAX;
            if waiting.is_empty() && !enough {
                waiting.extend(more(GROUP_JOBS_MAX - group.jobs.len()));
            }
            let Some(job) = waiting.pop_front() else { break };
            if !group.open {
                if let Err(error) = self.begin() {
                    // Without a transaction nothing was kept, so what these jobs answered stands.
                    group.answer(&self.counters, &Ok(()));
                    let jobs = std::iter::once(job).chain(waiting).collect();
                    Group { jobs, ..Group::default() }.answer(&self.counters, &Err(error.clone()));
                    return Err(error);
                }
                group.open = true;
            }
            match self.apply(&mut group, job) {
                Ok(Applied::Done) => {}
                Ok(Applied::Again) => {
                    self.undo();
                    waiting = group.take_back().into_iter().chain(waiting).collect();
                }
                Err(error) => {
                    self.undo();
                    mem::take(&mut group).answer(&self.counters, &Err(error));
                }
            }
        }
        self.finish(group);
        Ok(())
    }

    fn begin(&self) -> Result<(), StoreError> {
        Faults::at(self.faults.as_ref(), FaultPoint::Begin)?;
        self.db.begin_write()
    }

    /// Runs one job. An error means that the whole transaction is lost.
    fn apply(&self, group: &mut Group, mut job: Box<dyn Job>) -> Result<Applied, StoreError> {
        // The first job needs no savepoint: rolling back everything is rolling back it.
        let nested = group.guarded && group.kept > 0;
        if nested && let Err(error) = self.db.savepoint() {
            group.jobs.push(job);
            return Err(error);
        }
        let (before, changes_before) = (group.place(), self.db.changes());
        let mut db = &self.db;
        let mut tx = Tx::new(&mut db, self.env.now(), &mut group.afterwards);
        let verdict = job.run(&mut tx);
        group.jobs.push(job);
        if let Some(error) = self.db.lost_transaction() {
            return Err(error);
        }
        match verdict {
            Verdict::Keep => {
                group.kept += 1;
                if nested {
                    self.db.release()?;
                }
            }
            Verdict::Discard => {
                group.forget(before);
                if nested {
                    self.db.rollback_to_savepoint()?;
                } else if group.kept == 0 {
                    group.open = false;
                    self.db.rollback()?;
                } else if self.db.changes() != changes_before {
                    return Ok(Applied::Again);
                }
            }
        }
        if group.unchanged.jobs + 1 == group.jobs.len() && self.db.changes() == changes_before {
            group.unchanged = group.place();
        }
        Ok(Applied::Done)
    }

    fn finish(&self, mut group: Group) {
        let outcome = if group.open { self.commit() } else { Ok(()) };
        let hints = mem::take(&mut group.afterwards).hints;
        if outcome.is_ok() {
            group.answer(&self.counters, &outcome);
            self.hints.send(hints);
        } else {
            group.answer(&self.counters, &outcome);
        }
    }

    fn commit(&self) -> Result<(), StoreError> {
        let committed =
            Faults::at(self.faults.as_ref(), FaultPoint::Commit).and_then(|()| self.db.commit());
        if committed.is_err() {
            self.undo();
            return committed;
        }
        Faults::at(self.faults.as_ref(), FaultPoint::Answer)
    }

    /// Rolls back what is left of a transaction. If even that fails, the next start of one tries again.
    fn undo(&self) {
        if let Err(error) = self.db.rollback() {
            tracing::warn!(%error, "store: rolling back a transaction did not work");
        }
    }
}
