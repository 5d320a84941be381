//! A value whose changes tasks can await.

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

/// A shared value. An update wakes all tasks that wait for a change.
#[derive(Debug)]
pub(crate) struct Watched<T> {
    value: Mutex<T>,
    changed: watch::Sender<()>,
}

impl<T> Watched<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Mutex::new(value), changed: watch::Sender::new(()) }
    }

    /// Locks the value. A change through the lock wakes no task; see [`update`](Self::update).
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock()
    }

    pub(crate) fn into_inner(self) -> T {
        self.value.into_inner()
    }

    /// Changes the value and wakes all waiting tasks.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(&mut self.lock());
        self.changed.send_replace(());
        result
    }

    /// Waits until `ready` returns a value. It is called immediately and after each update.
    pub(crate) async fn wait<R>(&self, mut ready: impl FnMut(&mut T) -> Option<R>) -> R {
        // Subscribe before the first check, so that no update is missed.
        let mut changed = self.changed.subscribe();
        loop {
            if let Some(result) = ready(&mut self.lock()) {
                return result;
            }
            // Cannot fail: the sender is a field of `self`.
            changed.changed().await.ok();
        }
    }
}

impl<T: Default> Default for Watched<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}
