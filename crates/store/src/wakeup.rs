//! Wake-ups for whoever waits in this process.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use provost_core::RunId;
use tokio::sync::{Notify, broadcast};

/// Hints that a slow listener may be behind by; it then learns that it missed some.
const HINTS_MAX: usize = 1024;

/// Something changed: look again. Sent after the commit; it may be lost, so everybody who listens also polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hint {
    /// A run can be claimed.
    RunReady,
    /// A run has new events.
    Events(RunId),
    /// A run has ended.
    Ended(RunId),
    /// A run has a new input.
    Input(RunId),
    /// Somebody asked to cancel a run.
    Cancel(RunId),
    /// An approval of a run was answered.
    Approval(RunId),
    /// A timer was set that may be the next one.
    Timer,
    /// A delivery can be sent.
    Delivery,
    /// The outbox has a new row.
    Outbox,
}

impl Hint {
    /// True if somebody has to act on it; the others only tell how a run goes on, and there are very many of them.
    fn is_call(self) -> bool {
        !matches!(self, Self::Events(_) | Self::Ended(_))
    }
}

/// Everybody who listens.
pub(crate) struct Hints {
    all: broadcast::Sender<Hint>,
    calls: broadcast::Sender<Hint>,
    watches: Mutex<HashMap<Hint, Vec<Arc<Notify>>>>,
}

impl Default for Hints {
    fn default() -> Self {
        let (all, calls) = (broadcast::Sender::new(HINTS_MAX), broadcast::Sender::new(HINTS_MAX));
        Self { all, calls, watches: Mutex::default() }
    }
}

impl Hints {
    pub(crate) fn all(&self) -> broadcast::Receiver<Hint> {
        self.all.subscribe()
    }

    pub(crate) fn calls(&self) -> broadcast::Receiver<Hint> {
        self.calls.subscribe()
    }

    pub(crate) fn watch(self: &Arc<Self>, hint: Hint) -> HintWatch {
        let woken = Arc::<Notify>::default();
        self.watches().entry(hint).or_default().push(Arc::clone(&woken));
        HintWatch { hints: Arc::clone(self), hint, woken }
    }

    /// Sends each of them once.
    pub(crate) fn send(&self, hints: Vec<Hint>) {
        let mut sent = HashSet::with_capacity(hints.len());
        let watches = self.watches();
        for hint in hints {
            if !sent.insert(hint) {
                continue;
            }
            // An error means that nobody listens.
            drop(self.all.send(hint));
            if hint.is_call() {
                drop(self.calls.send(hint));
            }
            for woken in watches.get(&hint).into_iter().flatten() {
                woken.notify_one();
            }
        }
    }

    fn watches(&self) -> MutexGuard<'_, HashMap<Hint, Vec<Arc<Notify>>>> {
        // Nothing that can panic runs under this lock.
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for one hint and is woken by no other.
pub struct HintWatch {
    hints: Arc<Hints>,
    hint: Hint,
    woken: Arc<Notify>,
}

impl HintWatch {
    /// Waits until the hint was sent since the watch began, or since the last time this returned.
    pub async fn hinted(&self) {
        self.woken.notified().await;
    }
}

impl Drop for HintWatch {
    fn drop(&mut self) {
        let mut watches = self.hints.watches();
        if let Some(others) = watches.get_mut(&self.hint) {
            others.retain(|other| !Arc::ptr_eq(other, &self.woken));
            if others.is_empty() {
                watches.remove(&self.hint);
            }
        }
    }
}
