//! What one call over a route does next: the moving part between the pure decisions and the stream.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::call::{Opened, Reading};
use super::choose::{Choice, Standing, choose};
use super::react::{Fault, fault};
use super::ticket::{Estimate, Ticket};
use super::trail::Trail;
use super::{Delivery, ROUTE, Shared};
use crate::{ChatRequest, ModelError, ModelErrorClass, ModelEvent};

/// What stays the same for all attempts, and what was learned from those so far.
pub(super) struct Plan {
    shared: Arc<Shared>,
    request: ChatRequest,
    trail: Trail,
    estimates: Vec<Option<Estimate>>,
    last: Option<ModelError>,
}

/// Finds somebody to ask, waits if nobody can be asked now, sets money aside and begins.
pub(super) async fn open(mut plan: Box<Plan>) -> Result<Opened, ModelError> {
    loop {
        plan.trail.now = Instant::now();
        let standings = plan.standings();
        if plan.left().is_some_and(|left| left.is_zero()) {
            return Err(plan.refusal(&standings, None));
        }
        let ticket = match choose(&standings, plan.patience()) {
            Choice::Go { endpoint, lane } => plan.enter(endpoint, lane),
            Choice::Wait { endpoint, queue: Some(lane), wait } => {
                match plan.queue(endpoint, lane).await {
                    Some(ticket) => ticket,
                    None => return Err(plan.refusal(&standings, Some(wait))),
                }
            }
            Choice::Wait { wait, queue: None, .. } => {
                sleep(wait).await;
                None
            }
            Choice::Refuse { soonest } => return Err(plan.refusal(&standings, soonest)),
        };
        let Some(mut ticket) = ticket else { continue };
        if let Err(error) = ticket.pay(&plan.request).await {
            plan.refused(&ticket, error);
            continue;
        }
        let reading = plan.begin(ticket);
        return Ok((plan, reading));
    }
}

impl Plan {
    pub(super) fn new(shared: Arc<Shared>, request: ChatRequest) -> Self {
        let lanes = shared.places.iter().map(|place| place.lanes.len()).sum();
        let trail = Trail::new(lanes, &shared.retry, Instant::now());
        let estimates = vec![None; shared.places.len()];
        Self { shared, request, trail, estimates, last: None }
    }

    /// The time of a call begins when it is first polled.
    pub(super) fn set_deadline(&mut self) {
        let total = self.shared.total.and_then(|total| Instant::now().checked_add(total));
        self.request.deadline = self.request.deadline.into_iter().chain(total).min();
    }

    /// When the whole call must be over.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.request.deadline
    }

    /// True if nothing is given out before the answer is whole.
    pub(super) fn keeps_back(&self) -> bool {
        self.shared.delivery == Delivery::Whole
    }

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
            place.lanes[lane].gate.give_back(taken);
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
            gate.give_back(taken);
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
        ticket.sent();
        let stream = lane.model.stream(self.request.clone());
        Box::new(Reading::new(stream, ticket, (first, self.request.deadline)))
    }

    /// No money for this endpoint; another may be cheaper.
    fn refused(&mut self, ticket: &Ticket, error: ModelError) {
        let endpoint = ticket.endpoint;
        self.trail.tell(self.name(endpoint, ticket.lane), "budget");
        self.trail.rule_out(self.shared.lanes(endpoint));
        self.last = Some(error);
    }

    /// What happens after a failure: the event that tells of it, or the error if it is the end.
    pub(super) fn after(
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
    pub(super) fn told(&self, ticket: &Ticket) -> ModelEvent {
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
