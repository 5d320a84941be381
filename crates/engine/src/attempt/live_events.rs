//! Live events: the events of the attempts of this process, before the log has them.
//!
//! They are a view. The durable log has everything that counts, a moment later.

use std::collections::VecDeque;
use std::sync::Arc;

use provost_bus::{Bus, LiveEvent, LivePlace, Message, Topic};
use provost_core::id::name::Namespace;
use provost_core::{Event, EventKind, RunId};

use crate::metrics::Pulse;
use crate::run::Runs;
use crate::worker::lease::Lease;

/// The run of an attempt, with its ancestors.
pub(crate) fn place_of(lease: &Lease) -> LivePlace {
    LivePlace {
        namespace: lease.namespace.clone(),
        task: lease.task,
        session: lease.session.clone(),
        above: lease.above.clone(),
        run: lease.run,
        epoch: lease.epoch,
    }
}

/// What a late viewer has missed: what is going on and in no durable event yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// The epoch of the attempt.
    pub epoch: u64,
    /// The live events since the last turn was over, oldest first.
    pub events: Vec<Event>,
    /// The number of the first live event that is not in it.
    pub next: u64,
    /// False if there was too much, and the beginning is missing.
    pub whole: bool,
}

impl Draft {
    /// Of the events of an attempt, those since its last turn was over; `dropped` of them are not kept any more.
    pub(crate) fn of(place: &LivePlace, kept: &VecDeque<Event>, dropped: u64) -> Self {
        let ends_turn = |event: &Event| {
            event.run_id == place.run && matches!(event.kind, EventKind::TurnFinished { .. })
        };
        let turn_over = kept.iter().rposition(ends_turn);
        let first = turn_over.map_or(0, |place| place + 1);
        Self {
            epoch: place.epoch,
            events: kept.iter().skip(first).cloned().collect(),
            next: dropped + kept.len() as u64,
            whole: turn_over.is_some() || dropped == 0,
        }
    }
}

/// The way of live events to the bus.
pub(crate) struct Tap {
    bus: Arc<dyn Bus>,
    /// What attempts count on their way.
    pub(crate) pulse: Pulse,
}

impl Tap {
    /// A tap into a bus.
    pub(crate) fn new(bus: Arc<dyn Bus>) -> Self {
        Self { bus, pulse: Pulse::default() }
    }

    /// True if a subscriber wants live events.
    pub(crate) fn is_wanted(&self) -> bool {
        self.bus.has_subscribers(Topic::LiveEvents)
    }

    /// Sends a live event to its subscribers.
    pub(crate) fn send(&self, event: LiveEvent) {
        self.bus.send(Message::Live(Arc::new(event)));
    }
}

impl Runs<'_> {
    /// What somebody who begins to watch a run now has missed; nothing if no attempt of it is under way in this process.
    ///
    /// Whoever takes live events first and then asks for the draft gets each event once by leaving out those of the same epoch
    /// with a number below [`Draft::next`].
    pub fn draft(self, namespace: &Namespace, run: RunId) -> Option<Draft> {
        let live = self.engine.shared.live().get(&run).cloned()?;
        (live.lease.namespace == namespace.as_str()).then(|| live.show.draft())
    }
}
