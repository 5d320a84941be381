//! Plans the next step of a call over a route: it connects the pure decisions with the stream.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::attempt::{InFlightAttempt, RateGrant, UsageEstimate};
use super::availability::{Availability, RouteDecision, choose};
use super::failure::{FailureScope, failure_scope};
use super::history::AttemptHistory;
use super::stream::{AttemptStream, Deadlines};
use super::{ROUTE, ResponseBuffering, RouteId, RouterInner};
use crate::{ChatRequest, ModelError, ModelErrorClass, ModelEvent};

/// State that all attempts of a call share.
pub(super) struct RoutePlanner {
    router: Arc<RouterInner>,
    request: ChatRequest,
    history: AttemptHistory,
    /// Expected usage at each endpoint, computed when it is first needed.
    estimates: Vec<Option<UsageEstimate>>,
    last_error: Option<ModelError>,
}

impl RoutePlanner {
    /// Creates the planner of a call. The time limits start now.
    pub(super) fn new(router: Arc<RouterInner>, mut request: ChatRequest) -> Self {
        let now = Instant::now();
        let total = router.total_timeout.and_then(|total| now.checked_add(total));
        request.deadline = request.deadline.into_iter().chain(total).min();
        let credentials = router.endpoints.iter().map(|endpoint| endpoint.credentials.len());
        let history = AttemptHistory::new(credentials, &router.retry, now);
        let estimates = vec![None; router.endpoints.len()];
        Self { router, request, history, estimates, last_error: None }
    }

    /// Returns true if deltas are delivered only when the response is complete.
    pub(super) fn is_buffered(&self) -> bool {
        self.router.buffering == ResponseBuffering::Buffered
    }

    /// Sends the request to the first available endpoint: waits if none is ready, and reserves the budget before.
    /// Returns an error if no endpoint becomes available in time.
    pub(super) async fn open(&mut self) -> Result<AttemptStream, ModelError> {
        loop {
            self.history.now = Instant::now();
            let endpoints = self.availability();
            if self.time_left().is_some_and(|left| left.is_zero()) {
                return Err(self.no_endpoint_error(&endpoints, None));
            }
            let attempt = match choose(&endpoints, self.max_wait()) {
                RouteDecision::Send(route) => {
                    self.try_acquire(route).and_then(|grant| self.admit(route, grant))
                }
                RouteDecision::Wait { wait, queue: Some(route) } => {
                    match self.wait_in_queue(route).await {
                        Some(grant) => self.admit(route, grant),
                        None => return Err(self.no_endpoint_error(&endpoints, Some(wait))),
                    }
                }
                RouteDecision::Wait { wait, queue: None } => {
                    sleep(wait).await;
                    None
                }
                RouteDecision::Fail { soonest } => {
                    return Err(self.no_endpoint_error(&endpoints, soonest));
                }
            };
            // Another call may have taken the capacity first.
            let Some(mut attempt) = attempt else { continue };
            match attempt.reserve_budget(&*self.router.ledger, &self.request).await {
                Ok(()) => return Ok(self.send(attempt)),
                Err(error) => self.reject_over_budget(attempt.route, error),
            }
        }
    }

    /// Returns the availability of the endpoints up to the first one that is ready.
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

    /// Returns the expected tokens of the request at an endpoint. They are counted once.
    fn estimate(&mut self, endpoint: usize) -> UsageEstimate {
        let (router, request) = (&self.router, &self.request);
        *self.estimates[endpoint]
            .get_or_insert_with(|| UsageEstimate::estimate(router, endpoint, request))
    }

    /// Returns the longest wait after which an attempt can still start before the deadline.
    fn max_wait(&self) -> Duration {
        let time_left = self.time_left().unwrap_or(Duration::MAX);
        // An attempt that starts at the deadline cannot succeed.
        time_left.saturating_sub(Duration::from_millis(1)).min(self.router.max_wait)
    }

    /// Returns the time until the deadline. `None` without a deadline.
    fn time_left(&self) -> Option<Duration> {
        self.request.deadline.map(|end| end.saturating_duration_since(self.history.now))
    }

    /// Takes the expected usage from the rate limits of a credential. `None` if they do not allow it now.
    fn try_acquire(&mut self, route: RouteId) -> Option<RateGrant> {
        let tokens = self.estimate(route.endpoint).total;
        let endpoint = &self.router.endpoints[route.endpoint];
        let limiter = &endpoint.credentials[route.credential].limiter;
        let usage = limiter.try_acquire(tokens, self.history.now).ok()?;
        Some(RateGrant::new(Arc::clone(endpoint), route.credential, usage))
    }

    /// Waits until the rate limits of a credential allow the expected usage, and takes it. `None` if the wait exceeds
    /// the limit.
    async fn wait_in_queue(&mut self, route: RouteId) -> Option<RateGrant> {
        let tokens = self.estimate(route.endpoint).total;
        let endpoint = Arc::clone(&self.router.endpoints[route.endpoint]);
        let limiter = &endpoint.credentials[route.credential].limiter;
        let usage = timeout(self.max_wait(), limiter.acquire(tokens)).await.ok()?.ok()?;
        self.history.now = Instant::now();
        Some(RateGrant::new(Arc::clone(&endpoint), route.credential, usage))
    }

