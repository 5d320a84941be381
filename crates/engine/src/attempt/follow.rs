//! Watching a run live: every event of the attempt that is under way in this process, from its beginning.
//!
//! This is a view and not the truth: another process may have the run, and then only its durable events can be read.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use provost_bus::{LiveEvent, LivePlace, Topic};
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RunPhase;
use provost_core::{Event, EventKind, RunId};
use tokio::sync::broadcast;
use tokio::time::Instant;

use crate::attempt::Live;
use crate::attempt::live_events::{Draft, Tap};
use crate::engine::{Engine, Shared};
use crate::error::EngineError;
use crate::run::Runs;
use crate::run::lifecycle::word;

/// Events of an attempt that are kept for those who come late.
const KEPT_MAX: usize = 4096;
/// Events that a slow watcher may be behind by before it is told so.
const BEHIND_MAX: usize = 1024;

/// The events of one attempt.
pub(crate) struct Show {
    shown: Mutex<Shown>,
    place: Arc<LivePlace>,
    tap: Arc<Tap>,
}

#[derive(Default)]
struct Shown {
    kept: VecDeque<Event>,
    /// How many there were before those that are kept.
    dropped: u64,
    /// Made for the first watcher: its room is large, and most runs have none.
    sender: Option<broadcast::Sender<Event>>,
    /// When the model was asked that has not said anything yet.
    asked: Option<Instant>,
}

impl Show {
    pub(crate) fn new(place: LivePlace, tap: Arc<Tap>) -> Self {
        Self { shown: Mutex::default(), place: Arc::new(place), tap }
    }

    pub(crate) fn publish(&self, event: Event) {
        if !self.tap.is_wanted() {
            self.keep(event);
            return;
        }
        let number = self.keep(event.clone());
        self.tap.send(LiveEvent { place: Arc::clone(&self.place), number, event });
    }

    /// Keeps an event and passes it on to those who follow; returns its number.
    fn keep(&self, event: Event) -> u64 {
        let mut shown = self.lock();
        self.time(&mut shown, &event);
        if shown.kept.len() == KEPT_MAX {
            shown.kept.pop_front();
            shown.dropped += 1;
        }
        let number = shown.dropped + shown.kept.len() as u64;
        // Under the lock, so that whoever joins gets each event once. Nobody may be watching any more.
        if let Some(sender) = &shown.sender {
            drop(sender.send(event.clone()));
        }
        shown.kept.push_back(event);
        number
    }

    /// Takes the time until a model says something.
    fn time(&self, shown: &mut Shown, event: &Event) {
        match event.kind {
            _ if event.run_id != self.place.run => {}
            EventKind::TurnStarted { .. } => shown.asked = Some(Instant::now()),
            EventKind::TextDelta { .. }
            | EventKind::ReasoningDelta { .. }
            | EventKind::ToolCallDelta { .. } => {
                if let Some(asked) = shown.asked.take() {
                    self.tap.pulse.first_token(asked.elapsed());
                }
            }
            EventKind::TurnFinished { .. } => shown.asked = None,
            _ => {}
        }
    }

    /// Counts that a write of the attempt was refused: somebody else has its run.
    pub(crate) fn fenced(&self) {
        self.tap.pulse.fenced();
    }

    pub(crate) fn draft(&self) -> Draft {
        let shown = self.lock();
        Draft::of(&self.place, &shown.kept, shown.dropped)
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

/// A watcher of one run.
pub struct Follow {
    shared: Arc<Shared>,
    namespace: Namespace,
    run: RunId,
    epoch: u64,
    kept: VecDeque<Event>,
    live: Option<(Arc<Live>, broadcast::Receiver<Event>)>,
}

impl Runs<'_> {
    /// Watches a run, through all its attempts in this process.
    pub fn follow(self, namespace: &Namespace, run: RunId) -> Follow {
        Follow {
            shared: Arc::clone(&self.engine.shared),
            namespace: namespace.clone(),
            run,
            epoch: 0,
            kept: VecDeque::new(),
            live: None,
        }
    }
}

impl Follow {
    /// The epoch of the attempt that is watched or was watched last; zero before the first.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The next event; `None` once the run has ended or waits for somebody.
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
                        // A slow watcher misses some; what ends something carries the whole of it.
                        Err(broadcast::error::RecvError::Lagged(_)) => {}
                        Err(broadcast::error::RecvError::Closed) => self.leave(),
                    },
                    () = live.ended() => self.leave(),
                }
                continue;
            }
            if self.enter() {
                continue;
            }
            let engine = Engine { shared: Arc::clone(&self.shared) };
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

    /// Joins the attempt that is under way, if it is not the one that was watched last.
    fn enter(&mut self) -> bool {
        let live = self.shared.live().get(&self.run).cloned();
        let Some(live) = live.filter(|live| live.lease.epoch > self.epoch) else { return false };
        let (kept, events) = live.show.join();
        self.epoch = live.lease.epoch;
        self.kept = kept;
        self.live = Some((live, events));
        true
    }

    /// The attempt is over; what it said last is still told.
    fn leave(&mut self) {
        if let Some((_, mut events)) = self.live.take() {
            while let Ok(event) = events.try_recv() {
                self.kept.push_back(event);
            }
        }
    }
}
