//! One endpoint of a route: its credentials, their rate limits and its health.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use provost_core::Secret;
use tokio::time::Instant;

use super::RouteId;
use super::availability::{Availability, UnavailableReason};
use super::circuit_breaker::{
    BreakerAdmission, CircuitBreaker, CircuitBreakerConfig, CircuitState,
};
use super::history::AttemptHistory;
use super::rate_limiter::{RateLimited, RateLimiter, RateLimits};
use crate::tokens::{TokenCalibration, TokenizerFamily};
use crate::{ChatModel, ModelErrorClass, ModelInfo};

/// A model of one provider in a route, with one or more credentials.
///
/// Its models should not retry ([`RetryPolicy::never`](crate::RetryPolicy::never)). The route retries, and it knows the
/// other endpoints.
#[must_use]
pub struct Endpoint {
    pub(super) name: Arc<str>,
    pub(super) models: Vec<(Arc<str>, Arc<dyn ChatModel>)>,
    pub(super) limits: RateLimits,
    pub(super) breaker: CircuitBreakerConfig,
    pub(super) first_token: Option<Duration>,
}

impl Endpoint {
    /// Creates an endpoint with one model.
    pub fn new(name: impl Into<Arc<str>>, model: impl ChatModel) -> Self {
        let model: Arc<dyn ChatModel> = Arc::new(model);
        Self {
            name: name.into(),
            models: vec![(Arc::from("default"), model)],
            limits: RateLimits::default(),
            breaker: CircuitBreakerConfig::default(),
            first_token: None,
        }
    }

    /// Creates an endpoint with several credentials. `build` creates the model of each credential. Calls use the
    /// credentials in turn. A credential that the provider rejects is in a cooldown while the others stay in use.
    pub fn with_credentials<M: ChatModel, E>(
        name: impl Into<Arc<str>>,
        credentials: impl IntoIterator<Item = (String, Secret<String>)>,
        build: impl Fn(Secret<String>) -> Result<M, E>,
    ) -> Result<Self, E> {
        let mut models: Vec<(Arc<str>, Arc<dyn ChatModel>)> = Vec::new();
        for (label, key) in credentials {
            models.push((label.into(), Arc::new(build(key)?)));
        }
        let (limits, breaker) = (RateLimits::default(), CircuitBreakerConfig::default());
        Ok(Self { name: name.into(), models, limits, breaker, first_token: None })
    }

    /// Adds a credential as the model that uses it. Logs and responses show the label and never the credential.
    pub fn credential(mut self, label: impl Into<Arc<str>>, model: impl ChatModel) -> Self {
        self.models.push((label.into(), Arc::new(model)));
        self
    }

    /// Sets the rate limits of each credential.
    pub fn limits(mut self, limits: RateLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the configuration of the circuit breaker.
    pub fn circuit_breaker(mut self, config: CircuitBreakerConfig) -> Self {
        self.breaker = config;
        self
    }

    /// Sets the time limit for the first delta. If it passes, the attempt fails and the next endpoint is tried.
    pub fn first_token_timeout(mut self, timeout: Duration) -> Self {
        self.first_token = Some(timeout);
        self
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels: Vec<&str> = self.models.iter().map(|(label, _)| &**label).collect();
        f.debug_struct("Endpoint").field("name", &self.name).field("credentials", &labels).finish()
    }
}

/// Circuit state and unavailable credentials of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointStatus {
    /// Name of the endpoint.
    pub name: String,
    /// State of its circuit breaker.
    pub circuit: CircuitState,
    /// Labels of the credentials that are in a cooldown.
    pub cooling_down: Vec<String>,
}

/// An endpoint with the state that all calls share.
pub(super) struct LiveEndpoint {
    pub(super) name: Arc<str>,
    pub(super) info: ModelInfo,
    pub(super) family: TokenizerFamily,
    pub(super) first_token: Option<Duration>,
    pub(super) credentials: Vec<CredentialSlot>,
    /// True if a rate limit counts tokens.
    pub(super) counts_tokens: bool,
    health: Mutex<EndpointHealth>,
}

/// A credential of an endpoint: its model and its rate limiter.
pub(super) struct CredentialSlot {
    pub(super) label: Arc<str>,
    pub(super) model: Arc<dyn ChatModel>,
    pub(super) limiter: RateLimiter,
}

/// State of an endpoint that failures and usage reports change.
struct EndpointHealth {
    breaker: CircuitBreaker,
    /// Position of the credential that the next call tries first.
    next_credential: usize,
    /// The cooldown of each credential.
    cooldowns: Vec<Option<Cooldown>>,
    calibration: TokenCalibration,
}

/// Period in which a credential is not used, and the failure class that caused it.
#[derive(Debug, Clone, Copy)]
struct Cooldown {
    until: Instant,
    after: ModelErrorClass,
}

impl LiveEndpoint {
    /// Creates the shared state of an endpoint. `None` if the endpoint has no model.
    pub(super) fn new(endpoint: Endpoint) -> Option<Self> {
        let Endpoint { name, models, limits, breaker, first_token } = endpoint;
        let info = models.first()?.1.info().clone();
        let now = Instant::now();
        let slot = |(label, model)| {
            let limiter = RateLimiter::new(limits, now);
            CredentialSlot { label, model, limiter }
        };
        let credentials: Vec<CredentialSlot> = models.into_iter().map(slot).collect();
        let health = EndpointHealth {
            breaker: CircuitBreaker::new(breaker),
            next_credential: 0,
            cooldowns: vec![None; credentials.len()],
            calibration: TokenCalibration::default(),
        };
        let counts_tokens = credentials.iter().any(|slot| slot.limiter.counts_tokens());
        let (family, health) = (TokenizerFamily::of(&info.model), Mutex::new(health));
        Some(Self { name, family, info, first_token, credentials, counts_tokens, health })
    }

