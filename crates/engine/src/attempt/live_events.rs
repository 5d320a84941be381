//! Live events of the attempts in this process, before they are in the event log.
//!
//! They are a view. The durable log has every durable event a moment later.

use std::collections::VecDeque;
use std::sync::Arc;

use provost_bus::{Bus, BusMessage, LiveEvent, RunAddress, Topic};
use provost_core::id::name::Namespace;
use provost_core::{Event, EventKind, RunId};

use crate::metrics::MetricsCounters;
use crate::run::Runs;
use crate::worker::lease::Lease;

/// Returns the address of an attempt's run, with its ancestors.
pub(crate) fn run_address(lease: &Lease) -> RunAddress {
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

impl UnfinishedTurn {
    /// Returns the buffered events since the end of the last turn. `dropped` is the number of events that are no
    /// longer in the buffer.
    pub(crate) fn of(place: &RunAddress, buffered: &VecDeque<Event>, dropped: u64) -> Self {
        let ends_turn = |event: &Event| {
            event.run_id == place.run && matches!(event.kind, EventKind::TurnFinished { .. })
        };
        let last_turn_end = buffered.iter().rposition(ends_turn);
        let first = last_turn_end.map_or(0, |place| place + 1);
        Self {
            epoch: place.epoch,
            events: buffered.iter().skip(first).cloned().collect(),
            next: dropped + buffered.len() as u64,
            is_complete: last_turn_end.is_some() || dropped == 0,
        }
    }
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

    /// Returns true if there is a subscriber to live events.
    pub(crate) fn has_subscribers(&self) -> bool {
        self.bus.has_subscribers(Topic::LiveEvents)
    }

    /// Sends a live event to the subscribers.
    pub(crate) fn send(&self, event: LiveEvent) {
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
