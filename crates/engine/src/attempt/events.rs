//! Live events of the attempts in this process, before they are in the event log.
//!
//! Viewers subscribe to the live events of the bus. The buffer of an attempt contains the events that a late viewer has
//! missed. The durable log has every durable event a moment later.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use provost_bus::{Bus, BusMessage, LiveEvent, RunAddress, Topic};
use provost_core::id::name::Namespace;
use provost_core::{Event, EventKind, RunId};
use tokio::time::Instant;

use crate::metrics::MetricsCounters;
use crate::run::Runs;
use crate::worker::lease::Lease;

/// Number of events that are buffered for late viewers.
const BUFFERED_EVENTS_MAX: usize = 4096;

/// Publishes and buffers the live events of one attempt.
pub(crate) struct AttemptEvents {
    buffer: Mutex<EventBuffer>,
    address: Arc<RunAddress>,
    publisher: Arc<LiveEventPublisher>,
}

#[derive(Default)]
struct EventBuffer {
    events: VecDeque<Event>,
    /// Number of events that were removed from the front of the buffer.
    dropped: u64,
    /// Start of the current model call, until its first output arrives.
    model_call_started: Option<Instant>,
}

impl EventBuffer {
    /// Number of the next event.
    fn next(&self) -> u64 {
        self.dropped + self.events.len() as u64
    }

    /// Buffers an event. Returns its number.
    fn push(&mut self, event: Event) -> u64 {
        if self.events.len() == BUFFERED_EVENTS_MAX {
            self.events.pop_front();
            self.dropped += 1;
        }
        let number = self.next();
        self.events.push_back(event);
        number
    }
}

impl AttemptEvents {
    pub(crate) fn new(lease: &Lease, publisher: Arc<LiveEventPublisher>) -> Self {
        Self { buffer: Mutex::default(), address: Arc::new(run_address(lease)), publisher }
    }

    /// Buffers an event and sends it to the subscribers of live events.
    pub(crate) fn publish(&self, event: Event) {
        let (number, sent) = {
            let mut buffer = self.buffer.lock();
            self.measure_first_token(&mut buffer, &event);
            // Checked under the lock: a viewer subscribes before it reads the buffer, so it misses no event.
            let sent = self.publisher.may_have_subscribers().then(|| event.clone());
            (buffer.push(event), sent)
        };
        if let Some(event) = sent {
            self.publisher.send(LiveEvent { address: Arc::clone(&self.address), number, event });
        }
    }

    /// Measures the time from a model call to its first output.
    fn measure_first_token(&self, buffer: &mut EventBuffer, event: &Event) {
        match event.kind {
            _ if event.run_id != self.address.run => {}
            EventKind::TurnStarted { .. } => buffer.model_call_started = Some(Instant::now()),
            EventKind::TextDelta { .. }
            | EventKind::ReasoningDelta { .. }
            | EventKind::ToolCallDelta { .. } => {
                if let Some(model_call_started) = buffer.model_call_started.take() {
                    self.publisher.metrics.first_token(model_call_started.elapsed());
                }
            }
            EventKind::TurnFinished { .. } => buffer.model_call_started = None,
            _ => {}
        }
    }

    /// Counts a fenced write: another attempt has the run.
    pub(crate) fn fenced(&self) {
        self.publisher.metrics.fenced();
    }

    /// Selects the events since the end of the last turn.
    fn unfinished_turn(&self) -> UnfinishedTurn {
        let buffer = self.buffer.lock();
        let run = self.address.run;
        let ends_turn = |event: &Event| {
            event.run_id == run && matches!(event.kind, EventKind::TurnFinished { .. })
        };
        let last_turn_end = buffer.events.iter().rposition(ends_turn);
        let first = last_turn_end.map_or(0, |position| position + 1);
        UnfinishedTurn {
            epoch: self.address.epoch,
            events: buffer.events.iter().skip(first).cloned().collect(),
            next: buffer.next(),
            is_complete: last_turn_end.is_some() || buffer.dropped == 0,
        }
    }
}

/// Returns the address of an attempt's run, with its ancestors.
fn run_address(lease: &Lease) -> RunAddress {
    RunAddress {
        namespace: lease.namespace.clone(),
        task: lease.task,
        session: lease.session.clone(),
        ancestors: lease.ancestors.clone(),
        run: lease.run,
        epoch: lease.epoch,
    }
}

/// Live events of the unfinished turn, for a viewer that connects late: no durable event covers them yet.
#[derive(Debug, Clone, PartialEq)]
pub struct UnfinishedTurn {
    /// Epoch of the attempt.
    pub epoch: u64,
    /// Live events since the end of the last turn, oldest first.
    pub events: Vec<Event>,
    /// Number of the first live event after this snapshot.
    pub next: u64,
    /// False if the first events are missing, because the buffer was too small.
    pub is_complete: bool,
}

/// Publishes live events to the bus.
pub(crate) struct LiveEventPublisher {
    bus: Arc<dyn Bus>,
    /// Metrics that attempts record.
    pub(crate) metrics: MetricsCounters,
}

impl LiveEventPublisher {
    /// Creates a publisher for a bus.
    pub(crate) fn new(bus: Arc<dyn Bus>) -> Self {
        Self { bus, metrics: MetricsCounters::default() }
    }

    fn may_have_subscribers(&self) -> bool {
        self.bus.may_have_subscribers(Topic::LiveEvents)
    }

    fn send(&self, event: LiveEvent) {
        self.bus.send(BusMessage::Live(Arc::new(event)));
    }
}

impl Runs<'_> {
    /// Returns the live events that a new viewer of a run has missed. `None` if no attempt of the run is active in this
    /// process.
    ///
    /// To get each event once, subscribe to live events first, then take the snapshot, and skip the events of the same
    /// epoch with a number below [`UnfinishedTurn::next`].
    pub fn unfinished_turn(self, namespace: &Namespace, run: RunId) -> Option<UnfinishedTurn> {
        let live = self.engine.inner.attempts().get(&run).cloned()?;
        (live.lease.namespace == namespace.as_str()).then(|| live.events.unfinished_turn())
    }
}
