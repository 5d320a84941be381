//! The events of a live run.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker, ready};

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
///
/// It is also the driver's waker: it notes that the driver can go on, and wakes whoever reads.
pub(crate) struct EventQueue {
    run_id: RunId,
    agent: Arc<str>,
    env: Env,
    /// Nobody will ever read: the run is awaited, so making events would be work for nothing.
    is_unread: bool,
    waiting: Mutex<Waiting>,
    reader: AtomicWaker,
    /// The driver can go on. Asking it in vain after every event would cost more than the event.
    is_due: AtomicBool,
    /// Where the events of a run below go: to the stream of the run above, under the call that started it.
    upward: Option<Upward>,
}

/// The way up from a run below.
pub(crate) struct Upward {
    pub(crate) queue: Arc<EventQueue>,
    pub(crate) call_id: Arc<str>,
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<Event>,
    next_seq: u64,
    /// The agent that has the conversation, where it is not the first one.
    agent: Option<Arc<str>>,
    /// The reader polls the driver right now and looks here when that is done: it need not be woken.
    is_read: bool,
    /// Nobody reads any more.
    abandoned: bool,
}

impl EventQueue {
    /// A queue whose first event has the number `next_seq`: a resumed run goes on counting.
    pub(crate) fn new(run_id: RunId, agent: Arc<str>, env: Env, next_seq: u64) -> Self {
        let waiting = Mutex::new(Waiting { next_seq, ..Waiting::default() });
        Self {
            run_id,
            agent,
            env,
            is_unread: false,
            waiting,
            reader: AtomicWaker::new(),
            is_due: AtomicBool::new(true),
            upward: None,
        }
    }

    /// The same for a run below: whoever reads the run above sees it there.
    pub(crate) fn below(self, upward: Upward) -> Self {
        Self { upward: Some(upward), ..self }
    }

    /// Another agent has the conversation now.
    pub(crate) fn set_agent(&self, agent: &Arc<str>) {
        self.lock().agent = Some(Arc::clone(agent));
    }

    /// The same for a run that nobody watches.
    pub(crate) fn unread(self) -> Self {
        Self { is_unread: true, ..self }
    }

    /// True if nobody will ever read.
    pub(crate) fn is_unread(&self) -> bool {
        self.is_unread
    }

    /// The number of the next event.
    pub(crate) fn next_seq(&self) -> u64 {
        self.lock().next_seq
    }

    pub(crate) fn emit(&self, kind: EventKind) {
        self.emit_with(|| kind);
    }

    /// The same for an event that costs something to make.
    pub(crate) fn emit_with(&self, make: impl FnOnce() -> EventKind) {
        if !self.is_unread {
            self.put(make(), /*of_below*/ None);
        }
    }

    /// Puts an event, of this run or of the agent below that it was passed up from.
    fn put(&self, kind: EventKind, of_below: Option<Arc<str>>) {
        let at = self.env.now();
        let mut waiting = self.lock();
        if waiting.abandoned || may_be_dropped(&kind, waiting.events.len()) {
            return;
        }
        let seq = waiting.next_seq;
        waiting.next_seq += 1;
        let agent =
            of_below.unwrap_or_else(|| Arc::clone(waiting.agent.as_ref().unwrap_or(&self.agent)));
        let event = Event { v: EVENT_VERSION, run_id: self.run_id, seq, at, agent, kind };
        if let Some(Upward { queue, call_id }) = &self.upward {
            // Locked until it is passed on: what several tasks put here arrives above in the order of its numbers.
            let agent = Arc::clone(&event.agent);
            let kind = EventKind::Child { call_id: call_id.to_string(), event: Box::new(event) };
            return queue.put(kind, Some(agent));
        }
        waiting.events.push_back(event);
        let is_read = waiting.is_read;
        drop(waiting);
        // Tools run in tasks of their own: their progress must wake whoever reads.
        if !is_read {
            self.reader.wake();
        }
    }

    /// Waits until the reader has taken everything: a run never gets ahead of whoever watches and steers it.
    ///
    /// The stream polls the driver only when it has nothing left to give, so to be due is enough.
    pub(crate) async fn taken(&self) {
        // A run below does not wait for whoever watches the run above: what it may lose is left out.
        if self.is_unread || self.upward.is_some() {
            return;
        }
        std::future::poll_fn(|_| {
            let waiting = self.lock();
            if waiting.events.is_empty() || waiting.abandoned {
                Poll::Ready(())
            } else {
                self.is_due.store(true, Ordering::Release);
                Poll::Pending
            }
        })
        .await;
    }

    /// True if the reader is far behind.
    pub(crate) fn is_backed_up(&self) -> bool {
        !self.is_unread && self.upward.is_none() && self.lock().events.len() >= DELTAS_WAITING_MAX
    }

