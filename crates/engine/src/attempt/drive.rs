//! Drives a run: polls it, forwards its events, and handles signals and timeouts.

use std::collections::HashSet;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use futures::StreamExt;
use provost_agent::{RunBuilder, RunHandle, RunOutcome, RunStream};
use provost_core::recovery::OutcomeCode;
use provost_core::{Event, EventKind};
use tokio::time::{Instant, Sleep};

use super::{AttemptSignal, RunningAttempt};
use crate::attempt::outcome::AttemptOutcome;
use crate::attempt::timeouts::AgentTimeouts;
use crate::child;
use crate::journal::RunJournal;
use crate::options::EngineOptions;

/// Sleep time of the timer if no timeout is set.
const ALARM_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Events that are forwarded before signals and timeouts are checked again.
const EVENTS_IN_A_ROW: usize = 32;

/// Result of driving a run.
pub(super) enum Driven {
    /// The run finished or parked.
    Ended(Box<Result<RunOutcome, provost_agent::Error>>),
    /// The run stopped at a step boundary, because the worker stops.
    Boundary,
    /// A timeout stopped the run. Its unfinished work is not written.
    Stopped(AttemptOutcome),
    /// Another attempt has the run.
    GivenUp,
}

/// Timeouts of one attempt and its observed activity.
pub(super) struct Watch {
    attempt: Option<Duration>,
    silence: Option<Duration>,
    grace: Duration,
    /// Deadline of the attempt.
    over_at: Option<Instant>,
    /// End of the grace period after a stop signal.
    stopped_at: Option<Instant>,
    last_sign: Instant,
    asks_model: bool,
    tools: HashSet<String>,
}

/// Timeout that has expired.
enum RanOut {
    Attempt,
    Silence,
    Grace,
}

impl Watch {
    pub(super) fn new(clocks: AgentTimeouts, options: &EngineOptions) -> Self {
        let now = Instant::now();
        let attempt = clocks.attempt(options);
        Self {
            attempt,
            silence: clocks.idle(options),
            grace: options.grace,
            over_at: attempt.and_then(|time| now.checked_add(time)),
            stopped_at: None,
            last_sign: now,
            asks_model: false,
            tools: HashSet::new(),
        }
    }

    /// Records an event as activity.
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

    /// Returns the timeout that expires first, with its time. The idle timeout is suspended while a tool runs,
    /// because tools have timeouts of their own.
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

    /// Returns the outcome of an attempt whose timeout has expired: it blames the operation that the attempt waited
    /// for.
    fn verdict(&self, ran_out: &RanOut) -> AttemptOutcome {
        let time = match ran_out {
            RanOut::Grace => return AttemptOutcome::Cancelled,
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
        AttemptOutcome::failed(code, format!("{what} {how} {} s", time.as_secs_f64()))
    }
}

/// One timer for all timeouts of an attempt. Timeouts mostly move later, so the timer is reset only when it fires too
/// early or when a timeout has moved earlier.
struct Alarm(Pin<Box<Sleep>>);

impl Alarm {
    fn new() -> Self {
        Self(Box::pin(tokio::time::sleep_until(Instant::now() + ALARM_MAX)))
    }

    /// Waits until a timeout has expired.
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

/// Polls the run, forwards its events, and handles signals and timeouts.
pub(super) async fn drive(
    builder: RunBuilder,
    live: &RunningAttempt,
    journal: &RunJournal,
    mut watch: Watch,
) -> Driven {
    let mut signal = live.signal.subscribe();
    let mut stream = builder.stream();
    let handle: RunHandle = stream.handle();
    // Declared after the stream, so that it is dropped first: a dropped run ends its conversation as if it was
    // cancelled, and that must not be written.
    let _closes = journal.close_on_drop();
    // A signal that was sent before the subscription counts too.
    signal.mark_changed();
    let mut alarm = Alarm::new();
    let mut in_a_row = 0;
    let stopped = loop {
        // Events arrive in bursts. Checking signals and timeouts before each of them would cost more than the event
        // itself.
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
                AttemptSignal::Abandon => break Driven::GivenUp,
                AttemptSignal::Stop => {
                    watch.told_to_stop();
                    handle.resume();
                    handle.cancel();
                }
                AttemptSignal::Drain => handle.pause(),
                AttemptSignal::Continue => {}
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

/// Forwards an event to live viewers. Returns true if the run has reached a step boundary with it.
fn pass_on(event: Event, live: &RunningAttempt, watch: &mut Watch) -> bool {
    watch.see(&event.kind);
    let at_boundary = matches!(event.kind, EventKind::Paused);
    if let Some(event) = child::join::for_people(event) {
        live.events.publish(event);
    }
    at_boundary
}

/// Waits for the tools of a run whose journal is closed, at most for the grace period. Until then, this process must
/// not start the run again.
async fn unwind(mut stream: RunStream, handle: &RunHandle, grace: Duration) {
    handle.resume();
    handle.cancel();
    let ends = async { while stream.next().await.is_some() {} };
    if tokio::time::timeout(grace, ends).await.is_err() {
        tracing::warn!("a run did not stop in time and is dropped");
    }
}
