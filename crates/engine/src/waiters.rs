//! Who waits in this process for the end of a run. Whoever settles the run here hands its row over, so nobody has to read it.
//!
//! It is a short way and not the truth: a run that ends in any other way is found by its hint, or by looking.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use provost_core::RunId;
use provost_core::work::Namespace;
use provost_store::row::run::RunRow;
use provost_store::{Hint, HintWatch, Store};
use tokio::sync::oneshot;

/// Runs that were accepted here, that nobody waits for yet and that are remembered. Who waits for another one looks first.
const EXPECTED_MAX: usize = 1024;

/// Those who wait, by run.
#[derive(Default)]
pub(crate) struct Waiters(Mutex<State>);

#[derive(Default)]
struct State {
    /// Watches from before the run could end, with the namespace of the run.
    expected: HashMap<RunId, (Namespace, HintWatch)>,
    /// The same runs, oldest first; some may be gone.
    order: VecDeque<RunId>,
    waiting: HashMap<RunId, Vec<oneshot::Sender<Arc<RunRow>>>>,
}

impl Waiters {
    /// Watches a run that is about to be accepted, so that nobody who waits for it later has to look whether it has ended before.
    pub(crate) fn expect(&self, store: &Store, namespace: &Namespace, run: RunId) {
        let watch = (namespace.clone(), store.watch(Hint::Ended(run)));
        let mut state = self.lock();
        let forgotten = match state.order.len() {
            EXPECTED_MAX => state.order.pop_front(),
            _ => None,
        };
        let dropped = forgotten.and_then(|forgotten| state.expected.remove(&forgotten));
        state.order.push_back(run);
        let replaced = state.expected.insert(run, watch);
        // A watch that goes takes a lock of its own.
        drop(state);
        drop((dropped, replaced));
    }

    /// No such run was accepted.
    pub(crate) fn forget(&self, run: RunId) {
        let watch = self.lock().expected.remove(&run);
        // Without the lock, as above.
        drop(watch);
    }

    /// Waits for a run from now on. Also gives a watch from before it could end, if there is one and the run is in the namespace.
    pub(crate) fn join(
        &self,
        namespace: &Namespace,
        run: RunId,
    ) -> (Waiting<'_>, Option<HintWatch>) {
        let (sender, handed_over) = oneshot::channel();
        let mut state = self.lock();
        state.waiting.entry(run).or_default().push(sender);
        let known = state.expected.get(&run).is_some_and(|(of, _)| of == namespace);
        let watch = known.then(|| state.expected.remove(&run)).flatten().map(|(_, watch)| watch);
        (Waiting { waiters: self, run, handed_over }, watch)
    }

    /// Hands the row of a run that has ended to everybody who waits for it. Whoever comes after that finds no watch and looks at
    /// once: nobody hands it over again.
    pub(crate) fn hand_over(&self, row: RunRow) {
        let mut state = self.lock();
        let waiting = state.waiting.remove(&row.id);
        let watch = state.expected.remove(&row.id);
        // A watch that goes takes a lock of its own.
        drop(state);
        drop(watch);
        let Some(waiting) = waiting else { return };
        let row = Arc::new(row);
        for sender in waiting {
            // Whoever waited may be gone.
            drop(sender.send(Arc::clone(&row)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can fail happens under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who waits.
pub(crate) struct Waiting<'a> {
    waiters: &'a Waiters,
    run: RunId,
    handed_over: oneshot::Receiver<Arc<RunRow>>,
}

impl Waiting<'_> {
    /// The row of the run, once it was handed over.
    pub(crate) async fn row(&mut self) -> RunRow {
        match (&mut self.handed_over).await {
            Ok(row) => Arc::unwrap_or_clone(row),
            // Nobody will hand it over.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.handed_over.close();
        let mut state = self.waiters.lock();
        let Some(waiting) = state.waiting.get_mut(&self.run) else { return };
        waiting.retain(|sender| !sender.is_closed());
        if waiting.is_empty() {
            state.waiting.remove(&self.run);
        }
    }
}