    fn abandon(&self) {
        let mut waiting = self.lock();
        waiting.abandoned = true;
        waiting.events.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next event out. If there is none the reader goes on to poll the driver, or else stops reading.
    fn pop(&self, then_polls: bool) -> Option<Event> {
        let mut waiting = self.lock();
        let event = waiting.events.pop_front();
        waiting.is_read = then_polls && event.is_none();
        event
    }
}

/// What a reader that is so far behind does without: progress, and the deltas of runs below, which are told whole in the end.
fn may_be_dropped(kind: &EventKind, behind: usize) -> bool {
    match kind {
        EventKind::ToolProgress { .. } => behind >= PROGRESS_WAITING_MAX,
        EventKind::Child { event, .. } => {
            behind >= DELTAS_WAITING_MAX
                && matches!(
                    event.innermost().kind,
                    EventKind::TextDelta { .. }
                        | EventKind::ReasoningDelta { .. }
                        | EventKind::ToolCallDelta { .. }
                        | EventKind::ToolProgress { .. }
                )
        }
        _ => false,
    }
}

impl Wake for EventQueue {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_due.store(true, Ordering::Release);
        self.reader.wake();
    }
}

type Driving = BoxFuture<'static, Result<Outcome, Error>>;

/// The events of a live run, ending with one that [`is_terminal`](EventKind::is_terminal).
///
/// The run goes on only while the stream is polled. Dropping the stream cancels the run: the model call and all tools end, and
/// the session is left with a valid history.
#[must_use = "a run does nothing unless its stream is polled"]
pub struct RunStream<O: Send + 'static = String> {
    driving: Option<Driving>,
    /// Makes the answer's type of its text.
    decode: fn(&str) -> Result<O, String>,
    queue: Arc<EventQueue>,
    /// The queue, as the driver knows it.
    waker: Waker,
    control: Arc<Control>,
    outcome: Option<Result<Outcome<O>, Error>>,
    started: bool,
    /// As the queue says it; it is asked for every piece of an answer.
    is_unread: bool,
}

impl<O: Send + 'static> RunStream<O> {
    pub(crate) fn new(
        driving: Driving,
        decode: fn(&str) -> Result<O, String>,
        queue: Arc<EventQueue>,
        control: Arc<Control>,
    ) -> Self {
        let waker = Waker::from(Arc::clone(&queue));
        let (driving, is_unread) = (Some(driving), queue.is_unread());
        Self { driving, decode, queue, waker, control, outcome: None, started: false, is_unread }
    }

    /// A way to steer the run.
    pub fn handle(&self) -> RunHandle {
        RunHandle::new(self.queue.run_id, Arc::clone(&self.control))
    }

    /// Only the pieces of the answer, as they come; an error, or any other end without an answer, comes last.
    pub fn text(self) -> impl Stream<Item = Result<String, Error>> + Send {
        futures::stream::unfold(Some(self), |stream| async move {
            let mut stream = stream?;
            while let Some(event) = stream.next().await {
                if let EventKind::TextDelta { text } = event.kind {
                    return Some((Ok(text), Some(stream)));
                }
            }
            let error = stream.outcome().await.and_then(Outcome::into_result).err()?;
            Some((Err(error), None))
        })
    }

    /// Lets the run go on to its end and gives what it came to; events not yet taken are dropped.
    pub async fn outcome(mut self) -> Result<Outcome<O>, Error> {
        std::future::poll_fn(|cx| self.poll_outcome(cx)).await
    }

    pub(crate) fn poll_outcome(&mut self, cx: &mut Context<'_>) -> Poll<Result<Outcome<O>, Error>> {
        if self.is_unread {
            // Without a reader the queue has no part in this: whoever awaits the run is woken directly.
            if self.started {
                ready!(self.control.arrival.poll_pieces(cx));
            }
            ready!(self.poll_driving(cx));
        } else {
            while ready!(self.poll_next_unpin(cx)).is_some() {}
        }
        let ended_twice = || Err(Error::Bug("the run ended twice".to_owned()));
        Poll::Ready(self.outcome.take().unwrap_or_else(ended_twice))
    }

    /// Lets the driver go on; ready once it is done.
    fn poll_driving(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(driving) = &mut self.driving else { return Poll::Ready(()) };
        self.started = true;
        let outcome = ready!(driving.as_mut().poll(cx));
        self.driving = None;
        self.outcome = Some(outcome.and_then(|outcome| outcome.decode(self.decode)));
        Poll::Ready(())
    }
}

impl<O: Send + 'static> Unpin for RunStream<O> {}

impl<O: Send + 'static> Stream for RunStream<O> {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        if let Some(event) = self.queue.pop(/*then_polls*/ true) {
            return Poll::Ready(Some(event));
        }
        if self.driving.is_some() {
            // Before anything is looked at, so that nothing happens unnoticed.
            self.queue.reader.register(cx.waker());
            if self.queue.is_due.swap(false, Ordering::AcqRel) {
                let waker = self.waker.clone();
                let _done = self.poll_driving(&mut Context::from_waker(&waker)).is_ready();
            }
        }
        match self.queue.pop(/*then_polls*/ false) {
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
