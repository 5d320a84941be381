//! Drives a run: polls it, forwards its events, and handles signals and timeouts.

use std::collections::HashSet;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use futures::StreamExt;
use provost_agent::{RunBuilder, RunHandle, RunOutcome, RunStream};
use provost_core::recovery::OutcomeCode;
use provost_core::resource::AgentTimeouts;
use provost_core::{Event, EventKind};
use tokio::time::{Instant, Sleep};

use super::{AttemptSignal, RunningAttempt};
use crate::attempt::outcome::AttemptOutcome;
use crate::child;
use crate::journal::RunJournal;
use crate::options::EngineOptions;

/// Sleep time of the timer if no timeout is set.
const TIMER_SLEEP_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Events that are forwarded before signals and timeouts are checked again.
const EVENTS_PER_CHECK_MAX: usize = 32;

/// Result of driving a run.
pub(super) enum DriveResult {
    /// The run finished or parked.
    Ended(Box<Result<RunOutcome, provost_agent::Error>>),
    /// The run stopped at a step boundary, because the worker stops.
    Boundary,
    /// A timeout stopped the run, or the grace period after a stop signal ended. Its unfinished work is not written.
    TimedOut(AttemptOutcome),
    /// Another attempt has the run.
    Abandoned,
}

/// Timeouts of one attempt and its observed activity.
pub(super) struct AttemptTimers {
    attempt: Option<Duration>,
    idle: Option<Duration>,
    grace: Duration,
    /// Deadline of the attempt.
    attempt_deadline: Option<Instant>,
    /// End of the grace period after a stop signal.
    grace_deadline: Option<Instant>,
    last_activity: Instant,
    is_model_active: bool,
    tools: HashSet<String>,
}

/// Timeout of an attempt that has expired.
enum TimeoutKind {
    Attempt,
    Idle,
    Grace,
}

impl AttemptTimers {
    /// Starts the timers of an attempt.
    pub(super) fn new(timeouts: AgentTimeouts, options: &EngineOptions) -> Self {
        let now = Instant::now();
        let attempt = timeouts.attempt(options.attempt_timeout);
        Self {
            attempt,
            idle: timeouts.idle(options.idle_timeout),
            grace: options.grace,
            attempt_deadline: attempt.and_then(|time| now.checked_add(time)),
            grace_deadline: None,
            last_activity: now,
            is_model_active: false,
            tools: HashSet::new(),
        }
    }

    /// Restarts the idle time after an event, and tracks whether the model and which tools are active.
    fn record_activity(&mut self, kind: &EventKind) {
        self.last_activity = Instant::now();
        match kind {
            EventKind::TurnStarted { .. } => self.is_model_active = true,
            EventKind::TurnFinished { .. } => self.is_model_active = false,
            EventKind::ToolStarted { call_id, .. } => drop(self.tools.insert(call_id.clone())),
            EventKind::ToolFinished { result, .. } => drop(self.tools.remove(&result.call_id)),
            _ => {}
        }
    }

    /// Starts the grace period, unless it has started.
    fn start_grace_period(&mut self) {
        let end = Instant::now().checked_add(self.grace);
        self.grace_deadline = self.grace_deadline.or(end);
    }

    /// Returns the timeout that expires first, with its time. `None` if no timeout is set. The idle timeout is
    /// suspended while a tool runs, because tools have timeouts of their own.
    fn next(&self) -> Option<(Instant, TimeoutKind)> {
        let idle_deadline = match (self.idle, self.tools.is_empty()) {
            (Some(idle), true) => self.last_activity.checked_add(idle),
            _ => None,
        };
        let deadlines = [
            (self.grace_deadline, TimeoutKind::Grace),
            (self.attempt_deadline, TimeoutKind::Attempt),
            (idle_deadline, TimeoutKind::Idle),
        ];
        let set = deadlines.into_iter().filter_map(|(at, what)| Some((at?, what)));
        set.min_by_key(|(at, _)| *at)
    }

