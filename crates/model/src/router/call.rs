//! One call over a route: chooses, waits, asks, and asks somebody else while nothing was given out.
//!
//! A hand-written stream and not a task: dropping it drops the attempt that is under way, and nothing runs on.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::Stream;
use futures::future::BoxFuture;
use serde_json::json;
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout};

use super::choose::{Choice, Standing, choose};
use super::ticket::{Estimate, Ticket};
use super::trail::Trail;
use super::{Delivery, ROUTE, Shared};
use crate::router::react::{Fault, fault};
use crate::{ChatRequest, ModelError, ModelErrorClass, ModelEvent, ModelStream};

/// The stream of one call.
pub(super) struct Call {
    plan: Option<Box<Plan>>,
    state: State,
    /// What is to be given out, last one first.
    queue: Vec<ModelEvent>,
    failure: Option<ModelError>,
}

/// What stays the same for all attempts, and what was learned from those so far.
struct Plan {
    shared: Arc<Shared>,
    request: ChatRequest,
    trail: Trail,
    estimates: Vec<Option<Estimate>>,
    last: Option<ModelError>,
}

enum State {
    Start,
    /// Finding somebody to ask.
    Opening(BoxFuture<'static, Result<Opened, (Box<Plan>, ModelError)>>),
    Reading(Box<Reading>),
    Done,
}

struct Opened {
    plan: Box<Plan>,
    reading: Box<Reading>,
}

struct Reading {
    stream: ModelStream,
    ticket: Ticket,
    /// When the first word or the whole answer must be there.
    alarm: Option<Pin<Box<Sleep>>>,
    /// True if the alarm is for the first word.
    alarm_is_first: bool,
    /// True once something was given out that cannot be taken back.
    delivered: bool,
    /// What is kept back until the answer is whole.
    kept: Vec<ModelEvent>,
}

impl Call {
    pub(super) fn new(shared: Arc<Shared>, mut request: ChatRequest) -> Self {
        let now = Instant::now();
        let total = shared.total.and_then(|total| now.checked_add(total));
        request.deadline = request.deadline.into_iter().chain(total).min();
        let lanes = shared.places.iter().map(|place| place.lanes.len()).sum();
        let trail = Trail::new(lanes, &shared.retry, now);
        let estimates = vec![None; shared.places.len()];
        let plan = Box::new(Plan { shared, request, trail, estimates, last: None });
        Self { plan: Some(plan), state: State::Start, queue: Vec::new(), failure: None }
    }

    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let State::Opening(opening) = &mut self.state else { return Poll::Ready(()) };
        self.state = match ready!(opening.as_mut().poll(cx)) {
            Ok(Opened { plan, reading }) => {
                self.queue.push(plan.told(&reading.ticket));
                self.plan = Some(plan);
                State::Reading(reading)
            }
            Err((_, error)) => {
                self.failure = Some(error);
                State::Done
            }
        };
        Poll::Ready(())
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let State::Reading(reading) = &mut self.state else { return Poll::Ready(()) };
        let whole = self.plan.as_ref().map(|plan| plan.shared.delivery) == Some(Delivery::Whole);
        let error = match reading.poll_event(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Some(Ok(event))) => {
                reading.ticket.see(&event);
                let is_delta = is_delta(&event);
                if is_delta {
                    reading.heard();
                }
                if whole && !reading.ticket.is_answered() {
                    reading.kept.push(event);
                    return Poll::Ready(());
                }
                reading.delivered |= is_delta;
                self.queue.push(event);
                if !reading.kept.is_empty() {
                    self.queue.extend(std::mem::take(&mut reading.kept).into_iter().rev());
                }
                return Poll::Ready(());
            }
            Poll::Ready(None) if reading.ticket.is_answered() => {
                self.state = State::Done;
                return Poll::Ready(());
            }
            Poll::Ready(None) => crate::wire::incomplete(),
            Poll::Ready(Some(Err(error))) => error,
        };
        self.fail(error);
        Poll::Ready(())
    }

    /// An attempt failed: somebody else is asked, or the same again, unless something was given out already.
    #[cold]
    fn fail(&mut self, error: ModelError) {
        let State::Reading(reading) = std::mem::replace(&mut self.state, State::Done) else {
            return;
        };
        if reading.ticket.is_answered() {
            // The answer is whole; what broke is only what follows it.
            return;
        }
        let (Some(mut plan), delivered) = (self.plan.take(), reading.delivered) else { return };
        let place = (reading.ticket.endpoint, reading.ticket.lane);
        reading.ticket.failed(&error);
        if delivered {
            self.failure = Some(error);
            return;
        }
        match plan.after(place, error) {
            Ok(retry) => {
                self.queue.clear();
                self.queue.push(retry);
                self.state = State::Opening(Box::pin(open(plan)));
            }
            Err(error) => self.failure = Some(error),
        }
    }
}

