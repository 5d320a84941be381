//! Extracts facts about users from conversations. A crash neither loses nor duplicates facts.
//!
//! Conversations are queued in the store first. A worker claims a job, extracts facts, decides on the changes and
//! applies them. One transaction stores the changes, deletes the job and records the read position of the session.
//! After a crash, the whole job runs again.

mod decide;
mod extract;
mod process;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use provost_core::{Backoff, Timestamp, Usage};
use provost_failpoint::failpoint;
use provost_model::{ChatModel, ModelSettings};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::job::{ClaimResult, Conversation, ExtractionJob, JobRetry};
use crate::memory::Owner;
use crate::{MemoryError, MemoryService};

/// Minimum delay before a retry.
const RETRY_MIN: Duration = Duration::from_millis(1);

/// Options of a [`MemoryExtractor`].
#[derive(Debug, Clone)]
pub struct ExtractorOptions {
    /// Instructions for the model; `None` for the built-in instructions.
    pub instructions: Option<String>,
    /// Model settings, such as sampling parameters.
    pub settings: ModelSettings,
    /// Maximum number of facts of one job. Further facts are dropped.
    pub facts_max: usize,
    /// Maximum length of a fact, in bytes. Longer facts are dropped.
    pub fact_bytes_max: usize,
    /// Number of similar memories to compare a fact with. With 0, every fact is added without comparison.
    pub candidates: usize,
    /// Minimum search score of a similar memory.
    pub candidate_score_min: f32,
    /// Maximum length of the conversation text in one model request, in bytes. Longer conversations need several
    /// requests.
    pub chunk_bytes_max: usize,
    /// Number of jobs that run concurrently, at least one.
    pub workers: usize,
    /// Number of failures after which a job is given up.
    pub failures_max: u32,
    /// Delay after the first failure. The delay doubles with each further failure.
    pub retry_base: Duration,
    /// Maximum delay after a failure.
    pub retry_cap: Duration,
    /// Duration of a job's lease. If the process dies, another process can claim the job after this time. A job fails
    /// if it takes longer than three quarters of the lease.
    pub lease: Duration,
    /// Maximum time between two checks of the queue for jobs of other processes.
    pub poll: Duration,
}

impl Default for ExtractorOptions {
    fn default() -> Self {
        Self {
            instructions: None,
            settings: ModelSettings::default(),
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

/// Counters of an extractor since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExtractorStats {
    /// Completed jobs.
    pub jobs_done: u64,
    /// Failed attempts.
    pub failures: u64,
    /// Jobs that were given up.
    pub given_up: u64,
    /// Added memories.
    pub added: u64,
    /// Updated memories.
    pub updated: u64,
    /// Superseded memories.
    pub superseded: u64,
    /// Facts that a memory already contained.
    pub duplicates: u64,
    /// Usage of the model, including failed attempts. [`MemoryService::usage`] is the usage of the embedder.
    pub usage: Usage,
}

/// Result of a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlushReport {
    /// Jobs that this flush completed.
    pub done: u64,
    /// Attempts that failed during this flush.
    pub failed: u64,
    /// Jobs of all owners that remain queued.
    pub remaining: u64,
}

/// Extracts facts from conversations in the background. Clones share the extractor, which stops when the last clone
/// is dropped.
#[derive(Clone)]
pub struct MemoryExtractor {
    inner: Arc<ExtractorInner>,
    tracker: TaskTracker,
    stop: CancellationToken,
    _stop_on_drop: Arc<DropGuard>,
}

/// State that the clones and workers of an extractor share.
struct ExtractorInner {
    service: MemoryService,
    model: Arc<dyn ChatModel>,
    options: ExtractorOptions,
    stats: Mutex<ExtractorStats>,
    wake: Notify,
    /// Number of conversations that this extractor has enqueued.
    enqueued: AtomicU64,
    state: watch::Sender<QueueState>,
}

/// State of the queue, for [`MemoryExtractor::idle`] and [`MemoryExtractor::flush`].
#[derive(Debug, Clone, Copy, Default)]
struct QueueState {
    /// Number of jobs in progress.
    running: usize,
    /// Value of `enqueued` when a worker last found the queue empty; `None` before the first time.
    empty_after: Option<u64>,
}

/// Result of one check of the queue.
enum PollResult {
    /// A job was completed.
    Done,
    /// A job failed.
    Failed,
    /// No job is due.
    Idle(ClaimResult),
}

impl MemoryExtractor {
    /// Starts an extractor on the current Tokio runtime. Its workers also run the jobs that earlier processes left in
    /// the queue.
    pub fn start(
        service: MemoryService,
        model: Arc<dyn ChatModel>,
        options: ExtractorOptions,
    ) -> Self {
        let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
        let workers = options.workers.max(1);
        let inner = Arc::new(ExtractorInner {
            service,
            model,
            options,
            stats: Mutex::default(),
            wake: Notify::new(),
            enqueued: AtomicU64::new(0),
            state: watch::Sender::default(),
        });
        for _ in 0..workers {
            let (inner, stop) = (Arc::clone(&inner), stop.clone());
            tracker.spawn(async move { inner.run_worker(&stop).await });
        }
        tracker.close();
        let guard = Arc::new(stop.clone().drop_guard());
        Self { inner, tracker, stop, _stop_on_drop: guard }
    }

