//! The line in front of the writer: bounded, in order, with a short lane for what must not wait behind work.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::StoreError;
use crate::job::Job;

/// How many jobs may wait. More than that means the disk cannot follow: callers must hear it.
const QUEUE_JOBS_MAX: usize = 4096;

/// How many urgent jobs may wait besides: there is one renewal per worker at a time.
const QUEUE_URGENT_MAX: usize = 256;

/// How long a job waits for company that is in no hurry itself.
const COMPANY_PATIENCE: Duration = Duration::from_millis(2);

/// Which lane a job takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    Urgent,
    Normal,
    /// The normal lane, in order; but the writer is not woken for it before another job comes or some time has passed.
    Company,
}

struct Waiting {
    job: Box<dyn Job>,
    since: Instant,
    /// True if somebody waits for it.
    eager: bool,
}

#[derive(Default)]
struct State {
    urgent: VecDeque<Waiting>,
    normal: VecDeque<Waiting>,
    /// How many of them somebody waits for.
    eager: usize,
    /// True if somebody now waits for what was in no hurry.
    hurried: bool,
    /// True while the writer sleeps until it is woken; just after its work it looks by itself soon.
    asleep: bool,
    /// True while the writer waits and nobody has woken it. To wake it takes a call of the system, whether it waits or not.
    waits: bool,
    closed: bool,
}

impl State {
    fn len(&self) -> usize {
        self.urgent.len() + self.normal.len()
    }

    /// The lane, and how many jobs it holds at most.
    fn lane(&mut self, lane: Lane) -> (&mut VecDeque<Waiting>, usize) {
        match lane {
            Lane::Urgent => (&mut self.urgent, QUEUE_URGENT_MAX),
            Lane::Normal | Lane::Company => (&mut self.normal, QUEUE_JOBS_MAX),
        }
    }

    fn take(&mut self, room: usize) -> Vec<Box<dyn Job>> {
        self.hurried = false;
        let urgent = self.urgent.len().min(room);
        let normal = self.normal.len().min(room - urgent);
        let jobs = self.urgent.drain(..urgent).chain(self.normal.drain(..normal));
        let eager = &mut self.eager;
        let jobs = jobs.inspect(|waiting| *eager -= usize::from(waiting.eager));
        jobs.map(|waiting| waiting.job).collect()
    }

    /// True if the writer must be woken, which whoever asks then does.
    fn must_wake(&mut self) -> bool {
        std::mem::take(&mut self.waits)
    }

    /// How long the writer may leave what waits; `None` if it must not.
    fn leisure(&self) -> Option<Duration> {
        let first =
            self.normal.front().filter(|_| self.eager == 0 && !self.hurried && !self.closed)?;
        COMPANY_PATIENCE.checked_sub(first.since.elapsed()).filter(|left| !left.is_zero())
    }
}

/// The jobs that wait for the writer.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

impl Queue {
    /// Appends a job to its lane, or answers it at once if it cannot wait here.
    pub(crate) fn push(&self, job: Box<dyn Job>, lane: Lane) {
        let mut state = self.state();
        if state.closed {
            drop(state);
            return job.answer(Err(StoreError::Closed));
        }
        let (waiting, most) = state.lane(lane);
        if waiting.len() >= most {
            drop(state);
            return job.answer(Err(StoreError::Busy { detail: format!("{most} changes wait") }));
        }
        let eager = lane != Lane::Company;
        waiting.push_back(Waiting { job, since: Instant::now(), eager });
        state.eager += usize::from(eager);
        // The first one starts the clock of its patience.
        let wake = (eager || (state.asleep && state.len() == 1)) && state.must_wake();
        drop(state);
        if wake {
            self.changed.notify_one();
        }
    }

    /// Somebody waits now for what waits here.
    pub(crate) fn hurry(&self) {
        let mut state = self.state();
        if state.len() == 0 {
            return;
        }
        state.hurried = true;
        let wake = state.must_wake();
        drop(state);
        if wake {
            self.changed.notify_one();
        }
    }

    /// Waits for jobs and takes up to `room` of them; nothing once the queue is closed and empty.
    pub(crate) fn wait(&self, room: usize) -> Option<Vec<Box<dyn Job>>> {
        let mut state = self.state();
        let mut rested = false;
        loop {
            if let Some(leisure) = state.leisure() {
                state = self.rest(state, Some(leisure));
                continue;
            }
            let jobs = state.take(room);
            if !jobs.is_empty() {
                return Some(jobs);
            }
            if state.closed {
                return None;
            }
            // More usually follows at once, and what is in no hurry then need not wake it.
            state.asleep = rested;
            state = self.rest(state, (!rested).then_some(COMPANY_PATIENCE));
            state.asleep = false;
            rested = true;
        }
    }

    /// Sleeps until it is woken, or for the given time.
    fn rest<'q>(
        &'q self,
        mut state: MutexGuard<'q, State>,
        time: Option<Duration>,
    ) -> MutexGuard<'q, State> {
        state.waits = true;
        let mut state = match time {
            Some(time) => {
                let waited = self.changed.wait_timeout(state, time);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
        };
        state.waits = false;
        state
    }

    /// Takes up to `room` of what waits now.
    pub(crate) fn take(&self, room: usize) -> Vec<Box<dyn Job>> {
        self.state().take(room)
    }

    /// Takes every job that has waited for at least `patience`.
    pub(crate) fn expired(&self, patience: Duration) -> Vec<Box<dyn Job>> {
        let mut state = self.state();
        let State { urgent, normal, eager, .. } = &mut *state;
        let mut expired = Vec::new();
        for lane in [urgent, normal] {
            while let Some(waiting) =
                lane.pop_front_if(|waiting| waiting.since.elapsed() >= patience)
            {
                *eager -= usize::from(waiting.eager);
                expired.push(waiting.job);
            }
        }
        expired
    }

    /// Takes no more jobs; those that wait are still done.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    /// Closes and answers what waits: there is no writer any more.
    pub(crate) fn abandon(&self) {
        self.close();
        for job in self.take(usize::MAX) {
            job.answer(Err(StoreError::Closed));
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.state().len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No job runs under this lock, so a panic cannot leave it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
