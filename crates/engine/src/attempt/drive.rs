//! Polling a run: its events are passed on, signals and clocks are heeded.

use std::collections::HashSet;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use futures::StreamExt;
use provost_agent::{Outcome, RunBuilder, RunHandle, RunStream};
use provost_core::recovery::OutcomeCode;
use provost_core::{Event, EventKind};
use tokio::time::{Instant, Sleep};

use super::{Live, Signal};
use crate::attempt::outcome::Verdict;
use crate::attempt::timeouts::Clocks;
use crate::child;
use crate::journal::RunJournal;
use crate::options::EngineOptions;

/// How long the timer of an attempt sleeps if no clock is set.
const ALARM_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Events that are passed on before signals and clocks are looked at again.
const EVENTS_IN_A_ROW: usize = 32;

/// How driving a run ended.
pub(super) enum Driven {
    /// By itself.
    Ended(Box<Result<Outcome, provost_agent::Error>>),
    /// At a boundary, because the worker stops.
    Boundary,
    /// By force; nothing of what it was doing then is written.
    Stopped(Verdict),
    /// The run belongs to somebody else now.
    GivenUp,
}

/// The clocks of one attempt, and what it was last seen doing.
pub(super) struct Watch {
    attempt: Option<Duration>,
    silence: Option<Duration>,
    grace: Duration,
    /// When it must be over.
    over_at: Option<Instant>,
    /// When it must have stopped, once it was told to.
    stopped_at: Option<Instant>,
    last_sign: Instant,
    asks_model: bool,
    tools: HashSet<String>,
}

/// Which clock has run out.
enum RanOut {
    Attempt,
    Silence,
    Grace,
}

impl Watch {
    pub(super) fn new(clocks: Clocks, options: &EngineOptions) -> Self {
        let now = Instant::now();
        let attempt = clocks.attempt(options);
        Self {
            attempt,
            silence: clocks.silence(options),
            grace: options.grace,
            over_at: attempt.and_then(|time| now.checked_add(time)),
            stopped_at: None,
            last_sign: now,
            asks_model: false,
            tools: HashSet::new(),
        }
    }

    /// Notes a sign of life.
    fn see(&mut self, kind: &EventKind) {
        self.last_sign = Instant::now();
        match kind {
            EventKind::TurnStarted { .. } => self.asks_model = true,
            EventKind::TurnFinished { .. } => self.asks_model = false,
            EventKind::ToolStarted { call_id, .. } => drop(self.tools.insert(call_id.clone())),
            EventKind::ToolFinished { result, .. } => drop(self.tools.remove(&result.call_id)),
            _ => {}
        }
    }

    fn told_to_stop(&mut self) {
        let end = Instant::now().checked_add(self.grace);
        self.stopped_at = self.stopped_at.or(end);
    }

    /// The clock that runs out first, and when. While a tool runs, silence is its own affair: it has a time of its own.
    fn next(&self) -> Option<(Instant, RanOut)> {
        let silent_at = match (self.silence, self.tools.is_empty()) {
            (Some(silence), true) => self.last_sign.checked_add(silence),
            _ => None,
        };
        let clocks = [
            (self.stopped_at, RanOut::Grace),
            (self.over_at, RanOut::Attempt),
            (silent_at, RanOut::Silence),
        ];
        let set = clocks.into_iter().filter_map(|(at, what)| Some((at?, what)));
        set.min_by_key(|(at, _)| *at)
    }

    /// What an attempt comes to whose clock has run out: whatever it was waiting for has taken too long.
    fn verdict(&self, ran_out: &RanOut) -> Verdict {
        let time = match ran_out {
            RanOut::Grace => return Verdict::Cancelled,
            RanOut::Attempt => self.attempt.unwrap_or_default(),
            RanOut::Silence => self.silence.unwrap_or_default(),
        };
        let (code, what) = match (self.tools.is_empty(), self.asks_model) {
            (false, _) => (OutcomeCode::ToolTimeout, "a tool"),
            (true, true) => (OutcomeCode::ProviderOverloaded, "the model"),
            (true, false) => (OutcomeCode::Internal, "the agent"),
        };
        let how = match ran_out {
            RanOut::Silence => "said nothing for",
            RanOut::Attempt | RanOut::Grace => "was not done within the attempt's",
        };
        Verdict::failed(code, format!("{what} {how} {} s", time.as_secs_f64()))
    }
}

