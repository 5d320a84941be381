//! Work on other threads that ends when nobody waits for it.

use tokio::task::{JoinError, JoinHandle};

/// A task that is stopped when this is dropped.
pub(crate) struct Stopping<T>(JoinHandle<T>);

impl<T> Stopping<T> {
    pub(crate) fn new(task: JoinHandle<T>) -> Self {
        Self(task)
    }

    /// Waits for its end.
    pub(crate) async fn ended(mut self) -> Result<T, JoinError> {
        (&mut self.0).await
    }
}

impl<T> Drop for Stopping<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
