//! The ends of children on their way to what is known of them.
//!
//! A child that ends leaves word here and goes. What is known of all of them is kept by whoever starts them and whoever waits
//! for them, and many children that end at once would stand in each other's way, and in theirs, if each had to write there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use provost_core::{AgentUsed, RunId};
use tokio::sync::Notify;

use super::ended::Ended;
use super::used::{Tally, Used};

#[derive(Default)]
pub(super) struct Arrivals {
    heap: Mutex<Heap>,
    /// Somebody waits for the end of all of them, and is told of each.
    is_closing: AtomicBool,
    changed: Notify,
}

#[derive(Default)]
struct Heap {
    /// The places of those that ended, and how.
    ended: Vec<(usize, Ended)>,
    used: Tally,
    watches: Vec<Watch>,
}

/// Somebody who waits for children. To be woken by the end of each of many would cost as much as the children.
struct Watch {
    /// So many must end before it is worth a look.
    left: usize,
    done: Arc<Notify>,
}

impl Arrivals {
    /// A child has ended, or waits for a person.
    pub(super) fn add(&self, place: usize, ended: Ended) {
        self.add_to(self.lock(), place, ended);
    }

    /// The same for one that its call waits for: what it used is counted with what the others did.
    pub(super) fn add_counted(
        &self,
        (place, child): (usize, RunId),
        ended: Ended,
        (path, used): (&Arc<str>, Used),
    ) {
        let mut heap = self.lock();
        heap.used.add(child, path, used);
        self.add_to(heap, place, ended);
    }

    fn add_to(&self, mut heap: MutexGuard<'_, Heap>, place: usize, ended: Ended) {
        heap.ended.push((place, ended));
        heap.watches.retain_mut(|watch| {
            watch.left -= 1;
            if watch.left == 0 {
                watch.done.notify_one();
            }
            watch.left > 0
        });
        drop(heap);
        if self.is_closing.load(Ordering::Acquire) {
            self.changed.notify_waiters();
        }
    }

    /// Those that were not taken before.
    pub(super) fn take(&self) -> Vec<(usize, Ended)> {
        std::mem::take(&mut self.lock().ended)
    }

    /// What those used that were counted together, under the name of one of them.
    pub(super) fn take_used(&self) -> Option<(RunId, Vec<AgentUsed>)> {
        self.lock().used.take()
    }

    /// What tells that so many more have ended, whichever. The caller keeps others from taking what arrives until it has this,
    /// so that it counts from what it has seen.
    pub(super) fn after(&self, count: usize) -> Arc<Notify> {
        let mut heap = self.lock();
        let done = Arc::new(Notify::new());
        match count.saturating_sub(heap.ended.len()) {
            0 => done.notify_one(),
            left => {
                heap.ended.reserve(left);
                heap.watches.push(Watch { left, done: Arc::clone(&done) });
            }
        }
        done
    }

    /// Tells of each end from now on.
    pub(super) fn close(&self) {
        self.is_closing.store(true, Ordering::Release);
    }

    pub(super) fn changed(&self) -> &Notify {
        &self.changed
    }

    fn lock(&self) -> MutexGuard<'_, Heap> {
        self.heap.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
