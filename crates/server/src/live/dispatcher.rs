//! Reads the log as it grows and delivers its events, each behind the deltas that came before it.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use provost_bus::{Lagged, Message, Subscription, Topic, Wakeup};
use provost_core::RunId;
use provost_engine::Engine;
use provost_store::query;
use provost_store::query::QueryError;
use provost_store::query::event_log::LogEntry;
use tokio::time::Instant;

use super::delta::QueuedDelta;
use super::progress::Progress;
use super::registry::Board;
use super::run_cache::RunTopics;
use super::subscriber::{Frame, What};
use crate::sse::encode::{self, finished_turn, terminal_status};

/// Events of one page.
const PAGE: u64 = 500;
/// With more subscribers than this, delivering one event takes so long that other tasks must get a turn in between.
const YIELD_ABOVE_SUBSCRIBERS: usize = 256;
/// Other processes write to the same file and send no wake-ups.
const POLL: Duration = Duration::from_secs(1);
/// How long to wait after the database could not be read.
const RETRY_DELAY: Duration = Duration::from_millis(250);

/// Where the log is read.
struct LogTailer {
    engine: Engine,
    board: Arc<Board>,
    generation: u64,
    pos: u64,
    /// Deltas that came before the log was read. Once it is read, every event that precedes them is delivered.
    before: Vec<QueuedDelta>,
    /// Deltas that came while the log was read. An event that precedes them may not be read yet.
    during: Vec<QueuedDelta>,
    /// Live events that this task was too slow for.
    dropped: u64,
    live: Subscription,
}

/// Reads the log as long as there are subscribers.
pub(super) async fn run(engine: Engine, board: Arc<Board>) {
    loop {
        while board.viewers() == 0 {
            board.wake.notified().await;
        }
        // Before the position is read, so that no wake-up about what comes after it is missed.
        let bus = engine.store().bus();
        let (wakeups, live) = (bus.subscribe(Topic::Wakeups), bus.subscribe(Topic::LiveEvents));
        match query::event_log::bounds(engine.store()).await {
            Ok(bounds) => {
                let tailer = LogTailer {
                    engine: engine.clone(),
                    board: Arc::clone(&board),
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
    tracing::warn!(%error, "the log cannot be read; streams wait");
    tokio::time::sleep(RETRY_DELAY).await;
}

impl LogTailer {
    /// Delivers what is new until no subscriber is left.
    async fn follow(mut self, mut wakeups: Subscription) {
        self.board.stand();
        let mut next_poll = Instant::now() + POLL;
        loop {
            let mut must_read = false;
            tokio::select! {
                biased;
                // Deltas that came while the log was read want the next look at it.
                () = std::future::ready(()), if !self.during.is_empty() => {}
                wakeup = wakeups.recv() => must_read = reports_events(&wakeup),
                live = self.live.recv() => self.take_live(live),
                () = self.board.wake.notified() => {}
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
            if self.board.rest() {
                return;
            }
        }
    }

    /// Takes the live events that have come.
    fn drain_live(&mut self) {
        while let Some(live) = self.live.try_recv() {
            self.take_live(live);
        }
    }

    fn take_live(&mut self, live: Result<Message, Lagged>) {
        match live {
            Ok(Message::Live(event)) => self.during.extend(QueuedDelta::of(&self.board, &event)),
            Ok(_) => {}
            Err(Lagged { missed }) => self.dropped += missed,
        }
    }

    /// Delivers all events after the position.
    async fn read(&mut self) -> Result<(), QueryError> {
        loop {
            let page = query::event_log::tail(self.engine.store(), self.pos, PAGE).await?;
            let runs = self.topics_of(&page.entries).await?;
            // Among what came meanwhile are deltas that precede these events.
            self.drain_live();
            for entry in &page.entries {
                // A run that was removed meanwhile has no topics.
                let Some(topics) = runs.get(&entry.run) else {
                    continue;
                };
                topics.observe_epoch(entry.epoch);
                self.deliver_preceding(entry, topics);
                self.board.hand(&topics.topics, |topic| {
                    let kind = topic.cursor_kind();
                    let (at, end) = (kind.place_of(entry), terminal_status(&entry.kind));
                    Frame {
                        bytes: encode::event(self.generation, entry, kind),
                        what: What::Event { at, epoch: entry.epoch, end },
                    }
                });
                if self.board.viewers() > YIELD_ABOVE_SUBSCRIBERS {
                    // So that they can take it before the next one comes.
                    tokio::task::yield_now().await;
                }
            }
            self.pos = page.next;
            if !page.more {
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
            self.board.hand_same(&delta.topics.topics, &delta.frame);
        }
    }

    fn report_dropped(&mut self) {
        if self.dropped > 0 {
            self.board.lost(std::mem::take(&mut self.dropped));
        }
    }

    /// Returns the topics of the runs of these events.
    async fn topics_of(
        &self,
        entries: &[LogEntry],
    ) -> Result<HashMap<RunId, Arc<RunTopics>>, QueryError> {
        let mut known = HashMap::new();
        let mut unknown = Vec::new();
        {
            let mut runs = self.board.runs.lock().unwrap_or_else(PoisonError::into_inner);
            for entry in entries {
                if known.contains_key(&entry.run) || unknown.contains(&entry.run) {
                    continue;
                }
                match runs.get(entry.run) {
                    Some(topics) => drop(known.insert(entry.run, topics)),
                    None => unknown.push(entry.run),
                }
            }
        }
        if unknown.is_empty() {
            return Ok(known);
        }
        let found = query::event_log::places_of(self.engine.store(), unknown).await?;
        let mut runs = self.board.runs.lock().unwrap_or_else(PoisonError::into_inner);
        for (run, place) in found {
            known.insert(run, runs.put(run, &place));
        }
        Ok(known)
    }
}

fn reports_events(wakeup: &Result<Message, Lagged>) -> bool {
    matches!(wakeup, Ok(Message::Wakeup(Wakeup::Events(_))) | Err(Lagged { .. }))
}

/// Takes all wake-ups that have come: reading the log once answers all of them.
fn drain(wakeups: &mut Subscription) -> bool {
    let mut must_read = false;
    while let Some(wakeup) = wakeups.try_recv() {
        must_read |= reports_events(&wakeup);
    }
    must_read
}