    /// Asks the circuit breaker to admit an attempt. `None` if the breaker rejects it; the grant is then refunded.
    fn admit(&mut self, route: RouteId, grant: RateGrant) -> Option<InFlightAttempt> {
        let estimate = self.estimate(route.endpoint);
        let endpoint = &self.router.endpoints[route.endpoint];
        let admission = endpoint.admit(route.credential, self.history.now)?;
        Some(InFlightAttempt::new(route, grant, admission, estimate))
    }

    /// Starts the model call of an attempt.
    fn send(&mut self, mut attempt: InFlightAttempt) -> AttemptStream {
        let route = attempt.route;
        let endpoint = &self.router.endpoints[route.endpoint];
        let credential = &endpoint.credentials[route.credential];
        self.history.start(route);
        tracing::debug!(
            endpoint = &*endpoint.name,
            credential = &*credential.label,
            attempt = self.history.failures() + 1,
            "sending a model call to an endpoint"
        );
        let first_token = endpoint.first_token.and_then(|time| self.history.now.checked_add(time));
        attempt.mark_sent();
        let events = credential.model.stream(self.request.clone());
        let deadlines = Deadlines { first_token, total: self.request.deadline };
        AttemptStream::new(events, attempt, deadlines)
    }

    /// Excludes an endpoint whose cost the budget does not cover. Another endpoint may be cheaper.
    fn reject_over_budget(&mut self, route: RouteId, error: ModelError) {
        self.history.record(self.route_name(route), "budget");
        self.history.exclude(route.endpoint);
        self.last_error = Some(error);
    }

    /// Records a failure, excludes the endpoints that must not be tried, and returns the retry event. Returns the error
    /// if no endpoint is left.
    pub(super) fn on_failure(
        &mut self,
        route: RouteId,
        error: ModelError,
    ) -> Result<ModelEvent, ModelError> {
        self.history.now = Instant::now();
        self.history.record(self.route_name(route), error.class.as_str());
        let router = Arc::clone(&self.router);
        let jitter = router.env.random_unit();
        let retry_wait =
            router.retry.next_delay(&error, self.history.retries(), self.time_left(), jitter);
        self.history.record_failure(route, &error, retry_wait);
        let falls_back = router.fallback.should_fall_back(&error);
        let is_too_long = failure_scope(&error) == FailureScope::ContextLength;
        for other in (0..router.endpoints.len()).filter(|other| *other != route.endpoint) {
            if !falls_back || (is_too_long && !self.has_longer_context(other, route.endpoint)) {
                self.history.exclude(other);
            }
        }
        if is_too_long || !falls_back && retry_wait.is_none() {
            self.history.exclude(route.endpoint);
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
            "an attempt of a model call failed"
        );
        Ok(ModelEvent::Retry { attempt, delay, error })
    }

    /// Returns true if one endpoint is known to have a longer context window than another.
    fn has_longer_context(&self, endpoint: usize, than: usize) -> bool {
        let window = |endpoint: usize| self.router.endpoints[endpoint].info.context_window;
        window(endpoint).zip(window(than)).is_some_and(|(one, other)| one > other)
    }

    /// Creates the error of a call that has no endpoint left: the last error with a summary of all attempts, or the
    /// reason why no endpoint was tried.
    fn no_endpoint_error(
        &mut self,
        endpoints: &[Availability],
        soonest: Option<Duration>,
    ) -> ModelError {
        if self.time_left().is_some_and(|left| left.is_zero()) && self.last_error.is_none() {
            let problem = "the deadline of the model call passed before an endpoint was available";
            return ModelError::new(ModelErrorClass::Timeout, problem);
        }
        if let Some(mut error) = self.last_error.take() {
            if self.history.failures() > 1 || self.router.endpoints.len() > 1 {
                error.message = format!("{} (tried {})", error.message, self.history.summary());
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
            reasons.insert(0, format!("{} {}{wait}", endpoint.name, reason.description()));
        }
        let problem = format!(
            "no endpoint is available now: {}; wait or add an endpoint",
            reasons.join(", ")
        );
        let mut error = ModelError::new(class, problem);
        error.retry_after = soonest;
        error
    }

    /// Returns the name of the endpoint, with the label of the credential if the endpoint has several.
    fn route_name(&self, route: RouteId) -> String {
        let endpoint = &self.router.endpoints[route.endpoint];
        match endpoint.credentials.len() {
            1 => endpoint.name.to_string(),
            _ => format!("{}/{}", endpoint.name, endpoint.credentials[route.credential].label),
        }
    }

    /// Returns the metadata with the endpoint of a response and the failed attempts before it.
    pub(super) fn route_metadata(&self, route: RouteId) -> ModelEvent {
        let endpoint = &self.router.endpoints[route.endpoint];
        let mut metadata = json!({
            "endpoint": &*endpoint.name,
            "credential": &*endpoint.credentials[route.credential].label,
            "provider": endpoint.info.provider,
            "model": endpoint.info.model,
        });
        if self.history.failures() > 0 {
            metadata["before"] = self.history.to_json();
        }
        ModelEvent::Metadata(ROUTE.to_owned(), metadata)
    }
}