impl Stream for Call {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let call = &mut *self;
        loop {
            if let Some(event) = call.queue.pop() {
                return Poll::Ready(Some(Ok(event)));
            }
            match &mut call.state {
                State::Start => match call.plan.take() {
                    Some(plan) => call.state = State::Opening(Box::pin(open(plan))),
                    None => call.state = State::Done,
                },
                State::Opening(_) => ready!(call.poll_open(cx)),
                State::Reading(_) => ready!(call.poll_read(cx)),
                State::Done => return Poll::Ready(call.failure.take().map(Err)),
            }
        }
    }
}

impl Reading {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<ModelEvent, ModelError>>> {
        if let Poll::Ready(event) = self.stream.as_mut().poll_next(cx) {
            return Poll::Ready(event);
        }
        let Some(alarm) = &mut self.alarm else { return Poll::Pending };
        ready!(alarm.as_mut().poll(cx));
        self.alarm = None;
        let problem = match self.alarm_is_first {
            true => "the endpoint did not begin to answer in the time that the route gives it",
            false => "the deadline of the model call passed",
        };
        Poll::Ready(Some(Err(ModelError::new(ModelErrorClass::Timeout, problem))))
    }

    /// The first word is there.
    fn heard(&mut self) {
        if self.alarm_is_first {
            (self.alarm, self.alarm_is_first) = (None, false);
        }
    }
}

/// Finds somebody to ask, waits if nobody can be asked now, sets money aside and begins.
async fn open(mut plan: Box<Plan>) -> Result<Opened, (Box<Plan>, ModelError)> {
    loop {
        plan.trail.now = Instant::now();
        let standings = plan.standings();
        if plan.left().is_some_and(|left| left.is_zero()) {
            let error = plan.refusal(&standings, None);
            return Err((plan, error));
        }
        let ticket = match choose(&standings, plan.patience()) {
            Choice::Go { endpoint, lane } => plan.enter(endpoint, lane),
            Choice::Wait { endpoint, queue: Some(lane), wait } => {
                match plan.queue(endpoint, lane).await {
                    Some(ticket) => ticket,
                    None => {
                        let error = plan.refusal(&standings, Some(wait));
                        return Err((plan, error));
                    }
                }
            }
            Choice::Wait { wait, queue: None, .. } => {
                sleep(wait).await;
                None
            }
            Choice::Refuse { soonest } => {
                let error = plan.refusal(&standings, soonest);
                return Err((plan, error));
            }
        };
        let Some(mut ticket) = ticket else { continue };
        if let Err(error) = ticket.pay(&plan.request).await {
            plan.refused(&ticket, error);
            continue;
        }
        let reading = plan.begin(ticket);
        return Ok(Opened { plan, reading });
    }
}

impl Plan {
    fn standings(&mut self) -> Vec<Standing> {
        let mut first = 0;
        let mut standings = Vec::with_capacity(self.estimates.len());
        for endpoint in 0..self.estimates.len() {
            let tokens = self.estimate(endpoint).total;
            let place = &self.shared.places[endpoint];
            standings.push(place.standing(&self.trail, first, tokens));
            first += place.lanes.len();
            if matches!(standings.last(), Some(Standing::Ready { .. })) {
                break;
            }
        }
        standings
    }

