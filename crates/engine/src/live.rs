//! Live events for a server: what attempts of this process do right now, as it happens.
//!
//! It is a view and not the truth. What is missed here is in the durable log as soon as it counts.

use std::collections::VecDeque;
use std::sync::Arc;

use provost_core::id::name::Namespace;
use provost_core::{Event, EventKind, RunId, TaskId};

use crate::metrics::Pulse;
use crate::run::Runs;
use crate::worker::lease::Lease;

/// Somebody who passes live events on to those who watch.
pub trait LiveSink: Send + Sync + 'static {
    /// True if anybody watches the run. It is asked for each event, so it must be quick.
    fn wants(&self, run: RunId) -> bool;

    /// Takes an event of a run that somebody watches. Numbers count the events of an attempt from zero. It must not block: the
    /// attempt waits for it.
    fn live(&self, from: &LivePlace, number: u64, event: &Event);
}

/// Whose event it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LivePlace {
    /// The tenancy boundary.
    pub namespace: String,
    /// The task.
    pub task: TaskId,
    /// The session.
    pub session: String,
    /// The tasks above its own with their sessions, nearest first.
    pub above: Vec<(TaskId, String)>,
    /// The run.
    pub run: RunId,
    /// The epoch of the attempt.
    pub epoch: u64,
}

impl LivePlace {
    pub(crate) fn of(lease: &Lease) -> Self {
        Self {
            namespace: lease.namespace.clone(),
            task: lease.task,
            session: lease.session.clone(),
            above: lease.above.clone(),
            run: lease.run,
            epoch: lease.epoch,
        }
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

/// Where live events go, if anybody was given.
pub(crate) struct Tap {
    sink: Option<Arc<dyn LiveSink>>,
    /// What attempts count on their way.
    pub(crate) pulse: Pulse,
}

impl Tap {
    /// A tap into a sink.
    pub(crate) fn new(sink: Option<Arc<dyn LiveSink>>) -> Self {
        Self { sink, pulse: Pulse::default() }
    }

    /// Somebody who wants the live events of a run.
    pub(crate) fn wanted(&self, run: RunId) -> Option<Arc<dyn LiveSink>> {
        self.sink.as_ref().filter(|sink| sink.wants(run)).map(Arc::clone)
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