    /// Returns whether and when this endpoint can serve a call with this number of tokens. `endpoint` is its position
    /// in the route.
    pub(super) fn availability(
        &self,
        history: &AttemptHistory,
        endpoint: usize,
        tokens: u64,
    ) -> Availability {
        let (retry_in, first) = {
            let health = self.health.lock();
            (health.breaker.retry_in(history.now), health.next_credential)
        };
        let route = |credential| RouteId { endpoint, credential };
        let failed = Availability::Unavailable(UnavailableReason::Failed);
        if (0..self.credentials.len()).all(|credential| history.wait(route(credential)).is_none()) {
            return failed;
        }
        if !retry_in.is_zero() {
            let reason = UnavailableReason::CircuitOpen;
            return Availability::After { wait: retry_in, queue: None, reason };
        }
        let mut best = failed;
        for step in 0..self.credentials.len() {
            let credential = (first + step) % self.credentials.len();
            let availability = self.credential_availability(history, route(credential), tokens);
            match (&best, &availability) {
                (_, Availability::Ready { .. }) => return availability,
                (Availability::After { wait: best_wait, .. }, Availability::After { wait, .. })
                    if wait >= best_wait => {}
                (Availability::After { .. }, Availability::Unavailable(_)) => {}
                _ => best = availability,
            }
        }
        best
    }

    /// Returns whether and when a credential can serve a call with this number of tokens.
    fn credential_availability(
        &self,
        history: &AttemptHistory,
        route: RouteId,
        tokens: u64,
    ) -> Availability {
        let (now, credential) = (history.now, route.credential);
        let after = |wait, reason| Availability::After { wait, queue: None, reason };
        let Some(retry_wait) = history.wait(route) else {
            return Availability::Unavailable(UnavailableReason::Failed);
        };
        let cooldown = self.health.lock().cooldowns.get(credential).copied().flatten();
        // A credential in a cooldown is not used, even if the delay of the retry is shorter.
        if let Some(cooldown) = cooldown.filter(|cooldown| cooldown.until > now + retry_wait) {
            return after(cooldown.until - now, UnavailableReason::Cooldown(cooldown.after));
        }
        if !retry_wait.is_zero() {
            return after(retry_wait, UnavailableReason::Retrying);
        }
        match self.credentials[credential].limiter.check(tokens, now) {
            Ok(()) => Availability::Ready { credential },
            Err(RateLimited::Never) => Availability::Unavailable(UnavailableReason::TooLarge),
            Err(RateLimited::For(wait)) => {
                let (queue, reason) = (Some(credential), UnavailableReason::RateLimited);
                Availability::After { wait, queue, reason }
            }
        }
    }

    /// Asks the circuit breaker to admit one attempt. On success, the next call starts with the next credential. `None`
    /// if the breaker rejects the attempt.
    pub(super) fn admit(&self, credential: usize, now: Instant) -> Option<BreakerAdmission> {
        let mut health = self.health.lock();
        let admission = health.breaker.admit(now)?;
        health.next_credential = (credential + 1) % self.credentials.len();
        Some(admission)
    }

    pub(super) fn abandon(&self, admission: BreakerAdmission) {
        self.health.lock().breaker.abandon(admission);
    }

    pub(super) fn record_success(&self, admission: BreakerAdmission) {
        self.health.lock().breaker.record_success(admission);
    }

    /// Reports a failure to the circuit breaker, and logs a warning if the breaker opens.
    pub(super) fn record_failure(&self, admission: BreakerAdmission, now: Instant) {
        if self.health.lock().breaker.record_failure(admission, now) {
            tracing::warn!(endpoint = &*self.name, "opened the circuit breaker of an endpoint");
        }
    }

    /// Starts the cooldown of a credential, or extends it if `until` is later than its end.
    pub(super) fn start_cooldown(&self, credential: usize, until: Instant, after: ModelErrorClass) {
        if let Some(cooldown) = self.health.lock().cooldowns.get_mut(credential)
            && cooldown.is_none_or(|current| current.until < until)
        {
            *cooldown = Some(Cooldown { until, after });
        }
    }

    /// Corrects an estimated number of tokens by earlier reports of the provider.
    pub(super) fn correct(&self, estimated: u64) -> u64 {
        self.health.lock().calibration.correct(estimated)
    }

    /// Records the number of tokens that the provider reported for an estimate, to correct later estimates.
    pub(super) fn observe(&self, estimated: u64, reported: u64) {
        self.health.lock().calibration.observe(estimated, reported);
    }

    pub(super) fn status(&self, now: Instant) -> EndpointStatus {
        let health = self.health.lock();
        let is_cooling =
            |cooldown: &Option<Cooldown>| cooldown.is_some_and(|cooldown| cooldown.until > now);
        let slots = self.credentials.iter().zip(&health.cooldowns);
        let cooling = slots.filter(|(_, cooldown)| is_cooling(cooldown));
        EndpointStatus {
            name: self.name.to_string(),
            circuit: health.breaker.state(now),
            cooling_down: cooling.map(|(slot, _)| slot.label.to_string()).collect(),
        }
    }
}
