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
use crate::run::lifecycle::word;

/// Number of events that are buffered for late subscribers.
const KEPT_MAX: usize = 4096;
/// Number of events that a slow subscriber can lag behind before it misses events.
const BEHIND_MAX: usize = 1024;

/// Buffered events of one attempt.
pub(crate) struct AttemptEventBuffer {
    shown: Mutex<Shown>,
    place: Arc<RunAddress>,
    tap: Arc<LiveEventPublisher>,
}

#[derive(Default)]
struct Shown {
    kept: VecDeque<Event>,
    /// Number of events that were removed from the front of the buffer.
    dropped: u64,
    /// Created for the first subscriber: its buffer is large, and most runs have no subscriber.
    sender: Option<broadcast::Sender<Event>>,
    /// Start of the current model call, until its first output arrives.
    asked: Option<Instant>,
}

impl AttemptEventBuffer {
    pub(crate) fn new(place: RunAddress, tap: Arc<LiveEventPublisher>) -> Self {
        Self { shown: Mutex::default(), place: Arc::new(place), tap }
    }

    pub(crate) fn publish(&self, event: Event) {
        if !self.tap.has_subscribers() {
            self.keep(event);
            return;
        }
        let number = self.keep(event.clone());
        self.tap.send(LiveEvent { place: Arc::clone(&self.place), number, event });
    }

    /// Buffers an event and sends it to the subscribers. Returns its number.
    fn keep(&self, event: Event) -> u64 {
        let mut shown = self.lock();
        self.time(&mut shown, &event);
        if shown.kept.len() == KEPT_MAX {
            shown.kept.pop_front();
            shown.dropped += 1;
        }
        let number = shown.dropped + shown.kept.len() as u64;
        // Sent under the lock, so that a new subscriber gets each event once. Sending fails if no subscriber is left.
        if let Some(sender) = &shown.sender {
            drop(sender.send(event.clone()));
        }
        shown.kept.push_back(event);
        number
    }

    /// Measures the time from a model call to its first output.
    fn time(&self, shown: &mut Shown, event: &Event) {
        match event.kind {
            _ if event.run_id != self.place.run => {}
            EventKind::TurnStarted { .. } => shown.asked = Some(Instant::now()),
            EventKind::TextDelta { .. }
            | EventKind::ReasoningDelta { .. }
            | EventKind::ToolCallDelta { .. } => {
                if let Some(asked) = shown.asked.take() {
                    self.tap.metrics.first_token(asked.elapsed());
                }
            }
            EventKind::TurnFinished { .. } => shown.asked = None,
            _ => {}
        }
    }

    /// Counts a fenced write: another attempt has the run.
    pub(crate) fn fenced(&self) {
        self.tap.metrics.fenced();
    }

    pub(crate) fn draft(&self) -> UnfinishedTurn {
        let shown = self.lock();
        UnfinishedTurn::of(&self.place, &shown.kept, shown.dropped)
    }

    fn join(&self) -> (VecDeque<Event>, broadcast::Receiver<Event>) {
        let Shown { kept, sender, .. } = &mut *self.lock();
        let sender = sender.get_or_insert_with(|| broadcast::Sender::new(BEHIND_MAX));
        (kept.clone(), sender.subscribe())
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Live events of one run.
pub struct LiveStream {
    shared: Arc<EngineInner>,
    namespace: Namespace,
    run: RunId,
    epoch: u64,
    kept: VecDeque<Event>,
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
            kept: VecDeque::new(),
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
            if let Some(event) = self.kept.pop_front() {
                return Ok(Some(event));
            }
            if let Some((live, events)) = &mut self.live {
                tokio::select! {
                    biased;
                    event = events.recv() => match event {
                        Ok(event) => return Ok(Some(event)),
                        // A slow subscriber misses events. The event that ends a message or call contains all of it.
                        Err(broadcast::error::RecvError::Lagged(_)) => {}
                        Err(broadcast::error::RecvError::Closed) => self.leave(),
                    },
                    () = live.wait_until_finished() => self.leave(),
                }
                continue;
            }
            if self.enter() {
                continue;
            }
            let engine = Engine { inner: Arc::clone(&self.shared) };
            let mut wakeups = self.shared.store.bus().subscribe(Topic::Wakeups);
            let row =
                provost_store::query::run::get(engine.store(), &self.namespace, self.run).await?;
            if matches!(word(&row.phase)?, RunPhase::Done | RunPhase::Parked) {
                return Ok(None);
            }
            if !self.enter() {
                wakeups.woken_or_after(self.shared.options.poll, |_| true).await;
            }
        }
    }

    /// Subscribes to the attempt that runs now, unless it is the one that was followed last.
    fn enter(&mut self) -> bool {
        let live = self.shared.attempts().get(&self.run).cloned();
        let Some(live) = live.filter(|live| live.lease.epoch > self.epoch) else { return false };
        let (kept, events) = live.events.join();
        self.epoch = live.lease.epoch;
        self.kept = kept;
        self.live = Some((live, events));
        true
    }

    /// Ends the subscription to a finished attempt. Its remaining events are still returned.
    fn leave(&mut self) {
        if let Some((_, mut events)) = self.live.take() {
            while let Ok(event) = events.try_recv() {
                self.kept.push_back(event);
            }
        }
    }
}
