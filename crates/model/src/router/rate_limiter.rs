//! The door before one credential: so many requests and tokens in a minute, however many callers there are.
//!
//! Who comes first goes first: callers that must wait stand in a queue, and only the first of them looks at the clock. No lock is
//! held while anybody waits.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::window::{Slot, Window};

/// How much may be asked in any minute. What is `None` is not limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Requests.
    pub requests_per_minute: Option<u64>,
    /// Tokens, those of the answers included.
    pub tokens_per_minute: Option<u64>,
}

/// Callers that may wait before one door; the next one is told that it is full.
const QUEUE_MAX: usize = 10_000;

/// Why a caller does not go through now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RateLimited {
    /// After so long somebody may go through.
    For(Duration),
    /// A single request of this size is beyond the limit.
    Never,
}

pub(crate) struct RateLimiter {
    state: Mutex<State>,
}

struct State {
    requests: Option<Window>,
    tokens: Option<Window>,
    queue: VecDeque<Arc<Notify>>,
}

/// What a caller took; it says what it really used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RateUsage {
    request: Option<Slot>,
    slot: Option<Slot>,
    tokens: u64,
}

impl RateLimiter {
    pub(crate) fn new(limits: Limits, now: Instant) -> Self {
        let window = |limit: Option<u64>| limit.map(|limit| Window::new(limit, now));
        let (requests, tokens) =
            (window(limits.requests_per_minute), window(limits.tokens_per_minute));
        Self { state: Mutex::new(State { requests, tokens, queue: VecDeque::new() }) }
    }

    /// True if the number of tokens matters.
    pub(crate) fn counts_tokens(&self) -> bool {
        self.lock().tokens.is_some()
    }

    /// How it stands, for a caller that would take so many tokens.
    pub(crate) fn standing(&self, tokens: u64, now: Instant) -> Result<(), RateLimited> {
        let mut state = self.lock();
        match state.fits_in(tokens, now) {
            // Those who wait come first.
            Ok(Duration::ZERO) if !state.queue.is_empty() => Err(RateLimited::For(Duration::ZERO)),
            Ok(Duration::ZERO) => Ok(()),
            Ok(wait) => Err(RateLimited::For(wait)),
            Err(busy) => Err(busy),
        }
    }

    /// Goes through now, or not.
    pub(crate) fn take(&self, tokens: u64, now: Instant) -> Result<RateUsage, RateLimited> {
        let mut state = self.lock();
        match state.fits_in(tokens, now)? {
            Duration::ZERO if state.queue.is_empty() => Ok(state.take(tokens, now)),
            wait => Err(RateLimited::For(wait)),
        }
    }

    /// Goes through when it is its turn. Dropping it leaves the queue.
    pub(crate) async fn wait(&self, tokens: u64) -> Result<RateUsage, RateLimited> {
        let entry = {
            let mut state = self.lock();
            let wait = state.fits_in(tokens, Instant::now())?;
            if state.queue.len() >= QUEUE_MAX {
                return Err(RateLimited::For(wait));
            }
            let me = Arc::new(Notify::new());
            state.queue.push_back(Arc::clone(&me));
            QueueEntry { limiter: self, me }
        };
        loop {
            match entry.look(tokens)? {
                QueueTurn::Through(taken) => return Ok(taken),
                QueueTurn::Wait(Some(time)) => {
                    tokio::select! {
                        () = sleep(time) => {}
                        () = entry.me.notified() => {}
                    }
                }
                QueueTurn::Wait(None) => entry.me.notified().await,
            }
        }
    }

    /// Gives everything back: nothing was sent.
    pub(crate) fn refund(&self, taken: RateUsage) {
        let mut state = self.lock();
        if let (Some(requests), Some(slot)) = (&mut state.requests, taken.request) {
            requests.correct(slot, 1, 0);
        }
        drop(state);
        self.correct(taken, 0);
    }

    /// Says how many tokens it really was.
    pub(crate) fn correct(&self, taken: RateUsage, used: u64) {
        let mut state = self.lock();
        if let (Some(tokens), Some(slot)) = (&mut state.tokens, taken.slot) {
            tokens.correct(slot, taken.tokens, used);
        }
        state.call_first();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can fail happens under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum QueueTurn {
    Through(RateUsage),
    /// Until a time if one is first, else until one is called.
    Wait(Option<Duration>),
}

/// A entry in the queue; it is left when this goes.
struct QueueEntry<'a> {
    limiter: &'a RateLimiter,
    me: Arc<Notify>,
}

impl QueueEntry<'_> {
    fn look(&self, tokens: u64) -> Result<QueueTurn, RateLimited> {
        let now = Instant::now();
        let mut state = self.limiter.lock();
        if !state.queue.front().is_some_and(|first| Arc::ptr_eq(first, &self.me)) {
            return Ok(QueueTurn::Wait(None));
        }
        Ok(match state.fits_in(tokens, now)? {
            Duration::ZERO => QueueTurn::Through(state.take(tokens, now)),
            wait => QueueTurn::Wait(Some(wait)),
        })
    }
}

impl Drop for QueueEntry<'_> {
    fn drop(&mut self) {
        let mut state = self.limiter.lock();
        state.queue.retain(|other| !Arc::ptr_eq(other, &self.me));
        state.call_first();
    }
}

impl State {
    fn fits_in(&mut self, tokens: u64, now: Instant) -> Result<Duration, RateLimited> {
        let fits = |window: &mut Option<Window>, amount| match window {
            None => Ok(Duration::ZERO),
            Some(window) => window.fits_in(amount, now).ok_or(RateLimited::Never),
        };
        Ok(fits(&mut self.requests, 1)?.max(fits(&mut self.tokens, tokens)?))
    }

    fn take(&mut self, tokens: u64, now: Instant) -> RateUsage {
        let request = self.requests.as_mut().map(|window| window.take(1, now));
        let slot = self.tokens.as_mut().map(|window| window.take(tokens, now));
        RateUsage { request, slot, tokens }
    }

    fn call_first(&self) {
        if let Some(first) = self.queue.front() {
            first.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