/// One timer for all clocks of an attempt. Clocks mostly move away from it, so it is set anew only when it fires too early, or
/// when a clock has come nearer.
struct Alarm(Pin<Box<Sleep>>);

impl Alarm {
    fn new() -> Self {
        Self(Box::pin(tokio::time::sleep_until(Instant::now() + ALARM_MAX)))
    }

    /// Waits until a clock has run out.
    async fn rings(&mut self, watch: &Watch) -> RanOut {
        loop {
            let next = watch.next();
            let at = next.as_ref().map_or_else(|| Instant::now() + ALARM_MAX, |(at, _)| *at);
            if at < self.0.deadline() {
                self.0.as_mut().reset(at);
            }
            self.0.as_mut().await;
            match next {
                Some((at, what)) if at <= Instant::now() => return what,
                _ => self.0.as_mut().reset(at),
            }
        }
    }
}

/// Polls the run, passes its events on, and heeds signals and clocks.
pub(super) async fn drive(
    builder: RunBuilder,
    live: &Live,
    journal: &RunJournal,
    mut watch: Watch,
) -> Driven {
    let mut signal = live.signal.subscribe();
    let mut stream = builder.stream();
    let handle: RunHandle = stream.handle();
    // After the stream, so that it goes first: a run that is dropped closes its conversation as if it was cancelled, and
    // nobody must read that.
    let _closes = journal.closing();
    // What was said before anybody listened counts.
    signal.mark_changed();
    let mut alarm = Alarm::new();
    let mut in_a_row = 0;
    let stopped = loop {
        // Events come in crowds: to ask for signals and clocks before each of them would cost more than the event.
        if in_a_row < EVENTS_IN_A_ROW
            && !signal.has_changed().unwrap_or(true)
            && let Poll::Ready(Some(event)) = futures::poll!(stream.next())
        {
            in_a_row += 1;
            if pass_on(event, live, &mut watch) {
                break Driven::Boundary;
            }
            continue;
        }
        in_a_row = 0;
        tokio::select! {
            biased;
            changed = signal.changed() => match *signal.borrow_and_update() {
                _ if changed.is_err() => break Driven::GivenUp,
                Signal::Abandon => break Driven::GivenUp,
                Signal::Stop => {
                    watch.told_to_stop();
                    handle.unpause();
                    handle.cancel();
                }
                Signal::Drain => handle.pause(),
                Signal::Work => {}
            },
            event = stream.next() => match event {
                Some(event) => {
                    if pass_on(event, live, &mut watch) {
                        break Driven::Boundary;
                    }
                }
                None => return Driven::Ended(Box::new(stream.outcome().await)),
            },
            ran_out = alarm.rings(&watch) => break Driven::Stopped(watch.verdict(&ran_out)),
        }
    };
    journal.close();
    unwind(stream, &handle, watch.grace).await;
    stopped
}

/// Passes an event on to those who watch; true if the run has come to a boundary with it.
fn pass_on(event: Event, live: &Live, watch: &mut Watch) -> bool {
    watch.see(&event.kind);
    let at_boundary = matches!(event.kind, EventKind::Paused);
    if let Some(event) = child::join::for_people(event) {
        live.show.publish(event);
    }
    at_boundary
}

/// Lets go of a run whose journal is closed: until its tools have stopped, nobody here may begin it again.
async fn unwind(mut stream: RunStream, handle: &RunHandle, grace: Duration) {
    handle.unpause();
    handle.cancel();
    let ends = async { while stream.next().await.is_some() {} };
    if tokio::time::timeout(grace, ends).await.is_err() {
        tracing::warn!("a run did not stop in time and is dropped");
    }
}
