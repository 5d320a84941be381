//! One place where a model is served: its credentials, their limits, and how well it works.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use provost_core::Secret;
use tokio::time::Instant;

use super::RouteId;
use super::availability::{Availability, UnavailableReason};
use super::circuit_breaker::{BreakerPass, BreakerPolicy, BreakerState, CircuitBreaker};
use super::history::AttemptHistory;
use super::rate_limiter::{Limits, RateLimited, RateLimiter};
use crate::tokens::{Calibration, Family};
use crate::{ChatModel, ModelErrorClass, ModelInfo};

/// A place where a model is served, as it is given to a route.
///
/// Give it models that do not try again by themselves ([`RetryPolicy::never`](crate::RetryPolicy::never)): the route does that,
/// and knows what else could be asked.
#[must_use]
pub struct Endpoint {
    pub(super) name: Arc<str>,
    pub(super) models: Vec<(Arc<str>, Arc<dyn ChatModel>)>,
    pub(super) limits: Limits,
    pub(super) breaker: BreakerPolicy,
    pub(super) first_token: Option<Duration>,
}

impl Endpoint {
    /// An endpoint with one model, under a name of one's own.
    pub fn new(name: impl Into<Arc<str>>, model: impl ChatModel) -> Self {
        let model: Arc<dyn ChatModel> = Arc::new(model);
        Self {
            name: name.into(),
            models: vec![(Arc::from("default"), model)],
            limits: Limits::default(),
            breaker: BreakerPolicy::default(),
            first_token: None,
        }
    }

    /// An endpoint with several credentials: `make` builds the model for each of them. They are used in turn, and one that the
    /// provider refuses rests while the others go on.
    pub fn with_credentials<M: ChatModel, E>(
        name: impl Into<Arc<str>>,
        credentials: impl IntoIterator<Item = (String, Secret<String>)>,
        make: impl Fn(Secret<String>) -> Result<M, E>,
    ) -> Result<Self, E> {
        let mut models: Vec<(Arc<str>, Arc<dyn ChatModel>)> = Vec::new();
        for (label, key) in credentials {
            models.push((label.into(), Arc::new(make(key)?)));
        }
        let (limits, breaker) = (Limits::default(), BreakerPolicy::default());
        Ok(Self { name: name.into(), models, limits, breaker, first_token: None })
    }

    /// Adds a credential, as the model that uses it. The label is shown, the credential is not.
    pub fn credential(mut self, label: impl Into<Arc<str>>, model: impl ChatModel) -> Self {
        self.models.push((label.into(), Arc::new(model)));
        self
    }

    /// Limits how much each credential is used in a minute.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets when the endpoint is left alone.
    pub fn breaker(mut self, policy: BreakerPolicy) -> Self {
        self.breaker = policy;
        self
    }

    /// Sets how long the first word may take before another endpoint is asked.
    pub fn first_token(mut self, time: Duration) -> Self {
        self.first_token = Some(time);
        self
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels: Vec<&str> = self.models.iter().map(|(label, _)| &**label).collect();
        f.debug_struct("Endpoint").field("name", &self.name).field("credentials", &labels).finish()
    }
}

/// How an endpoint is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointState {
    /// Its name.
    pub name: String,
    /// How its breaker stands.
    pub breaker: BreakerState,
    /// The labels of the credentials that rest now.
    pub resting: Vec<String>,
}

/// An endpoint with the state that all calls share.
pub(super) struct LiveEndpoint {
    pub(super) name: Arc<str>,
    pub(super) info: ModelInfo,
    pub(super) family: Family,
    pub(super) first_token: Option<Duration>,
    pub(super) credentials: Vec<CredentialSlot>,
    /// True if a rate limiter counts tokens.
    pub(super) counts_tokens: bool,
    health: Mutex<EndpointHealth>,
}

/// A credential of an endpoint.
pub(super) struct CredentialSlot {
    pub(super) label: Arc<str>,
    pub(super) model: Arc<dyn ChatModel>,
    pub(super) limiter: RateLimiter,
}

struct EndpointHealth {
    breaker: CircuitBreaker,
    /// The credential whose turn is next.
    turn: usize,
    /// The cooldown of each credential.
    cooldowns: Vec<Option<Cooldown>>,
    calibration: Calibration,
}

/// How long a credential is not used, and after which failure.
#[derive(Debug, Clone, Copy)]
struct Cooldown {
    until: Instant,
    after: ModelErrorClass,
}