    fn estimate(&mut self, endpoint: usize) -> Estimate {
        let (shared, request) = (&self.shared, &self.request);
        *self.estimates[endpoint].get_or_insert_with(|| Estimate::of(shared, endpoint, request))
    }

    /// How long it makes sense to wait.
    fn patience(&self) -> Duration {
        let left = self.left().unwrap_or(Duration::MAX);
        // What begins when the deadline is there is in vain.
        left.saturating_sub(Duration::from_millis(1)).min(self.shared.wait_max)
    }

    fn left(&self) -> Option<Duration> {
        self.request.deadline.map(|end| end.saturating_duration_since(self.trail.now))
    }

    /// Goes in where there is room; another may have been faster.
    fn enter(&mut self, endpoint: usize, lane: usize) -> Option<Ticket> {
        let estimate = self.estimate(endpoint);
        let place = &self.shared.places[endpoint];
        let taken = place.lanes[lane].gate.take(estimate.total, self.trail.now).ok()?;
        let Some(pass) = place.admit(lane, self.trail.now) else {
            place.lanes[lane].gate.correct(taken, 0);
            return None;
        };
        let shared = Arc::clone(&self.shared);
        Some(Ticket::new(shared, (endpoint, lane), pass, taken, estimate))
    }

    /// Waits for room within the limits of a credential; nothing if there was none in time.
    async fn queue(&mut self, endpoint: usize, lane: usize) -> Option<Option<Ticket>> {
        let estimate = self.estimate(endpoint);
        let shared = Arc::clone(&self.shared);
        let gate = &shared.places[endpoint].lanes[lane].gate;
        let taken = timeout(self.patience(), gate.wait(estimate.total)).await.ok()?.ok()?;
        self.trail.now = Instant::now();
        let Some(pass) = shared.places[endpoint].admit(lane, self.trail.now) else {
            gate.correct(taken, 0);
            return Some(None);
        };
        Some(Some(Ticket::new(Arc::clone(&shared), (endpoint, lane), pass, taken, estimate)))
    }

    fn begin(&mut self, mut ticket: Ticket) -> Box<Reading> {
        let place = &self.shared.places[ticket.endpoint];
        let lane = &place.lanes[ticket.lane];
        self.trail.ask(self.shared.lanes(ticket.endpoint).start + ticket.lane);
        tracing::debug!(
            endpoint = &*place.name,
            credential = &*lane.label,
            attempt = self.trail.failures() + 1,
            "a route asks"
        );
        let first = place.first_token.and_then(|time| self.trail.now.checked_add(time));
        let until = first.into_iter().chain(self.request.deadline).min();
        let alarm = until.map(|until| Box::pin(sleep_until(until)));
        let alarm_is_first = until.is_some() && until == first;
        ticket.sent();
        let stream = lane.model.stream(self.request.clone());
        let (delivered, kept) = (false, Vec::new());
        Box::new(Reading { stream, ticket, alarm, alarm_is_first, delivered, kept })
    }

    /// No money for this endpoint; another may be cheaper.
    fn refused(&mut self, ticket: &Ticket, error: ModelError) {
        let endpoint = ticket.endpoint;
        self.trail.tell(self.name(endpoint, ticket.lane), "budget");
        self.trail.rule_out(self.shared.lanes(endpoint));
        self.last = Some(error);
    }

