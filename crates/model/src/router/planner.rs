//! What one call over a route does next: between the pure decisions and the stream.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::attempt::{InFlightAttempt, RateGrant, UsageEstimate};
use super::availability::{Availability, RouteDecision, choose};
use super::failure::{FailureScope, failure_scope};
use super::history::AttemptHistory;
use super::stream::{AttemptStream, Deadlines};
use super::{Delivery, ROUTE, RouteId, RouterInner};
use crate::{ChatRequest, ModelError, ModelErrorClass, ModelEvent};

/// What stays the same for all attempts of a call, and their history.
pub(super) struct RoutePlanner {
    router: Arc<RouterInner>,
    request: ChatRequest,
    history: AttemptHistory,
    /// The expected usage at each endpoint, once it was needed.
    estimates: Vec<Option<UsageEstimate>>,
    last_error: Option<ModelError>,
}

impl RoutePlanner {
    /// Begins a call: its time runs from now on.
    pub(super) fn new(router: Arc<RouterInner>, mut request: ChatRequest) -> Self {
        let now = Instant::now();
        let total = router.total.and_then(|total| now.checked_add(total));
        request.deadline = request.deadline.into_iter().chain(total).min();
        let credentials = router.endpoints.iter().map(|endpoint| endpoint.credentials.len());
        let history = AttemptHistory::new(credentials, &router.retry, now);
        let estimates = vec![None; router.endpoints.len()];
        Self { router, request, history, estimates, last_error: None }
    }

    /// True if nothing is delivered before the answer is complete.
    pub(super) fn is_buffered(&self) -> bool {
        self.router.delivery == Delivery::Whole
    }

    /// Chooses an endpoint, waits if none can be asked now, reserves the budget and sends the request.
    pub(super) async fn open(&mut self) -> Result<AttemptStream, ModelError> {
        loop {
            self.history.now = Instant::now();
            let endpoints = self.availability();
            if self.left().is_some_and(|left| left.is_zero()) {
                return Err(self.no_endpoint_error(&endpoints, None));
            }
            let attempt = match choose(&endpoints, self.max_wait()) {
                RouteDecision::Send(route) => {
                    self.take(route).and_then(|grant| self.enter(route, grant))
                }
                RouteDecision::Wait { wait, queue: Some(route) } => match self.queue(route).await {
                    Some(grant) => self.enter(route, grant),
                    None => return Err(self.no_endpoint_error(&endpoints, Some(wait))),
                },
                RouteDecision::Wait { wait, queue: None } => {
                    sleep(wait).await;
                    None
                }
                RouteDecision::Fail { soonest } => {
                    return Err(self.no_endpoint_error(&endpoints, soonest));
                }
            };
            // Another call may have been faster.
            let Some(mut attempt) = attempt else { continue };
            match attempt.reserve_budget(&*self.router.ledger, &self.request).await {
                Ok(()) => return Ok(self.begin(attempt)),
                Err(error) => self.over_budget(attempt.route, error),
            }
        }
    }

    /// The availability of the endpoints up to the first one that is ready.
    fn availability(&mut self) -> Vec<Availability> {
        let mut availability = Vec::with_capacity(self.estimates.len());
        for index in 0..self.estimates.len() {
            let tokens = self.estimate(index).total;
            let endpoint = &self.router.endpoints[index];
            availability.push(endpoint.availability(&self.history, index, tokens));
            if matches!(availability.last(), Some(Availability::Ready { .. })) {
                break;
            }
        }
        availability
    }

    fn estimate(&mut self, endpoint: usize) -> UsageEstimate {
        let (router, request) = (&self.router, &self.request);
        *self.estimates[endpoint]
            .get_or_insert_with(|| UsageEstimate::of(router, endpoint, request))
    }

    /// How long it makes sense to wait.
    fn max_wait(&self) -> Duration {
        let left = self.left().unwrap_or(Duration::MAX);
        // An attempt that begins at the deadline is in vain.
        left.saturating_sub(Duration::from_millis(1)).min(self.router.wait_max)
    }

    fn left(&self) -> Option<Duration> {
        self.request.deadline.map(|end| end.saturating_duration_since(self.history.now))
    }

    /// Takes the expected usage from the limits of a credential, if they allow it now.
    fn take(&mut self, route: RouteId) -> Option<RateGrant> {
        let tokens = self.estimate(route.endpoint).total;
        let endpoint = &self.router.endpoints[route.endpoint];
        let limiter = &endpoint.credentials[route.credential].limiter;
        let usage = limiter.take(tokens, self.history.now).ok()?;
        Some(RateGrant::new(Arc::clone(endpoint), route.credential, usage))
    }

    /// Waits until the limits of a credential allow the expected usage; `None` if that took too long.
    async fn queue(&mut self, route: RouteId) -> Option<RateGrant> {
        let tokens = self.estimate(route.endpoint).total;
        let endpoint = Arc::clone(&self.router.endpoints[route.endpoint]);
        let limiter = &endpoint.credentials[route.credential].limiter;
        let usage = timeout(self.max_wait(), limiter.wait(tokens)).await.ok()?.ok()?;
        self.history.now = Instant::now();
        Some(RateGrant::new(Arc::clone(&endpoint), route.credential, usage))
    }

    /// Asks the circuit breaker for an attempt; without its admission the grant is given back.
    fn enter(&mut self, route: RouteId, grant: RateGrant) -> Option<InFlightAttempt> {
        let estimate = self.estimate(route.endpoint);
        let endpoint = &self.router.endpoints[route.endpoint];
        let pass = endpoint.admit(route.credential, self.history.now)?;
        Some(InFlightAttempt::new(route, grant, pass, estimate))
    }

