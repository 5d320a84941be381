//! Cache of the topics and the progress of recently active runs.

use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use parking_lot::Mutex;
use provost_core::{EventKind, RunId};
use provost_store::query::event_log::RunScope;

use super::progress::Progress;
use super::topic::Topic;

/// Maximum number of cached runs.
const RUNS_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(8191);

/// Topics to which the events of a run belong, and how far its events and deltas were sent.
pub(super) struct RunTopics {
    pub(super) topics: Box<[Topic]>,
    state: Mutex<RunState>,
}

#[derive(Debug, Clone, Copy, Default)]
struct RunState {
    /// Newest observed epoch. Deltas of older epochs come from a worker that has lost the run.
    epoch: u64,
    /// Progress according to live events.
    live: Progress,
    /// Progress according to durable events.
    committed: Progress,
}

impl RunTopics {
    fn new(run: RunId, place: &RunScope) -> Self {
        Self { topics: Topic::of(run, place), state: Mutex::default() }
    }

    /// Records the epoch of a durable event.
    pub(super) fn observe_epoch(&self, epoch: u64) {
        let mut state = self.state.lock();
        state.epoch = state.epoch.max(epoch);
    }

    /// Updates the progress from a live event and returns it.
    pub(super) fn observe_live(&self, kind: &EventKind) -> Progress {
        let mut state = self.state.lock();
        state.live = Progress::begun_by(kind).unwrap_or(state.live);
        state.live
    }

    /// Returns the progress according to live events.
    pub(super) fn live_progress(&self) -> Progress {
        self.state.lock().live
    }

    /// Sets the progress according to durable events.
    pub(super) fn commit(&self, progress: Progress) {
        self.state.lock().committed = progress;
    }

    /// Returns the progress according to durable events.
    pub(super) fn committed_progress(&self) -> Progress {
        self.state.lock().committed
    }

    /// Returns true if a newer epoch exists.
    pub(super) fn is_stale(&self, epoch: u64) -> bool {
        epoch < self.state.lock().epoch
    }
}

/// Cache of run topics. It evicts the least recently used run.
pub(super) struct RunTopicCache(LruCache<RunId, Arc<RunTopics>>);

impl Default for RunTopicCache {
    fn default() -> Self {
        Self(LruCache::new(RUNS_MAX))
    }
}

impl RunTopicCache {
    pub(super) fn get(&mut self, run: RunId) -> Option<Arc<RunTopics>> {
        self.0.get(&run).cloned()
    }

    pub(super) fn put(&mut self, run: RunId, place: &RunScope) -> Arc<RunTopics> {
        let topics = Arc::new(RunTopics::new(run, place));
        self.0.put(run, Arc::clone(&topics));
        topics
    }
}