    /// What happens after a failure: the event that tells of it, or the error if it is the end.
    fn after(
        &mut self,
        (endpoint, lane): (usize, usize),
        error: ModelError,
    ) -> Result<ModelEvent, ModelError> {
        self.trail.now = Instant::now();
        self.trail.tell(self.name(endpoint, lane), error.class.as_str());
        let shared = Arc::clone(&self.shared);
        let lanes = shared.lanes(endpoint);
        let chance = shared.env.random_unit();
        let again = shared.retry.decide(&error, self.trail.repeats(), self.left(), chance);
        self.trail.failed((lanes.clone(), lanes.start + lane), &error, again);
        let falls_back = shared.fallback.falls_back(&error);
        for other in (0..shared.places.len()).filter(|other| *other != endpoint) {
            if !falls_back || (fault(&error) == Fault::Length && !self.is_longer(other, endpoint)) {
                self.trail.rule_out(shared.lanes(other));
            }
        }
        if fault(&error) == Fault::Length || !falls_back && again.is_none() {
            self.trail.rule_out(lanes);
        }
        self.last = Some(error.clone());
        let standings = self.standings();
        let delay = match choose(&standings, self.patience()) {
            Choice::Go { .. } => Duration::ZERO,
            Choice::Wait { wait, .. } => wait,
            Choice::Refuse { soonest } => return Err(self.refusal(&standings, soonest)),
        };
        let attempt = self.trail.failures();
        tracing::debug!(
            attempt,
            endpoint = &*shared.places[endpoint].name,
            error.class = error.class.as_str(),
            delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
            "a route goes on after a failure"
        );
        Ok(ModelEvent::Retry { attempt, delay, error })
    }

    fn is_longer(&self, endpoint: usize, than: usize) -> bool {
        let window = |endpoint: usize| self.shared.places[endpoint].info.context_window;
        window(endpoint).zip(window(than)).is_some_and(|(one, other)| one > other)
    }

    /// The error of a call for which nobody is left: the last one, with all that was tried.
    fn refusal(&mut self, standings: &[Standing], soonest: Option<Duration>) -> ModelError {
        if self.left().is_some_and(|left| left.is_zero()) && self.last.is_none() {
            let problem = "the deadline of the model call passed before anybody could be asked";
            return ModelError::new(ModelErrorClass::Timeout, problem);
        }
        if let Some(mut error) = self.last.take() {
            if self.trail.failures() > 1 || self.shared.places.len() > 1 {
                error.message = format!("{} (asked {})", error.message, self.trail.words());
            }
            return error;
        }
        let mut class = ModelErrorClass::Overloaded;
        let mut reasons = Vec::new();
        for (place, standing) in self.shared.places.iter().zip(standings).rev() {
            let (why, wait) = match standing {
                Standing::Ready { .. } => continue,
                Standing::Later { why, wait, .. } => (why, format!(" for {wait:.1?}")),
                Standing::Never(why) => (why, String::new()),
            };
            class = why.class();
            reasons.insert(0, format!("{} {}{wait}", place.name, why.words()));
        }
        let problem =
            format!("nobody can be asked now: {}; wait or add an endpoint", reasons.join(", "));
        let mut error = ModelError::new(class, problem);
        error.retry_after = soonest;
        error
    }

    fn name(&self, endpoint: usize, lane: usize) -> String {
        let place = &self.shared.places[endpoint];
        match place.lanes.len() {
            1 => place.name.to_string(),
            _ => format!("{}/{}", place.name, place.lanes[lane].label),
        }
    }

    /// Which endpoint answers, and who failed before.
    fn told(&self, ticket: &Ticket) -> ModelEvent {
        let place = &self.shared.places[ticket.endpoint];
        let mut route = json!({
            "endpoint": &*place.name,
            "credential": &*place.lanes[ticket.lane].label,
            "provider": place.info.provider,
            "model": place.info.model,
        });
        if self.trail.failures() > 0 {
            route["before"] = self.trail.data();
        }
        ModelEvent::Metadata(ROUTE.to_owned(), route)
    }
}

fn is_delta(event: &ModelEvent) -> bool {
    !matches!(
        event,
        ModelEvent::Started { .. }
            | ModelEvent::Usage(_)
            | ModelEvent::Metadata(..)
            | ModelEvent::Retry { .. }
    )
}