    fn begin(&mut self, mut attempt: InFlightAttempt) -> AttemptStream {
        let route = attempt.route;
        let endpoint = &self.router.endpoints[route.endpoint];
        let credential = &endpoint.credentials[route.credential];
        self.history.ask(route);
        tracing::debug!(
            endpoint = &*endpoint.name,
            credential = &*credential.label,
            attempt = self.history.failures() + 1,
            "a route asks"
        );
        let first_token = endpoint.first_token.and_then(|time| self.history.now.checked_add(time));
        attempt.sent();
        let events = credential.model.stream(self.request.clone());
        let deadlines = Deadlines { first_token, total: self.request.deadline };
        AttemptStream::new(events, attempt, deadlines)
    }

    /// The budget does not cover this endpoint; another may be cheaper.
    fn over_budget(&mut self, route: RouteId, error: ModelError) {
        self.history.record(self.name(route), "budget");
        self.history.rule_out(route.endpoint);
        self.last_error = Some(error);
    }

    /// Decides what follows a failure: the retry event, or the error if no endpoint is left.
    pub(super) fn on_failure(
        &mut self,
        route: RouteId,
        error: ModelError,
    ) -> Result<ModelEvent, ModelError> {
        self.history.now = Instant::now();
        self.history.record(self.name(route), error.class.as_str());
        let router = Arc::clone(&self.router);
        let chance = router.env.random_unit();
        let again = router.retry.decide(&error, self.history.retries(), self.left(), chance);
        self.history.failed(route, &error, again);
        let falls_back = router.fallback.falls_back(&error);
        let is_too_long = failure_scope(&error) == FailureScope::ContextLength;
        for other in (0..router.endpoints.len()).filter(|other| *other != route.endpoint) {
            if !falls_back || (is_too_long && !self.is_longer(other, route.endpoint)) {
                self.history.rule_out(other);
            }
        }
        if is_too_long || !falls_back && again.is_none() {
            self.history.rule_out(route.endpoint);
        }
        self.last_error = Some(error.clone());
        let endpoints = self.availability();
        let delay = match choose(&endpoints, self.max_wait()) {
            RouteDecision::Send(_) => Duration::ZERO,
            RouteDecision::Wait { wait, .. } => wait,
            RouteDecision::Fail { soonest } => {
                return Err(self.no_endpoint_error(&endpoints, soonest));
            }
        };
        let attempt = self.history.failures();
        tracing::debug!(
            attempt,
            endpoint = &*router.endpoints[route.endpoint].name,
            error.class = error.class.as_str(),
            delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
            "a route goes on after a failure"
        );
        Ok(ModelEvent::Retry { attempt, delay, error })
    }

    /// True if the context of one endpoint is known to be longer than that of another.
    fn is_longer(&self, endpoint: usize, than: usize) -> bool {
        let window = |endpoint: usize| self.router.endpoints[endpoint].info.context_window;
        window(endpoint).zip(window(than)).is_some_and(|(one, other)| one > other)
    }

    /// The error of a call without any endpoint left: the last error, with all attempts.
    fn no_endpoint_error(
        &mut self,
        endpoints: &[Availability],
        soonest: Option<Duration>,
    ) -> ModelError {
        if self.left().is_some_and(|left| left.is_zero()) && self.last_error.is_none() {
            let problem = "the deadline of the model call passed before anybody could be asked";
            return ModelError::new(ModelErrorClass::Timeout, problem);
        }
        if let Some(mut error) = self.last_error.take() {
            if self.history.failures() > 1 || self.router.endpoints.len() > 1 {
                error.message = format!("{} (asked {})", error.message, self.history.summary());
            }
            return error;
        }
        let mut class = ModelErrorClass::Overloaded;
        let mut reasons = Vec::new();
        for (endpoint, availability) in self.router.endpoints.iter().zip(endpoints).rev() {
            let (reason, wait) = match availability {
                Availability::Ready { .. } => continue,
                Availability::After { reason, wait, .. } => (reason, format!(" for {wait:.1?}")),
                Availability::Unavailable(reason) => (reason, String::new()),
            };
            class = reason.class();
            reasons.insert(0, format!("{} {}{wait}", endpoint.name, reason.words()));
        }
        let problem =
            format!("nobody can be asked now: {}; wait or add an endpoint", reasons.join(", "));
        let mut error = ModelError::new(class, problem);
        error.retry_after = soonest;
        error
    }

    fn name(&self, route: RouteId) -> String {
        let endpoint = &self.router.endpoints[route.endpoint];
        match endpoint.credentials.len() {
            1 => endpoint.name.to_string(),
            _ => format!("{}/{}", endpoint.name, endpoint.credentials[route.credential].label),
        }
    }

    /// The metadata that names the endpoint of an answer and the failed attempts before it.
    pub(super) fn route_metadata(&self, route: RouteId) -> ModelEvent {
        let endpoint = &self.router.endpoints[route.endpoint];
        let mut metadata = json!({
            "endpoint": &*endpoint.name,
            "credential": &*endpoint.credentials[route.credential].label,
            "provider": endpoint.info.provider,
            "model": endpoint.info.model,
        });
        if self.history.failures() > 0 {
            metadata["before"] = self.history.data();
        }
        ModelEvent::Metadata(ROUTE.to_owned(), metadata)
    }
}