impl LiveEndpoint {
    /// `None` if the endpoint has no model.
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
            turn: 0,
            cooldowns: vec![None; credentials.len()],
            calibration: Calibration::default(),
        };
        let counts_tokens = credentials.iter().any(|slot| slot.limiter.counts_tokens());
        let (family, health) = (Family::of(&info.model), Mutex::new(health));
        Some(Self { name, family, info, first_token, credentials, counts_tokens, health })
    }

    /// Whether a call that takes so many tokens can ask this endpoint, which is the one at `endpoint` in the history.
    pub(super) fn availability(
        &self,
        history: &AttemptHistory,
        endpoint: usize,
        tokens: u64,
    ) -> Availability {
        let (retry_in, turn) = {
            let health = self.lock();
            (health.breaker.retry_in(history.now), health.turn)
        };
        let route = |credential| RouteId { endpoint, credential };
        let failed = Availability::Unavailable(UnavailableReason::Failed);
        if (0..self.credentials.len()).all(|credential| history.wait(route(credential)).is_none()) {
            return failed;
        }
        if !retry_in.is_zero() {
            let reason = UnavailableReason::Open;
            return Availability::After { wait: retry_in, queue: None, reason };
        }
        let mut best = failed;
        for step in 0..self.credentials.len() {
            let credential = (turn + step) % self.credentials.len();
            let availability = self.credential_availability(history, route(credential), tokens);
            match (&best, &availability) {
                (_, Availability::Ready { .. }) => return availability,
                (Availability::After { wait: known, .. }, Availability::After { wait, .. })
                    if wait >= known => {}
                (Availability::After { .. }, Availability::Unavailable(_)) => {}
                _ => best = availability,
            }
        }
        best
    }

    fn credential_availability(
        &self,
        history: &AttemptHistory,
        route: RouteId,
        tokens: u64,
    ) -> Availability {
        let (now, credential) = (history.now, route.credential);
        let after = |wait, reason| Availability::After { wait, queue: None, reason };
        let Some(again) = history.wait(route) else {
            return Availability::Unavailable(UnavailableReason::Failed);
        };
        let cooldown = self.lock().cooldowns.get(credential).copied().flatten();
        // A credential in its cooldown is not asked, however soon the call would retry.
        if let Some(cooldown) = cooldown.filter(|cooldown| cooldown.until > now + again) {
            return after(cooldown.until - now, UnavailableReason::Cooling(cooldown.after));
        }
        if !again.is_zero() {
            return after(again, UnavailableReason::Retrying);
        }
        match self.credentials[credential].limiter.standing(tokens, now) {
            Ok(()) => Availability::Ready { credential },
            Err(RateLimited::Never) => Availability::Unavailable(UnavailableReason::TooLarge),
            Err(RateLimited::For(wait)) => {
                let (queue, reason) = (Some(credential), UnavailableReason::Busy);
                Availability::After { wait, queue, reason }
            }
        }
    }

    /// Asks the circuit breaker for one attempt, and gives the next turn to the next credential.
    pub(super) fn admit(&self, credential: usize, now: Instant) -> Option<BreakerPass> {
        let mut health = self.lock();
        let pass = health.breaker.admit(now)?;
        health.turn = (credential + 1) % self.credentials.len();
        Some(pass)
    }

    pub(super) fn abandoned(&self, pass: BreakerPass) {
        self.lock().breaker.abandoned(pass);
    }

    pub(super) fn succeeded(&self, pass: BreakerPass) {
        self.lock().breaker.succeeded(pass);
    }

    pub(super) fn failed(&self, pass: BreakerPass, now: Instant) {
        if self.lock().breaker.failed(pass, now) {
            tracing::warn!(endpoint = &*self.name, "an endpoint keeps failing and is left alone");
        }
    }

    /// Starts the cooldown of a credential, or makes it longer.
    pub(super) fn start_cooldown(&self, credential: usize, until: Instant, after: ModelErrorClass) {
        if let Some(cooldown) = self.lock().cooldowns.get_mut(credential)
            && cooldown.is_none_or(|known| known.until < until)
        {
            *cooldown = Some(Cooldown { until, after });
        }
    }

    /// A corrected estimate of tokens.
    pub(super) fn correct(&self, estimated: u64) -> u64 {
        self.lock().calibration.correct(estimated)
    }

    /// What the provider counted for what was estimated.
    pub(super) fn observe(&self, estimated: u64, reported: u64) {
        self.lock().calibration.observe(estimated, reported);
    }

    pub(super) fn state(&self, now: Instant) -> EndpointState {
        let health = self.lock();
        let is_cooling = |cooldown: &Option<Cooldown>| cooldown.is_some_and(|it| it.until > now);
        let slots = self.credentials.iter().zip(&health.cooldowns);
        let cooling = slots.filter(|(_, cooldown)| is_cooling(cooldown));
        EndpointState {
            name: self.name.to_string(),
            breaker: health.breaker.state(now),
            resting: cooling.map(|(slot, _)| slot.label.to_string()).collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, EndpointHealth> {
        // Nothing that can fail happens under this lock.
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
