//! Rate limiter of one credential: a limit of requests and tokens per minute for all callers.
//!
//! Waiting callers form a queue in order of arrival, and only the first one sets a timer. No lock is held while a
//! caller waits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::sliding_window::{SlidingWindow, WindowSlot};

/// Rate limits per minute. `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RateLimits {
    /// Largest number of requests per minute.
    pub requests_per_minute: Option<u64>,
    /// Largest number of input and output tokens per minute.
    pub tokens_per_minute: Option<u64>,
}

/// Largest number of waiting callers. Further callers fail at once.
const QUEUE_MAX: usize = 10_000;

/// Why the rate limits do not admit a request now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RateLimited {
    /// Capacity becomes available after this time.
    For(Duration),
    /// The request exceeds the whole limit.
    Never,
}

/// Limits requests and tokens per minute, with a queue of waiting callers.
pub(crate) struct RateLimiter {
    state: Mutex<LimiterState>,
}

struct LimiterState {
    requests: Option<SlidingWindow>,
    tokens: Option<SlidingWindow>,
    queue: VecDeque<Arc<Notify>>,
}

/// Requests and tokens that a caller took. They are corrected by the actual usage.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RateUsage {
    request: Option<WindowSlot>,
    slot: Option<WindowSlot>,
    tokens: u64,
}

impl RateLimiter {
    pub(crate) fn new(limits: RateLimits, now: Instant) -> Self {
        let window = |limit: Option<u64>| limit.map(|limit| SlidingWindow::new(limit, now));
        let (requests, tokens) =
            (window(limits.requests_per_minute), window(limits.tokens_per_minute));
        Self { state: Mutex::new(LimiterState { requests, tokens, queue: VecDeque::new() }) }
    }

    /// Returns true if there is a limit of tokens.
    pub(crate) fn counts_tokens(&self) -> bool {
        self.state.lock().tokens.is_some()
    }

    /// Checks whether a request with this number of tokens would be admitted now. Takes nothing. Returns the wait if it
    /// would not be admitted.
    pub(crate) fn check(&self, tokens: u64, now: Instant) -> Result<(), RateLimited> {
        let mut state = self.state.lock();
        match state.wait_for(tokens, now) {
            // Waiting callers have priority.
            Ok(Duration::ZERO) if !state.queue.is_empty() => Err(RateLimited::For(Duration::ZERO)),
            Ok(Duration::ZERO) => Ok(()),
            Ok(wait) => Err(RateLimited::For(wait)),
            Err(limited) => Err(limited),
        }
    }

    /// Takes a request and its tokens if the limits allow it now and no caller waits. Otherwise returns the wait.
    pub(crate) fn try_acquire(&self, tokens: u64, now: Instant) -> Result<RateUsage, RateLimited> {
        let mut state = self.state.lock();
        match state.wait_for(tokens, now)? {
            Duration::ZERO if state.queue.is_empty() => Ok(state.take(tokens, now)),
            wait => Err(RateLimited::For(wait)),
        }
    }

    /// Waits in the queue, and takes a request and its tokens as soon as the limits allow it. Returns an error if the
    /// request exceeds the limits or the queue is full. Dropping the future leaves the queue.
    pub(crate) async fn acquire(&self, tokens: u64) -> Result<RateUsage, RateLimited> {
        let entry = {
            let mut state = self.state.lock();
            let wait = state.wait_for(tokens, Instant::now())?;
            if state.queue.len() >= QUEUE_MAX {
                return Err(RateLimited::For(wait));
            }
            let notify = Arc::new(Notify::new());
            state.queue.push_back(Arc::clone(&notify));
            QueueEntry { limiter: self, notify }
        };
        loop {
            match entry.try_take(tokens)? {
                QueueTurn::Acquired(usage) => return Ok(usage),
                QueueTurn::Wait(Some(time)) => {
                    tokio::select! {
                        () = sleep(time) => {}
                        () = entry.notify.notified() => {}
                    }
                }
                QueueTurn::Wait(None) => entry.notify.notified().await,
            }
        }
    }

    /// Returns a request and its tokens that were not sent.
    pub(crate) fn refund(&self, usage: RateUsage) {
        let mut state = self.state.lock();
        if let (Some(requests), Some(slot)) = (&mut state.requests, usage.request) {
            requests.correct(slot, 1, 0);
        }
        drop(state);
        self.correct(usage, 0);
    }

    /// Replaces the estimated tokens of a request by the actual number, and wakes the first waiting caller.
    pub(crate) fn correct(&self, usage: RateUsage, actual: u64) {
        let mut state = self.state.lock();
        if let (Some(tokens), Some(slot)) = (&mut state.tokens, usage.slot) {
            tokens.correct(slot, usage.tokens, actual);
        }
        state.wake_first();
    }
}

/// Result of a try of a waiting caller.
enum QueueTurn {
    Acquired(RateUsage),
    /// Wait for this time as the first caller, or for a notification if `None`.
    Wait(Option<Duration>),
}

/// Position in the queue. Dropping it leaves the queue.
struct QueueEntry<'a> {
    limiter: &'a RateLimiter,
    notify: Arc<Notify>,
}

impl QueueEntry<'_> {
    /// Takes the request if it is first in the queue and the limits allow it now. Otherwise returns how long to wait.
    fn try_take(&self, tokens: u64) -> Result<QueueTurn, RateLimited> {
        let now = Instant::now();
        let mut state = self.limiter.state.lock();
        if !state.queue.front().is_some_and(|first| Arc::ptr_eq(first, &self.notify)) {
            return Ok(QueueTurn::Wait(None));
        }
        Ok(match state.wait_for(tokens, now)? {
            Duration::ZERO => QueueTurn::Acquired(state.take(tokens, now)),
            wait => QueueTurn::Wait(Some(wait)),
        })
    }
}

impl Drop for QueueEntry<'_> {
    fn drop(&mut self) {
        let mut state = self.limiter.state.lock();
        state.queue.retain(|other| !Arc::ptr_eq(other, &self.notify));
        state.wake_first();
    }
}

impl LimiterState {
    /// Returns the time until the limits allow a request. Zero if they allow it now, an error if the request exceeds a
    /// limit.
    fn wait_for(&mut self, tokens: u64, now: Instant) -> Result<Duration, RateLimited> {
        let wait = |window: &mut Option<SlidingWindow>, amount| match window {
            None => Ok(Duration::ZERO),
            Some(window) => window.wait_for(amount, now).ok_or(RateLimited::Never),
        };
        Ok(wait(&mut self.requests, 1)?.max(wait(&mut self.tokens, tokens)?))
    }

    /// Takes a request and its tokens from the limits.
    fn take(&mut self, tokens: u64, now: Instant) -> RateUsage {
        let request = self.requests.as_mut().map(|window| window.take(1, now));
        let slot = self.tokens.as_mut().map(|window| window.take(tokens, now));
        RateUsage { request, slot, tokens }
    }

    /// Wakes the first waiting caller, if there is one.
    fn wake_first(&self) {
        if let Some(first) = self.queue.front() {
            first.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
