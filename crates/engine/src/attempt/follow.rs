//! Live view of a run: every event of the attempt that runs in this process, from its start.
//!
//! The view is best effort. If another process runs the attempt, only its durable events can be read.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use provost_bus::{LiveEvent, RunAddress, Topic};
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RunPhase;
use provost_core::{Event, EventKind, RunId};
use tokio::sync::broadcast;
use tokio::time::Instant;

use crate::attempt::RunningAttempt;
use crate::attempt::live_events::{LiveEventPublisher, UnfinishedTurn};
use crate::engine::{Engine, EngineInner};
use crate::error::EngineError;
use crate::run::Runs;
use crate::run::lifecycle::parse_column;

/// Number of events that are buffered for late subscribers.
const BUFFERED_EVENTS_MAX: usize = 4096;
/// Number of events that a slow subscriber can lag behind before it misses events.
const LAG_MAX: usize = 1024;

/// Buffered events of one attempt.
pub(crate) struct AttemptEventBuffer {
    state: Mutex<BufferState>,
    address: Arc<RunAddress>,
    publisher: Arc<LiveEventPublisher>,
}

#[derive(Default)]
struct BufferState {
    buffered: VecDeque<Event>,
    /// Number of events that were removed from the front of the buffer.
    dropped: u64,
    /// Created for the first subscriber: its buffer is large, and most runs have no subscriber.
    sender: Option<broadcast::Sender<Event>>,
    /// Start of the current model call, until its first output arrives.
    model_call_started: Option<Instant>,
}

impl AttemptEventBuffer {
    pub(crate) fn new(address: RunAddress, publisher: Arc<LiveEventPublisher>) -> Self {
        Self { state: Mutex::default(), address: Arc::new(address), publisher }
    }

    pub(crate) fn publish(&self, event: Event) {
        if !self.publisher.has_subscribers() {
            self.buffer(event);
            return;
        }
        let number = self.buffer(event.clone());
        self.publisher.send(LiveEvent { address: Arc::clone(&self.address), number, event });
    }

    /// Buffers an event and sends it to the subscribers. Returns its number.
    fn buffer(&self, event: Event) -> u64 {
        let mut state = self.lock();
        self.measure_first_token(&mut state, &event);
        if state.buffered.len() == BUFFERED_EVENTS_MAX {
            state.buffered.pop_front();
            state.dropped += 1;
        }
        let number = state.dropped + state.buffered.len() as u64;
        // Sent under the lock, so that a new subscriber gets each event once. Sending fails if no subscriber is left.
        if let Some(sender) = &state.sender {
            drop(sender.send(event.clone()));
        }
        state.buffered.push_back(event);
        number
    }

    /// Measures the time from a model call to its first output.
    fn measure_first_token(&self, state: &mut BufferState, event: &Event) {
        match event.kind {
            _ if event.run_id != self.address.run => {}
            EventKind::TurnStarted { .. } => state.model_call_started = Some(Instant::now()),
            EventKind::TextDelta { .. }
            | EventKind::ReasoningDelta { .. }
            | EventKind::ToolCallDelta { .. } => {
                if let Some(model_call_started) = state.model_call_started.take() {
                    self.publisher.metrics.first_token(model_call_started.elapsed());
                }
            }
            EventKind::TurnFinished { .. } => state.model_call_started = None,
            _ => {}
        }
    }

    /// Counts a fenced write: another attempt has the run.
    pub(crate) fn fenced(&self) {
        self.publisher.metrics.fenced();
    }

    pub(crate) fn unfinished_turn(&self) -> UnfinishedTurn {
        let state = self.lock();
        UnfinishedTurn::of(&self.address, &state.buffered, state.dropped)
    }

    fn subscribe_with_buffer(&self) -> (VecDeque<Event>, broadcast::Receiver<Event>) {
        let BufferState { buffered, sender, .. } = &mut *self.lock();
        let sender = sender.get_or_insert_with(|| broadcast::Sender::new(LAG_MAX));
        (buffered.clone(), sender.subscribe())
    }

    fn lock(&self) -> MutexGuard<'_, BufferState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Live events of one run.
pub struct LiveStream {
    shared: Arc<EngineInner>,
    namespace: Namespace,
    run: RunId,
    epoch: u64,
    buffered: VecDeque<Event>,
    live: Option<(Arc<RunningAttempt>, broadcast::Receiver<Event>)>,
}

impl Runs<'_> {
    /// Follows a run through all its attempts in this process.
    pub fn follow(self, namespace: &Namespace, run: RunId) -> LiveStream {
        LiveStream {
            shared: Arc::clone(&self.engine.inner),
            namespace: namespace.clone(),
            run,
            epoch: 0,
            buffered: VecDeque::new(),
            live: None,
        }
    }
}

impl LiveStream {
    /// Returns the epoch of the current or last followed attempt; zero before the first.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the next event. Returns `None` when the run has ended or is parked.
    pub async fn next(&mut self) -> Result<Option<Event>, EngineError> {
        loop {
            if let Some(event) = self.buffered.pop_front() {
                return Ok(Some(event));
            }
            if let Some((live, events)) = &mut self.live {
                tokio::select! {
                    biased;
                    event = events.recv() => match event {
                        Ok(event) => return Ok(Some(event)),
                        // A slow subscriber misses events. The event that ends a message or call contains all of it.
                        Err(broadcast::error::RecvError::Lagged(_)) => {}
                        Err(broadcast::error::RecvError::Closed) => self.unsubscribe(),
                    },
                    () = live.wait_until_finished() => self.unsubscribe(),
                }
                continue;
            }
            if self.subscribe() {
                continue;
            }
            let engine = Engine { inner: Arc::clone(&self.shared) };
            let mut wakeups = self.shared.store.bus().subscribe(Topic::Wakeups);
            let row =
                provost_store::query::run::get(engine.store(), &self.namespace, self.run).await?;
            if matches!(parse_column(&row.phase)?, RunPhase::Done | RunPhase::Parked) {
                return Ok(None);
            }
            if !self.subscribe() {
                wakeups.woken_or_after(self.shared.options.poll, |_| true).await;
            }
        }
    }

    /// Subscribes to the attempt that runs now, unless it is the one that was followed last.
    fn subscribe(&mut self) -> bool {
        let live = self.shared.attempts().get(&self.run).cloned();
        let Some(live) = live.filter(|live| live.lease.epoch > self.epoch) else { return false };
        let (buffered, events) = live.events.subscribe_with_buffer();
        self.epoch = live.lease.epoch;
        self.buffered = buffered;
        self.live = Some((live, events));
        true
    }

    /// Ends the subscription to a finished attempt. Its remaining events are still returned.
    fn unsubscribe(&mut self) {
        if let Some((_, mut events)) = self.live.take() {
            while let Ok(event) = events.try_recv() {
                self.buffered.push_back(event);
            }
        }
    }
}
