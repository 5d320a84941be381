//! Takes facts about people out of conversations, so that a crash loses none and doubles none.
//!
//! What is to be read is in the store's queue before anything else happens. A job is read, decided and applied; the changes,
//! the end of the job and how far its session was read are one transaction. A crash anywhere repeats the whole job.

mod decide;
mod extract;
mod work;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use provost_core::{Backoff, Timestamp, Usage};
use provost_failpoint::failpoint;
use provost_model::{ChatModel, Settings};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::job::{Claim, Conversation, Job, Postponed};
use crate::memory::Owner;
use crate::{Memories, MemoryError};

/// The shortest wait before another try.
const RETRY_MIN: Duration = Duration::from_millis(1);

/// How a keeper works.
#[derive(Debug, Clone)]
pub struct KeeperOptions {
    /// What the model is asked for, in place of the built-in instructions.
    pub instructions: Option<String>,
    /// Sampling and other knobs of the model.
    pub settings: Settings,
    /// Facts that one job can give; further ones are left out.
    pub facts_max: usize,
    /// Bytes of one fact; a longer one is left out.
    pub fact_bytes_max: usize,
    /// Like memories that a fact is compared with; 0 adds every fact as it is.
    pub candidates: usize,
    /// The lowest score of a like memory.
    pub candidate_score_min: f32,
    /// Bytes of conversation in one question to the model.
    pub chunk_bytes_max: usize,
    /// Jobs at the same time.
    pub workers: usize,
    /// How often a job may fail before it is given up.
    pub failures_max: u32,
    /// The wait after the first failure; each further one is twice as long.
    pub retry_base: Duration,
    /// The longest wait after a failure.
    pub retry_cap: Duration,
    /// How long a job may take. If the process dies, another one takes the job after this.
    pub lease: Duration,
    /// How often the queue is looked at for what other processes have put there.
    pub poll: Duration,
}

impl Default for KeeperOptions {
    fn default() -> Self {
        Self {
            instructions: None,
            settings: Settings::default(),
            facts_max: 20,
            fact_bytes_max: 500,
            candidates: 5,
            candidate_score_min: 0.2,
            chunk_bytes_max: 32 * 1024,
            workers: 2,
            failures_max: 8,
            retry_base: Duration::from_secs(10),
            retry_cap: Duration::from_secs(3600),
            lease: Duration::from_secs(300),
            poll: Duration::from_secs(30),
        }
    }
}

/// What a keeper has done since it was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeeperTotals {
    /// Jobs that came to their end.
    pub jobs_done: u64,
    /// Tries that failed.
    pub failures: u64,
    /// Jobs that were given up.
    pub given_up: u64,
    /// Memories added.
    pub added: u64,
    /// Memories changed in place.
    pub updated: u64,
    /// Memories put in the place of ones they contradict.
    pub superseded: u64,
    /// Facts that were known already.
    pub known: u64,
    /// Tokens of the model, failed tries included. What the embedder used is [`Memories::usage`].
    pub usage: Usage,
}

/// What a flush came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flushed {
    /// Jobs that came to their end in this flush.
    pub done: u64,
    /// Tries that failed in this flush.
    pub failed: u64,
    /// Jobs that are still to be done, by whomever.
    pub left: u64,
}

/// Takes facts out of conversations in the background. Clones are the same keeper; when the last one goes, it stops.
#[derive(Clone)]
pub struct MemoryKeeper {
    inner: Arc<Inner>,
    tracker: TaskTracker,
    stop: CancellationToken,
    _stop_with_the_last: Arc<DropGuard>,
}

struct Inner {
    memories: Memories,
    model: Arc<dyn ChatModel>,
    options: KeeperOptions,
    totals: Mutex<KeeperTotals>,
    wake: Notify,
    /// Conversations that were handed in.
    asked: AtomicU64,
    state: watch::Sender<State>,
}

/// What those who wait want to know.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    /// Jobs that are being done.
    running: usize,
    /// The queue was seen empty after so many conversations were handed in; `None` before the first look.
    empty_after: Option<u64>,
}

/// What one look at the queue came to.
enum Step {
    Done,
    Failed,
    /// Nothing is due; this is what the store said.
    Nothing(Claim),
}

impl MemoryKeeper {
    /// Starts a keeper on the current runtime. What earlier processes left in the queue is done first.
    pub fn start(memories: Memories, model: Arc<dyn ChatModel>, options: KeeperOptions) -> Self {
        let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
        let workers = options.workers.max(1);
        let inner = Arc::new(Inner {
            memories,
            model,
            options,
            totals: Mutex::default(),
            wake: Notify::new(),
            asked: AtomicU64::new(0),
            state: watch::Sender::default(),
        });
        for _ in 0..workers {
            let (inner, stop) = (Arc::clone(&inner), stop.clone());
            tracker.spawn(async move { inner.serve(&stop).await });
        }
        tracker.close();
        let guard = Arc::new(stop.clone().drop_guard());
        Self { inner, tracker, stop, _stop_with_the_last: guard }
    }

    /// Queues what is new in a conversation. When it returns, a crash can no longer lose it.
    ///
    /// Returns false if nothing is new.
    pub async fn remember(
        &self,
        owner: &Owner,
        conversation: Conversation,
    ) -> Result<bool, MemoryError> {
        let now = self.inner.now();
        let queued = self.inner.memories.store().enqueue(owner, conversation, now).await?;
        if queued.is_some() {
            self.inner.asked.fetch_add(1, Ordering::SeqCst);
            self.inner.wake.notify_one();
        }
        Ok(queued.is_some())
    }

