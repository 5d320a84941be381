//! Fan-out of new events to open streams.
//!
//! One task reads the log as it grows, encodes each event once and delivers it to the subscribers of its run, task, session and
//! namespace. It never waits for a subscriber: each has a short queue, and one whose queue is full reads what it missed from the
//! database by itself. Live deltas take the same way, so they never overtake a durable event that precedes them, see
//! [`progress`]. A slow subscriber loses deltas only, and is told how many.
//!
//! Invariant: the database is the truth. A defect here delays a stream and never loses an event.

mod delta;
mod dispatcher;
mod progress;
mod registry;
mod run_cache;
mod subscriber;
#[cfg(test)]
mod tests;
mod topic;

use std::sync::{Arc, Mutex, PoisonError};

use provost_engine::Engine;
use tokio::task::AbortHandle;

pub(crate) use self::delta::{delta, is_also_durable};
use self::registry::Board;
pub(crate) use self::registry::Seated;
pub(crate) use self::subscriber::{Frame, Taken, Wants, What};
pub(crate) use self::topic::Topic;

/// Where viewers take their seats.
pub(crate) struct Hub {
    board: Arc<Board>,
    /// The task that reads the log; it begins with the first viewer.
    tail: Mutex<Option<AbortHandle>>,
}

impl Default for Hub {
    fn default() -> Self {
        Self { board: Arc::new(Board::new()), tail: Mutex::new(None) }
    }
}

impl Hub {
    /// Takes a seat. When this returns, every event that is committed from now on reaches it: whoever reads the database
    /// afterwards to its end and goes on with the seat misses nothing.
    pub(crate) async fn join(&self, engine: &Engine, topic: Topic, wants: Wants) -> Seated {
        self.start(engine);
        let seated = Board::seat(&self.board, topic, wants);
        self.board.tail_stands().await;
        seated
    }

    /// How many watch or wait.
    pub(crate) fn viewers(&self) -> usize {
        self.board.viewers()
    }

    fn start(&self, engine: &Engine) {
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        if tail.as_ref().is_none_or(AbortHandle::is_finished) {
            let task = tokio::spawn(dispatcher::run(engine.clone(), Arc::clone(&self.board)));
            *tail = Some(task.abort_handle());
        }
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let tail = self.tail.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(tail) = tail.take() {
            tail.abort();
        }
    }
}