    /// Returns the outcome of an attempt whose timeout has expired. The grace period cancels; any other timeout fails
    /// with the code of the tool, model or agent that the attempt waited for.
    fn timeout_outcome(&self, timeout: &TimeoutKind) -> AttemptOutcome {
        let time = match timeout {
            TimeoutKind::Grace => return AttemptOutcome::Cancelled,
            TimeoutKind::Attempt => self.attempt.unwrap_or_default(),
            TimeoutKind::Idle => self.idle.unwrap_or_default(),
        };
        let (code, what) = match (self.tools.is_empty(), self.is_model_active) {
            (false, _) => (OutcomeCode::ToolTimeout, "a tool"),
            (true, true) => (OutcomeCode::ProviderOverloaded, "the model"),
            (true, false) => (OutcomeCode::Internal, "the agent"),
        };
        let how = match timeout {
            TimeoutKind::Idle => "produced no event for",
            TimeoutKind::Attempt | TimeoutKind::Grace => "did not finish within the attempt's",
        };
        AttemptOutcome::failed(code, format!("{what} {how} {} s", time.as_secs_f64()))
    }
}

/// One timer for all timeouts of an attempt. Timeouts mostly move later, so the timer is reset only when it fires too
/// early or when a timeout has moved earlier.
struct DeadlineTimer(Pin<Box<Sleep>>);

impl DeadlineTimer {
    /// Creates a timer that fires late, until it is reset.
    fn new() -> Self {
        Self(Box::pin(tokio::time::sleep_until(Instant::now() + TIMER_SLEEP_MAX)))
    }

    /// Waits until a timeout has expired, and returns its kind.
    async fn expired(&mut self, timers: &AttemptTimers) -> TimeoutKind {
        loop {
            let next = timers.next();
            let at = next.as_ref().map_or_else(|| Instant::now() + TIMER_SLEEP_MAX, |(at, _)| *at);
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

/// Polls the run, publishes its events, and handles signals and timeouts. Closes the journal if the run is stopped.
pub(super) async fn drive(
    builder: RunBuilder,
    live: &RunningAttempt,
    journal: &RunJournal,
    mut timers: AttemptTimers,
) -> DriveResult {
    let mut signal = live.signal.subscribe();
    let mut stream = builder.stream();
    let handle: RunHandle = stream.handle();
    // Declared after the stream, so that it is dropped first: a dropped run ends its conversation as if it was
    // cancelled, and that must not be written.
    let _close_guard = journal.close_on_drop();
    // A signal that was sent before the subscription counts too.
    signal.mark_changed();
    let mut deadline_timer = DeadlineTimer::new();
    let mut events_since_check = 0;
    let result = loop {
        // Events arrive in bursts. Checking signals and timeouts before each of them would cost more than the event
        // itself.
        if events_since_check < EVENTS_PER_CHECK_MAX
            && !signal.has_changed().unwrap_or(true)
            && let Poll::Ready(Some(event)) = futures::poll!(stream.next())
        {
            events_since_check += 1;
            if forward(event, live, &mut timers) {
                break DriveResult::Boundary;
            }
            continue;
        }
        events_since_check = 0;
        tokio::select! {
            biased;
            changed = signal.changed() => match *signal.borrow_and_update() {
                _ if changed.is_err() => break DriveResult::Abandoned,
                AttemptSignal::Abandon => break DriveResult::Abandoned,
                AttemptSignal::Stop => {
                    timers.start_grace_period();
                    handle.resume();
                    handle.cancel();
                }
                AttemptSignal::Drain => handle.pause(),
                AttemptSignal::Continue => {}
            },
            event = stream.next() => match event {
                Some(event) => {
                    if forward(event, live, &mut timers) {
                        break DriveResult::Boundary;
                    }
                }
                None => return DriveResult::Ended(Box::new(stream.outcome().await)),
            },
            timeout = deadline_timer.expired(&timers) => break DriveResult::TimedOut(timers.timeout_outcome(&timeout)),
        }
    };
    journal.close();
    cancel_and_wait(stream, &handle, timers.grace).await;
    result
}

/// Publishes an event to live viewers and records the activity. Returns true if the run has reached a step boundary
/// with it.
fn forward(event: Event, live: &RunningAttempt, timers: &mut AttemptTimers) -> bool {
    timers.record_activity(&event.kind);
    let at_boundary = matches!(event.kind, EventKind::Paused);
    if let Some(event) = child::join::hide_internal_waits(event) {
        live.events.publish(event);
    }
    at_boundary
}

/// Cancels a run whose journal is closed and waits until its tools have stopped, at most for the grace period. Until
/// then, this process must not start the run again.
async fn cancel_and_wait(mut stream: RunStream, handle: &RunHandle, grace: Duration) {
    handle.resume();
    handle.cancel();
    let ends = async { while stream.next().await.is_some() {} };
    if tokio::time::timeout(grace, ends).await.is_err() {
        tracing::warn!("a run did not stop in time and is dropped");
    }
}
