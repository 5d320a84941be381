//! How long a call waits for people: time that is not the tool's own.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;

/// A stopwatch that runs while a tool's question is open.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    watch: Mutex<Watch>,
    answered: Notify,
}

#[derive(Debug, Default, Clone, Copy)]
struct Watch {
    /// Questions that are open now; a tool may ask several at once.
    open: usize,
    /// When the first of them was asked.
    since: Option<Instant>,
    /// The time of all that are answered.
    total: Duration,
}

/// An open question. Its end, however it comes, stops the watch.
pub(crate) struct Question<'a>(&'a Asking);

impl Asking {
    /// Starts the watch.
    pub(crate) fn question(&self) -> Question<'_> {
        let mut watch = self.lock();
        watch.open += 1;
        watch.since.get_or_insert_with(Instant::now);
        Question(self)
    }

    /// Ready once the tool has worked for this long, waiting for people not counted.
    pub(crate) async fn worked_for(&self, time: Duration) {
        let started = Instant::now();
        let before = self.lock().total;
        loop {
            // Taken before the look at the watch, so that an answer in between is not missed.
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
                // Longer than the clock goes.
                None => std::future::pending().await,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock()
    }
}

impl Drop for Question<'_> {
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