    /// Tries everything that is queued once, now, also what waits for another try; for the end of a program.
    pub async fn flush(&self) -> Result<Flushed, MemoryError> {
        self.inner.memories.store().hurry(self.inner.now()).await?;
        let mut flushed = Flushed::default();
        loop {
            match self.inner.step().await? {
                Step::Done => flushed.done += 1,
                Step::Failed => flushed.failed += 1,
                Step::Nothing(claim) => {
                    flushed.left = claim.pending;
                    let mut state = self.inner.state.subscribe();
                    if state.borrow_and_update().running == 0 {
                        return Ok(flushed);
                    }
                    // A worker is at the last ones, and what it leaves may be due then.
                    state.wait_for(|state| state.running == 0).await.map_err(gone)?;
                }
            }
        }
    }

    /// Ready once everything that was handed in has been done or given up. A keeper that is closed does nothing more, and
    /// says so.
    pub async fn idle(&self) -> Result<(), MemoryError> {
        let asked = self.inner.asked.load(Ordering::SeqCst);
        let mut state = self.inner.state.subscribe();
        let is_empty = |state: &State| state.empty_after.is_some_and(|after| after >= asked);
        tokio::select! {
            biased;
            empty = state.wait_for(is_empty) => empty.map(drop).map_err(gone),
            () = self.stop.cancelled() => {
                let problem = "the keeper is closed, and what is queued waits for the next one";
                Err(MemoryError::Invalid(problem.into()))
            }
        }
    }

    /// Stops after the jobs that are being done. What is queued stays queued.
    pub async fn close(&self) {
        self.stop.cancel();
        self.tracker.wait().await;
    }

    /// What it has done so far.
    pub fn totals(&self) -> KeeperTotals {
        *self.inner.totals()
    }

    /// The memories it writes to.
    pub fn memories(&self) -> &Memories {
        &self.inner.memories
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it stands for the error in `map_err`")]
fn gone(error: watch::error::RecvError) -> MemoryError {
    MemoryError::Bug(error.to_string())
}

impl Inner {
    async fn serve(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let wait = match self.step().await {
                Ok(Step::Done | Step::Failed) => continue,
                Ok(Step::Nothing(claim)) => self.until(claim.next_due),
                Err(error) => {
                    tracing::warn!(error = %error, "the memory queue cannot be read");
                    self.options.poll
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.wake.notified() => {}
                () = sleep(wait) => {}
            }
        }
    }

    fn until(&self, due: Option<Timestamp>) -> Duration {
        let wait = due.map_or(self.options.poll, |due| due.since(self.now()));
        wait.clamp(RETRY_MIN, self.options.poll.max(RETRY_MIN))
    }

    /// Does the next job that is due.
    async fn step(&self) -> Result<Step, MemoryError> {
        let asked = self.asked.load(Ordering::SeqCst);
        let claim = self.memories.store().claim(self.now(), self.options.lease).await?;
        let Some(job) = &claim.job else {
            if claim.pending == 0 {
                self.state.send_modify(|state| {
                    state.empty_after = state.empty_after.max(Some(asked));
                });
            }
            return Ok(Step::Nothing(claim));
        };
        let _running = Running::new(&self.state);
        failpoint!("memory.job.claimed");
        let limit = self.options.lease - self.options.lease / 4;
        let outcome = timeout(limit, self.work(job)).await.unwrap_or_else(|_elapsed| {
            let problem = format!("it took longer than {limit:?}");
            Err(MemoryError::Answer(problem))
        });
        match outcome {
            Ok(()) => {
                self.totals().jobs_done += 1;
                Ok(Step::Done)
            }
            Err(error) => {
                self.failed(job, &error).await?;
                Ok(Step::Failed)
            }
        }
    }

    async fn failed(&self, job: &Job, error: &MemoryError) -> Result<(), MemoryError> {
        if matches!(error, MemoryError::JobGone(_)) {
            return Ok(());
        }
        let failures = job.failures.saturating_add(1);
        let until = (failures < self.options.failures_max).then(|| {
            let (first, max) = (self.options.retry_base, self.options.retry_cap);
            self.now().after(Backoff { first, max }.wait(job.failures).max(RETRY_MIN))
        });
        tracing::warn!(job = job.key.job, failures, error = %error, "memory extraction failed");
        let postponed = Postponed { until, problem: error.to_string() };
        let was_ours = self.memories.store().postpone(job.key, postponed).await?;
        let mut totals = self.totals();
        totals.failures += 1;
        totals.given_up += u64::from(was_ours && until.is_none());
        Ok(())
    }

    fn now(&self) -> Timestamp {
        self.memories.clock().now()
    }

    fn totals(&self) -> MutexGuard<'_, KeeperTotals> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a job that is being done, however it ends.
struct Running<'a>(&'a watch::Sender<State>);

impl<'a> Running<'a> {
    fn new(state: &'a watch::Sender<State>) -> Self {
        state.send_modify(|state| state.running += 1);
        Self(state)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|state| state.running -= 1);
    }
}

impl fmt::Debug for MemoryKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryKeeper").field("totals", &self.totals()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
