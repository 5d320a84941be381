//! Where runs belong, as far as it was asked lately.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use provost_core::{EventKind, RunId};
use provost_engine::RunPlace;

use super::topic::Topic;

/// Runs of one half; two halves are kept, so what was used lately stays.
const HALF_MAX: usize = 4096;

/// Where a run belongs, and how far it is.
pub(super) struct Placed {
    pub(super) topics: Box<[Topic]>,
    /// The newest epoch that was seen: pieces of older ones come from somebody who has lost the run.
    epoch: AtomicU64,
    /// How far the run is, as its live pieces tell.
    stage: AtomicU64,
    /// How far the run is, as its durable events tell.
    told: AtomicU64,
}

impl Placed {
    fn new(run: RunId, place: &RunPlace) -> Self {
        Self {
            topics: Topic::of(run, place),
            epoch: AtomicU64::new(0),
            stage: AtomicU64::new(0),
            told: AtomicU64::new(0),
        }
    }

    /// Notes the epoch of an event.
    pub(super) fn see(&self, epoch: u64) {
        self.epoch.fetch_max(epoch, Ordering::Relaxed);
    }

    /// Notes how far the run is by a live event, and returns it: two stages for each model call, the second one after its end.
    pub(super) fn stage(&self, kind: &EventKind) -> u64 {
        match kind {
            EventKind::TurnStarted { turn } => self.stage.store(during(*turn), Ordering::Relaxed),
            EventKind::TurnFinished { turn, .. } => {
                self.stage.store(during(*turn) + 1, Ordering::Relaxed);
            }
            _ => {}
        }
        self.stage.load(Ordering::Relaxed)
    }

    /// Notes that a model call has ended by its durable event.
    pub(super) fn tell(&self, turn: u32) {
        self.told.store(during(turn) + 1, Ordering::Relaxed);
    }

    /// How far the run is, as its durable events tell.
    pub(super) fn told(&self) -> u64 {
        self.told.load(Ordering::Relaxed)
    }

    /// True if a newer epoch has the run.
    pub(super) fn is_stale(&self, epoch: u64) -> bool {
        epoch < self.epoch.load(Ordering::Relaxed)
    }
}

/// The stage of a run during a model call.
pub(super) fn during(turn: u32) -> u64 {
    u64::from(turn) * 2
}

/// Where runs belong. What was not asked for a while is forgotten.
#[derive(Default)]
pub(super) struct Places {
    young: HashMap<RunId, Arc<Placed>>,
    old: HashMap<RunId, Arc<Placed>>,
}

impl Places {
    pub(super) fn get(&mut self, run: RunId) -> Option<Arc<Placed>> {
        if let Some(placed) = self.young.get(&run) {
            return Some(Arc::clone(placed));
        }
        let placed = self.old.remove(&run)?;
        self.keep(run, Arc::clone(&placed));
        Some(placed)
    }

    pub(super) fn put(&mut self, run: RunId, place: &RunPlace) -> Arc<Placed> {
        let placed = Arc::new(Placed::new(run, place));
        self.keep(run, Arc::clone(&placed));
        placed
    }

    fn keep(&mut self, run: RunId, placed: Arc<Placed>) {
        if self.young.len() >= HALF_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(run, placed);
    }
}