    /// Enqueues the new messages of a conversation. They are on disk when the call returns. Returns false and enqueues
    /// nothing if the conversation has no new message of the user.
    ///
    /// Returns false if the conversation has no new message of the user.
    pub async fn enqueue(
        &self,
        owner: &Owner,
        conversation: Conversation,
    ) -> Result<bool, MemoryError> {
        let now = self.inner.now();
        let queued = self.inner.service.store().enqueue(owner, conversation, now).await?;
        if queued.is_some() {
            self.inner.enqueued.fetch_add(1, Ordering::SeqCst);
            self.inner.wake.notify_one();
        }
        Ok(queued.is_some())
    }

    /// Runs each queued job once, including jobs that wait for a retry, and waits for them. Call it before a program
    /// exits.
    pub async fn flush(&self) -> Result<FlushReport, MemoryError> {
        self.inner.service.store().make_due(self.inner.now()).await?;
        let mut report = FlushReport::default();
        loop {
            match self.inner.poll_queue().await? {
                PollResult::Done => report.done += 1,
                PollResult::Failed => report.failed += 1,
                PollResult::Idle(claim) => {
                    report.remaining = claim.pending;
                    let mut state = self.inner.state.subscribe();
                    if state.borrow_and_update().running == 0 {
                        return Ok(report);
                    }
                    // A worker runs the last jobs. If one of them fails, it may become due again.
                    state.wait_for(|state| state.running == 0).await.map_err(watch_closed)?;
                }
            }
        }
    }

    /// Waits until all enqueued conversations are processed or given up. Returns an error if the extractor is closed.
    pub async fn idle(&self) -> Result<(), MemoryError> {
        let enqueued = self.inner.enqueued.load(Ordering::SeqCst);
        let mut state = self.inner.state.subscribe();
        let is_empty =
            |state: &QueueState| state.empty_after.is_some_and(|after| after >= enqueued);
        tokio::select! {
            biased;
            empty = state.wait_for(is_empty) => empty.map(drop).map_err(watch_closed),
            () = self.stop.cancelled() => {
                let problem = "the extractor is closed: the queued jobs wait for the next extractor";
                Err(MemoryError::Invalid(problem.into()))
            }
        }
    }

    /// Stops after the jobs in progress. Queued jobs remain in the queue.
    pub async fn close(&self) {
        self.stop.cancel();
        self.tracker.wait().await;
    }

    /// Returns the counters.
    pub fn stats(&self) -> ExtractorStats {
        *self.inner.stats.lock()
    }

