//! Reads the log as it grows and delivers its events. Each event follows the deltas that precede it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use provost_bus::{BusMessage, Lagged, Subscription, Topic, Wakeup};
use provost_core::RunId;
use provost_engine::Engine;
use provost_store::query;
use provost_store::query::QueryError;
use provost_store::query::event_log::LogEntry;
use tokio::time::Instant;

use super::delta::QueuedDelta;
use super::progress::Progress;
use super::registry::SubscriptionRegistry;
use super::run_cache::RunTopics;
use super::subscriber::{Frame, FrameKind};
use crate::sse::encode::{self, finished_turn, terminal_status};

/// Maximum number of events in a page.
const PAGE: u64 = 500;
/// Number of subscribers above which the task yields after each event, because one delivery takes long.
const YIELD_ABOVE_SUBSCRIBERS: usize = 256;
/// Interval at which the log is read without a wake-up, because other processes send none.
const POLL: Duration = Duration::from_secs(1);
/// Delay after a failed read.
const RETRY_DELAY: Duration = Duration::from_millis(250);

/// Reader of the log and its position.
struct LogTailer {
    engine: Engine,
    registry: Arc<SubscriptionRegistry>,
    generation: u64,
    pos: u64,
    /// Deltas that arrived before the log was read. After the read, all events that precede them are delivered.
    before: Vec<QueuedDelta>,
    /// Deltas that arrived during the read. Events that precede them may be missing.
    during: Vec<QueuedDelta>,
    /// Number of live events that the bus dropped because this task was slow.
    dropped: u64,
    live: Subscription,
}

/// Reads the log while there are subscribers.
pub(super) async fn run(engine: Engine, registry: Arc<SubscriptionRegistry>) {
    loop {
        while registry.subscriber_count() == 0 {
            registry.wake.notified().await;
        }
        // Subscribed before the position is read, so that no later wake-up is missed.
        let bus = engine.store().bus();
        let (wakeups, live) = (bus.subscribe(Topic::Wakeups), bus.subscribe(Topic::LiveEvents));
        match query::event_log::bounds(engine.store()).await {
            Ok(bounds) => {
                let tailer = LogTailer {
                    engine: engine.clone(),
                    registry: Arc::clone(&registry),
                    generation: bounds.generation,
                    pos: bounds.last,
                    before: Vec::new(),
                    during: Vec::new(),
                    dropped: 0,
                    live,
                };
                tailer.follow(wakeups).await;
            }
            Err(error) => pause(&error).await,
        }
    }
}

async fn pause(error: &QueryError) {
    tracing::warn!(%error, "cannot read the log; streams wait");
    tokio::time::sleep(RETRY_DELAY).await;
}

impl LogTailer {
    /// Delivers new events until no subscriber is left.
    async fn follow(mut self, mut wakeups: Subscription) {
        self.registry.start_tailing();
        let mut next_poll = Instant::now() + POLL;
        loop {
            let mut must_read = false;
            tokio::select! {
                biased;
                // Deltas that arrived during a read require another read.
                () = std::future::ready(()), if !self.during.is_empty() => {}
                wakeup = wakeups.recv() => must_read = reports_events(&wakeup),
                live = self.live.recv() => self.accept_live(live),
                () = self.registry.wake.notified() => {}
                () = tokio::time::sleep_until(next_poll) => must_read = true,
            }
            must_read |= drain(&mut wakeups);
            self.drain_live();
            self.before.append(&mut self.during);
            if must_read || self.before.iter().any(|delta| delta.needs_preceding_events) {
                next_poll = Instant::now() + POLL;
                if let Err(error) = self.read().await {
                    pause(&error).await;
                    next_poll = Instant::now();
                }
            }
            self.report_dropped();
            for delta in std::mem::take(&mut self.before) {
                self.deliver(&delta);
            }
            if self.registry.stop_if_idle() {
                return;
            }
        }
    }

    /// Accepts all live events that have arrived.
    fn drain_live(&mut self) {
        while let Some(live) = self.live.try_recv() {
            self.accept_live(live);
        }
    }

    fn accept_live(&mut self, live: Result<BusMessage, Lagged>) {
        match live {
            Ok(BusMessage::Live(event)) => {
                self.during.extend(QueuedDelta::encode(&self.registry, &event))
            }
            Ok(_) => {}
            Err(Lagged { missed }) => self.dropped += missed,
        }
    }

