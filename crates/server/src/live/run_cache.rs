//! Which topics runs belong to, and how far they are, for the runs that had events lately.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use provost_core::{EventKind, RunId};
use provost_store::query::event_log::RunPlace;

use super::progress::Progress;
use super::topic::Topic;

/// Runs that are kept.
const RUNS_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(8191);

/// The topics of a run, and how far it is.
pub(super) struct RunTopics {
    pub(super) topics: Box<[Topic]>,
    state: Mutex<RunState>,
}

#[derive(Debug, Clone, Copy, Default)]
struct RunState {
    /// The newest epoch that was seen. Deltas of older ones come from a worker that has lost the run.
    epoch: u64,
    /// How far the run is by its live events.
    live: Progress,
    /// How far the run is by its durable events.
    committed: Progress,
}

impl RunTopics {
    fn new(run: RunId, place: &RunPlace) -> Self {
        Self { topics: Topic::of(run, place), state: Mutex::default() }
    }

    /// Records the epoch of a durable event.
    pub(super) fn observe_epoch(&self, epoch: u64) {
        let mut state = self.state();
        state.epoch = state.epoch.max(epoch);
    }

    /// Records how far the run is by one of its live events, and returns it.
    pub(super) fn observe_live(&self, kind: &EventKind) -> Progress {
        let mut state = self.state();
        state.live = Progress::begun_by(kind).unwrap_or(state.live);
        state.live
    }

    /// Returns how far the run is by its live events.
    pub(super) fn live_progress(&self) -> Progress {
        self.state().live
    }

    /// Records how far the run is by a durable event.
    pub(super) fn commit(&self, progress: Progress) {
        self.state().committed = progress;
    }

    /// Returns how far the run is by its durable events.
    pub(super) fn committed_progress(&self) -> Progress {
        self.state().committed
    }

    /// True if a newer epoch has the run.
    pub(super) fn is_stale(&self, epoch: u64) -> bool {
        epoch < self.state().epoch
    }

    fn state(&self) -> MutexGuard<'_, RunState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The topics of runs. Runs that were not asked for lately are forgotten.
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

    pub(super) fn put(&mut self, run: RunId, place: &RunPlace) -> Arc<RunTopics> {
        let topics = Arc::new(RunTopics::new(run, place));
        self.0.put(run, Arc::clone(&topics));
        topics
    }
}