    /// Returns the service that stores the extracted memories.
    pub fn service(&self) -> &MemoryService {
        &self.inner.service
    }
}

/// Converts the error of a closed channel, which is a bug.
#[expect(clippy::needless_pass_by_value, reason = "`map_err` passes the error by value")]
fn watch_closed(error: watch::error::RecvError) -> MemoryError {
    MemoryError::Bug(error.to_string())
}

impl ExtractorInner {
    /// Runs due jobs until `stop` is cancelled. Waits for a new job or the next due time in between.
    async fn run_worker(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let wait = match self.poll_queue().await {
                Ok(PollResult::Done | PollResult::Failed) => continue,
                Ok(PollResult::Idle(claim)) => self.delay_until(claim.next_due),
                Err(error) => {
                    tracing::warn!(error = %error, "reading the memory queue failed");
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

    /// Returns the time to wait before the next check of the queue: until `due`, at most the polling interval.
    fn delay_until(&self, due: Option<Timestamp>) -> Duration {
        let wait = due.map_or(self.options.poll, |due| due.since(self.now()));
        wait.clamp(RETRY_MIN, self.options.poll.max(RETRY_MIN))
    }

    /// Claims the next due job and runs it. A failure is recorded in the queue. Returns whether there was a job.
    async fn poll_queue(&self) -> Result<PollResult, MemoryError> {
        let enqueued = self.enqueued.load(Ordering::SeqCst);
        let claim = self.service.store().claim(self.now(), self.options.lease).await?;
        let Some(job) = &claim.job else {
            if claim.pending == 0 {
                self.state.send_modify(|state| {
                    state.empty_after = state.empty_after.max(Some(enqueued));
                });
            }
            return Ok(PollResult::Idle(claim));
        };
        let _running = RunningGuard::new(&self.state);
        failpoint!("memory.job.claimed");
        let limit = self.options.lease - self.options.lease / 4;
        let outcome = timeout(limit, self.process(job)).await.unwrap_or_else(|_elapsed| {
            let problem = format!("extraction took longer than {limit:?}");
            Err(MemoryError::InvalidResponse(problem))
        });
        match outcome {
            Ok(()) => {
                self.stats.lock().jobs_done += 1;
                Ok(PollResult::Done)
            }
            Err(error) => {
                self.record_failure(job, &error).await?;
                Ok(PollResult::Failed)
            }
        }
    }

    /// Schedules the next attempt of a failed job, or gives the job up.
    async fn record_failure(
        &self,
        job: &ExtractionJob,
        error: &MemoryError,
    ) -> Result<(), MemoryError> {
        if matches!(error, MemoryError::ClaimLost(_)) {
            return Ok(());
        }
        let failures = job.failures.saturating_add(1);
        let retry_at = (failures < self.options.failures_max).then(|| {
            let (first, max) = (self.options.retry_base, self.options.retry_cap);
            self.now().after(Backoff { first, max }.wait(job.failures).max(RETRY_MIN))
        });
        tracing::warn!(job = job.claim.job, failures, error = %error, "memory extraction failed");
        let retry = JobRetry { retry_at, error: error.to_string() };
        let was_claimed = self.service.store().schedule_retry(job.claim, retry).await?;
        let mut stats = self.stats.lock();
        stats.failures += 1;
        stats.given_up += u64::from(was_claimed && retry_at.is_none());
        Ok(())
    }

    /// Returns the current time.
    fn now(&self) -> Timestamp {
        self.service.clock().now()
    }
}

/// Counts a job in progress until the guard is dropped.
struct RunningGuard<'a>(&'a watch::Sender<QueueState>);

impl<'a> RunningGuard<'a> {
    /// Adds a job to the number of jobs in progress.
    fn new(state: &'a watch::Sender<QueueState>) -> Self {
        state.send_modify(|state| state.running += 1);
        Self(state)
    }
}

impl Drop for RunningGuard<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|state| state.running -= 1);
    }
}

impl fmt::Debug for MemoryExtractor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryExtractor")
            .field("stats", &*self.inner.stats.lock())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
