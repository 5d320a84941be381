//! The events of a live run.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::future::BoxFuture;
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use provost_core::{EVENT_VERSION, Env, Event, EventKind, RunId};
use tokio::sync::{mpsc, watch};

use crate::control::{RunControl, RunHandle};
use crate::error::Error;
use crate::outcome::RunOutcome;

/// Maximum number of unread events before progress events are dropped. Events that carry a result are never dropped.
const PROGRESS_WAITING_MAX: usize = 1024;

/// Maximum number of unread events before the driver stops reading the model's response.
const DELTAS_WAITING_MAX: usize = 64;

/// Numbers the events of a run and sends them to their reader.
pub(crate) struct EventBuffer {
    run_id: RunId,
    env: Env,
    numbering: Mutex<Numbering>,
    sink: EventSink,
}

struct Numbering {
    next_seq: u64,
    /// The active agent.
    agent: Arc<str>,
}

/// The destination of a run's events.
enum EventSink {
    Discard,
    /// To the parent run's events, under the call that started this run.
    Parent(ParentEvents),
    Reader(ReaderChannel),
}

/// The events of a parent run.
pub(crate) struct ParentEvents {
    pub(crate) events: Arc<EventBuffer>,
    pub(crate) call_id: Arc<str>,
}

/// The channel to the reader of a [`RunStream`]. Unbounded, because events are emitted from code that cannot wait.
/// The driver waits between steps instead.
struct ReaderChannel {
    events: mpsc::UnboundedSender<Event>,
    /// Number of unread events.
    waiting: watch::Sender<usize>,
}

/// The receiving end of a run's events.
pub(crate) struct EventReader {
    events: mpsc::UnboundedReceiver<Event>,
    waiting: watch::Sender<usize>,
}

/// The identity of a run in its events.
pub(crate) struct EventSource {
    pub(crate) run_id: RunId,
    pub(crate) agent: Arc<str>,
    pub(crate) env: Env,
    /// Sequence number of the first event. A resumed run continues the numbering.
    pub(crate) next_seq: u64,
}

impl EventBuffer {
    fn new(source: EventSource, sink: EventSink) -> Self {
        let EventSource { run_id, agent, env, next_seq } = source;
        Self { run_id, env, numbering: Mutex::new(Numbering { next_seq, agent }), sink }
    }

    /// Creates a buffer with a reader.
    pub(crate) fn channel(source: EventSource) -> (Self, EventReader) {
        let (events, receiver) = mpsc::unbounded_channel();
        let waiting = watch::Sender::new(0);
        let reader = EventReader { events: receiver, waiting: waiting.clone() };
        (Self::new(source, EventSink::Reader(ReaderChannel { events, waiting })), reader)
    }

    /// Creates a buffer that drops every event.
    pub(crate) fn discard(source: EventSource) -> Self {
        Self::new(source, EventSink::Discard)
    }

    /// Creates the buffer of a child run, which sends its events to the parent's buffer.
    pub(crate) fn for_child(source: EventSource, parent: ParentEvents) -> Self {
        Self::new(source, EventSink::Parent(parent))
    }

    /// Sets the active agent.
    pub(crate) fn set_agent(&self, agent: &Arc<str>) {
        self.numbering.lock().agent = Arc::clone(agent);
    }

    /// Returns true if every event is discarded.
    pub(crate) fn discards_events(&self) -> bool {
        matches!(self.sink, EventSink::Discard)
    }

    /// Returns the sequence number of the next event.
    pub(crate) fn next_seq(&self) -> u64 {
        self.numbering.lock().next_seq
    }

    /// Emits an event, unless events are discarded.
    pub(crate) fn emit(&self, kind: EventKind) {
        self.emit_with(|| kind);
    }

    /// Emits an event. Does not build it if it would be discarded.
    pub(crate) fn emit_with(&self, make: impl FnOnce() -> EventKind) {
        if !self.discards_events() {
            self.send(make(), /*child*/ None);
        }
    }

    /// Numbers and sends an event of this run, or of the child agent `child`. Drops it if the sink does not accept it.
    fn send(&self, kind: EventKind, child: Option<Arc<str>>) {
        let at = self.env.now();
        // The lock is held until the event is sent, so that events of several tasks arrive in the order of their
        // numbers.
        let mut numbering = self.numbering.lock();
        if !self.sink.accepts(&kind) {
            return;
        }
        let seq = numbering.next_seq;
        numbering.next_seq += 1;
        let agent = child.unwrap_or_else(|| Arc::clone(&numbering.agent));
        let event = Event { v: EVENT_VERSION, run_id: self.run_id, seq, at, agent, kind };
        match &self.sink {
            EventSink::Discard => {}
            EventSink::Parent(ParentEvents { events, call_id }) => {
                let agent = Arc::clone(&event.agent);
                let kind =
                    EventKind::Child { call_id: call_id.to_string(), event: Box::new(event) };
                events.send(kind, Some(agent));
            }
            EventSink::Reader(reader) => {
                reader.waiting.send_modify(|waiting| *waiting += 1);
                // An error means that the reader is gone.
                reader.events.send(event).ok();
            }
        }
    }

