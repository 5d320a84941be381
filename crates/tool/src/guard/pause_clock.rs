//! Time that a call waits for people. It does not count against the timeout of the tool.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Clock of a call that stops while at least one question of the tool is open.
#[derive(Debug, Default)]
pub(crate) struct PauseClock {
    watch: Mutex<PauseState>,
    answered: Notify,
}

/// Open questions and the total time of earlier pauses.
#[derive(Debug, Default, Clone, Copy)]
struct PauseState {
    /// Number of open questions. A tool may ask several at once.
    open: usize,
    /// Time at which the first open question was submitted.
    since: Option<Instant>,
    /// Total time of earlier pauses.
    total: Duration,
}

/// An open question. Dropping the guard ends the pause.
pub(crate) struct PauseGuard<'a>(&'a PauseClock);

impl PauseClock {
    /// Stops the clock until the returned guard is dropped. Several guards can exist at the same time.
    pub(crate) fn pause(&self) -> PauseGuard<'_> {
        let mut watch = self.lock();
        watch.open += 1;
        watch.since.get_or_insert_with(Instant::now);
        PauseGuard(self)
    }

    /// Waits until the clock has advanced by `time`.
    pub(crate) async fn wait_active(&self, time: Duration) {
        let started = Instant::now();
        let before = self.lock().total;
        loop {
            // Created before the state is read, so that an answer between the two is not missed.
            let answered = self.answered.notified();
            let watch = *self.lock();
            if watch.open > 0 {
                answered.await;
                continue;
            }
            let asked = watch.total.saturating_sub(before);
            let end = started.checked_add(time).and_then(|end| end.checked_add(asked));
            match end {
                Some(end) if end <= Instant::now() => return,
                Some(end) => tokio::time::sleep_until(end).await,
                // The deadline is beyond the range of the clock.
                None => std::future::pending().await,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, PauseState> {
        self.watch.lock()
    }
}

impl Drop for PauseGuard<'_> {
    fn drop(&mut self) {
        let mut watch = self.0.lock();
        watch.open -= 1;
        if watch.open == 0 {
            let since = watch.since.take();
            watch.total += since.map_or(Duration::ZERO, |since| since.elapsed());
            self.0.answered.notify_waiters();
        }
    }
}