    /// Reads and delivers all events after the position.
    async fn read(&mut self) -> Result<(), QueryError> {
        loop {
            let page = query::event_log::tail(self.engine.store(), self.pos, PAGE).await?;
            let runs = topics_of(&self.engine, &self.registry, &page.entries).await?;
            // Deltas that arrived during the read can precede these events.
            self.drain_live();
            for entry in &page.entries {
                // A run that was deleted in the meantime has no topics.
                let Some(topics) = runs.get(&entry.run) else {
                    continue;
                };
                topics.observe_epoch(entry.epoch);
                self.deliver_preceding(entry, topics);
                self.registry.publish(&topics.topics, |topic| {
                    let kind = topic.cursor_kind();
                    let (at, end) = (kind.number_of(entry), terminal_status(&entry.kind));
                    Frame {
                        bytes: encode::event(self.generation, entry, kind),
                        kind: FrameKind::Durable { at, epoch: entry.epoch, end },
                    }
                });
                if self.registry.subscriber_count() > YIELD_ABOVE_SUBSCRIBERS {
                    // Lets the subscribers receive this event before the next one.
                    tokio::task::yield_now().await;
                }
            }
            self.pos = page.next;
            if !page.has_more {
                return Ok(());
            }
        }
    }

    /// Delivers the deltas of a run that precede one of its events.
    fn deliver_preceding(&mut self, entry: &LogEntry, topics: &RunTopics) {
        let finished = finished_turn(entry);
        let up_to = match finished {
            Some(turn) => Some(Progress::model(turn)),
            None if terminal_status(&entry.kind).is_some() => None,
            None => Some(topics.committed_progress()),
        };
        let precedes = |delta: &mut QueuedDelta| {
            (delta.run, delta.epoch) == (entry.run, entry.epoch)
                && up_to.is_none_or(|up_to| delta.progress <= up_to)
        };
        self.report_dropped();
        let mut deltas: Vec<_> = self.before.extract_if(.., precedes).collect();
        deltas.extend(self.during.extract_if(.., precedes));
        for delta in deltas {
            self.deliver(&delta);
        }
        if let Some(turn) = finished {
            topics.commit(Progress::tools(turn));
        }
    }

    fn deliver(&self, delta: &QueuedDelta) {
        if !delta.topics.is_stale(delta.epoch) {
            self.registry.publish_shared(&delta.topics.topics, &delta.frame);
        }
    }

    fn report_dropped(&mut self) {
        if self.dropped > 0 {
            self.registry.record_dropped_deltas(std::mem::take(&mut self.dropped));
        }
    }
}

/// Returns the topics of the runs of these events.
async fn topics_of(
    engine: &Engine,
    registry: &SubscriptionRegistry,
    entries: &[LogEntry],
) -> Result<HashMap<RunId, Arc<RunTopics>>, QueryError> {
    let mut topics = HashMap::new();
    let mut missing = Vec::new();
    {
        let mut runs = registry.runs.lock();
        for entry in entries {
            if topics.contains_key(&entry.run) || missing.contains(&entry.run) {
                continue;
            }
            match runs.get(entry.run) {
                Some(cached) => drop(topics.insert(entry.run, cached)),
                None => missing.push(entry.run),
            }
        }
    }
    if missing.is_empty() {
        return Ok(topics);
    }
    let found = query::event_log::run_scopes(engine.store(), missing).await?;
    let mut runs = registry.runs.lock();
    for (run, place) in found {
        topics.insert(run, runs.put(run, &place));
    }
    Ok(topics)
}

fn reports_events(wakeup: &Result<BusMessage, Lagged>) -> bool {
    matches!(wakeup, Ok(BusMessage::Wakeup(Wakeup::Events(_))) | Err(Lagged { .. }))
}

/// Discards all pending wake-ups, because one read of the log answers them. Returns true if one of them reports events.
fn drain(wakeups: &mut Subscription) -> bool {
    let mut must_read = false;
    while let Some(wakeup) = wakeups.try_recv() {
        must_read |= reports_events(&wakeup);
    }
    must_read
}