    /// Waits until the reader has received every event: the run must not get ahead of a reader that steers it. Returns
    /// at once without a reader. A child run does not wait for the reader of its parent.
    pub(crate) async fn wait_until_read(&self) {
        let EventSink::Reader(reader) = &self.sink else { return };
        let mut waiting = reader.waiting.subscribe();
        tokio::select! {
            biased;
            _taken = waiting.wait_for(|waiting| *waiting == 0) => {}
            () = reader.events.closed() => {}
        }
    }

    /// Returns true if the reader has too many unread events.
    pub(crate) fn is_full(&self) -> bool {
        match &self.sink {
            EventSink::Reader(reader) => *reader.waiting.borrow() >= DELTAS_WAITING_MAX,
            EventSink::Parent(_) | EventSink::Discard => false,
        }
    }
}

impl EventSink {
    /// Returns false if the event is dropped: the reader was dropped, or it is too far behind and the event is
    /// optional.
    fn accepts(&self, kind: &EventKind) -> bool {
        match self {
            Self::Discard => false,
            Self::Parent(_) => true,
            Self::Reader(reader) => {
                !reader.events.is_closed() && !may_be_dropped(kind, *reader.waiting.borrow())
            }
        }
    }
}

/// Returns true for events that a reader with this many unread events does not get: progress, and deltas of child runs,
/// whose complete message follows.
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

impl EventReader {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let event = self.events.poll_recv(cx);
        event.map(|event| event.inspect(|_| self.count_read()))
    }

    /// Returns the next event without waiting. `None` if there is none.
    fn try_next(&mut self) -> Option<Event> {
        let event = self.events.try_recv().ok();
        event.inspect(|_| self.count_read())
    }

    /// Counts an event as read.
    fn count_read(&self) {
        self.waiting.send_modify(|waiting| *waiting = waiting.saturating_sub(1));
    }
}

type RunFuture = BoxFuture<'static, Result<RunOutcome, Error>>;

/// The events of an active run. The last event [is terminal](EventKind::is_terminal).
///
/// The run makes progress only while the stream is polled. Dropping the stream cancels the run: the model call and
/// all tools stop, and the session keeps a valid history.
#[must_use = "a run does nothing unless its stream is polled"]
pub struct RunStream<O: Send + 'static = String> {
    driving: Option<RunFuture>,
    /// Decodes the text of the final response.
    decode: fn(&str) -> Result<O, String>,
    /// `None` if the events are discarded.
    reader: Option<EventReader>,
    run_id: RunId,
    control: Arc<RunControl>,
    outcome: Option<Result<RunOutcome<O>, Error>>,
    started: bool,
}

/// A prepared run with its control and its events.
pub(crate) struct LiveRun {
    pub(crate) driving: RunFuture,
    pub(crate) run_id: RunId,
    pub(crate) reader: Option<EventReader>,
    pub(crate) control: Arc<RunControl>,
}

impl<O: Send + 'static> RunStream<O> {
    pub(crate) fn new(live: LiveRun, decode: fn(&str) -> Result<O, String>) -> Self {
        let LiveRun { driving, run_id, reader, control } = live;
        let driving = Some(driving);
        Self { driving, decode, reader, run_id, control, outcome: None, started: false }
    }

    /// Returns a handle to steer, pause or cancel the run.
    pub fn handle(&self) -> RunHandle {
        RunHandle::new(self.run_id, Arc::clone(&self.control))
    }

    /// Streams only the text deltas of the response. If the run does not complete, the last item is its error.
    pub fn text(self) -> impl Stream<Item = Result<String, Error>> + Send {
        futures::stream::unfold(Some(self), |stream| async move {
            let mut stream = stream?;
            while let Some(event) = stream.next().await {
                if let EventKind::TextDelta { text } = event.kind {
                    return Some((Ok(text), Some(stream)));
                }
            }
            let error = stream.outcome().await.and_then(RunOutcome::into_result).err()?;
            Some((Err(error), None))
        })
    }

    /// Drives the run to its end and returns the outcome. Unread events are dropped.
    pub async fn outcome(mut self) -> Result<RunOutcome<O>, Error> {
        std::future::poll_fn(|cx| self.poll_outcome(cx)).await
    }

    /// Drives the run and drops its events. Ready with the outcome.
    pub(crate) fn poll_outcome(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<RunOutcome<O>, Error>> {
        while ready!(self.poll_next_unpin(cx)).is_some() {}
        let ended_twice = || Err(Error::Bug("the run ended twice".to_owned()));
        Poll::Ready(self.outcome.take().unwrap_or_else(ended_twice))
    }

    /// Drives the run. Ready when the run has ended.
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
        let waiting = self.reader.as_mut().map(|reader| reader.poll_next(cx));
        if let Some(Poll::Ready(event @ Some(_))) = waiting {
            return Poll::Ready(event);
        }
        let driven = self.poll_driving(cx);
        // Events that other tasks send after this point wake this task, because the reader was polled before.
        match self.reader.as_mut().and_then(EventReader::try_next) {
            Some(event) => Poll::Ready(Some(event)),
            None => driven.map(|()| None),
        }
    }
}

impl<O: Send + 'static> Drop for RunStream<O> {
    fn drop(&mut self) {
        self.control.cancel.cancel();
        self.reader = None;
        if !self.started {
            return;
        }
        // The driver then sees the cancellation, completes the conversation and commits it, which needs a runtime.
        if let (Some(driving), Ok(runtime)) =
            (self.driving.take(), tokio::runtime::Handle::try_current())
        {
            runtime.spawn(driving);
        }
    }
}
