//! The events of a live run.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use futures::task::AtomicWaker;
use futures::{Stream, StreamExt};
use provost_core::{EVENT_VERSION, Env, Event, EventKind, RunId};

use crate::error::Error;
use crate::handle::{Control, RunHandle};
use crate::outcome::Outcome;

/// Progress notes that wait for a slow reader; more are dropped, other events never.
const PROGRESS_WAITING_MAX: usize = 1024;

/// Deltas of one answer that wait for a slow reader; then the model has to wait, too.
const DELTAS_WAITING_MAX: usize = 64;

/// Where a driver puts events and a stream takes them out.
pub(crate) struct EventQueue {
    run_id: RunId,
    agent: Arc<str>,
    env: Env,
    waiting: Mutex<Waiting>,
    waker: AtomicWaker,
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<Event>,
    next_seq: u64,
    /// Nobody reads any more.
    abandoned: bool,
}

impl EventQueue {
    pub(crate) fn new(run_id: RunId, agent: Arc<str>, env: Env) -> Self {
        Self { run_id, agent, env, waiting: Mutex::default(), waker: AtomicWaker::new() }
    }

    pub(crate) fn emit(&self, kind: EventKind) {
        let at = self.env.now();
        let mut waiting = self.lock();
        if waiting.abandoned {
            return;
        }
        if matches!(kind, EventKind::ToolProgress { .. })
            && waiting.events.len() >= PROGRESS_WAITING_MAX
        {
            return;
        }
        let seq = waiting.next_seq;
        waiting.next_seq += 1;
        waiting.events.push_back(Event {
            v: EVENT_VERSION,
            run_id: self.run_id,
            seq,
            at,
            agent: Arc::clone(&self.agent),
            kind,
        });
        drop(waiting);
        self.waker.wake();
    }

    /// Waits until the reader has taken everything: a run never gets ahead of whoever watches and steers it.
    ///
    /// No waker is needed: the stream polls the driver only when it has nothing left to give.
    pub(crate) async fn taken(&self) {
        std::future::poll_fn(|_| {
            let waiting = self.lock();
            if waiting.events.is_empty() || waiting.abandoned {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    /// True if the reader is far behind.
    pub(crate) fn is_backed_up(&self) -> bool {
        self.lock().events.len() >= DELTAS_WAITING_MAX
    }

    fn abandon(&self) {
        let mut waiting = self.lock();
        waiting.abandoned = true;
        waiting.events.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pop(&self) -> Option<Event> {
        self.lock().events.pop_front()
    }
}

type Driving<O> = BoxFuture<'static, Result<Outcome<O>, Error>>;

/// The events of a live run, ending with one that [`is_terminal`](EventKind::is_terminal).
///
/// The run goes on only while the stream is polled. Dropping the stream cancels the run: the model call and all tools end, and
/// the session is left with a valid history.
#[must_use = "a run does nothing unless its stream is polled"]
pub struct RunStream<O: Send + 'static = String> {
    driving: Option<Driving<O>>,
    queue: Arc<EventQueue>,
    control: Arc<Control>,
    outcome: Option<Result<Outcome<O>, Error>>,
    started: bool,
}

impl<O: Send + 'static> RunStream<O> {
    pub(crate) fn new(driving: Driving<O>, queue: Arc<EventQueue>, control: Arc<Control>) -> Self {
        Self { driving: Some(driving), queue, control, outcome: None, started: false }
    }

    /// A way to steer the run.
    pub fn handle(&self) -> RunHandle {
        RunHandle::new(self.queue.run_id, Arc::clone(&self.control))
    }

    /// Only the pieces of the answer, as they come.
    pub fn text(self) -> impl Stream<Item = String> + Unpin {
        self.filter_map(|event| {
            std::future::ready(match event.kind {
                EventKind::TextDelta { text } => Some(text),
                _ => None,
            })
        })
    }

    /// Lets the run go on to its end and gives what it came to; events not yet taken are dropped.
    pub async fn outcome(mut self) -> Result<Outcome<O>, Error> {
        while self.next().await.is_some() {}
        self.outcome.take().unwrap_or_else(|| Err(Error::Bug("the run ended twice".to_owned())))
    }
}

impl<O: Send + 'static> Unpin for RunStream<O> {}

impl<O: Send + 'static> Stream for RunStream<O> {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        if let Some(event) = self.queue.pop() {
            return Poll::Ready(Some(event));
        }
        let this = &mut *self;
        if let Some(driving) = &mut this.driving {
            // Tools run in tasks of their own: their progress must wake whoever reads.
            this.queue.waker.register(cx.waker());
            this.started = true;
            if let Poll::Ready(outcome) = driving.as_mut().poll(cx) {
                this.driving = None;
                this.outcome = Some(outcome);
            }
        }
        match self.queue.pop() {
            Some(event) => Poll::Ready(Some(event)),
            None if self.driving.is_none() => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl<O: Send + 'static> Drop for RunStream<O> {
    fn drop(&mut self) {
        self.control.cancel.cancel();
        self.queue.abandon();
        if !self.started {
            return;
        }
        // The driver sees the cancellation at once, closes the conversation and commits it; that needs a runtime.
        if let (Some(driving), Ok(runtime)) =
            (self.driving.take(), tokio::runtime::Handle::try_current())
        {
            runtime.spawn(driving);
        }
    }
}
