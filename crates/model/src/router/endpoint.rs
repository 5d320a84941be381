//! One place where a model is served: its credentials, their limits, and how well it works.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use provost_core::Secret;
use tokio::time::Instant;

use super::breaker::{Breaker, BreakerPolicy, BreakerState, Pass};
use super::choose::{Standing, Why};
use super::gate::{Busy, Gate, Limits};
use super::trail::Trail;
use crate::tokens::{Calibration, Family};
use crate::{BuildError, ChatModel, ModelErrorClass, ModelInfo};

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
    pub fn with_credentials<M: ChatModel>(
        name: impl Into<Arc<str>>,
        credentials: impl IntoIterator<Item = (String, Secret<String>)>,
        make: impl Fn(Secret<String>) -> Result<M, BuildError>,
    ) -> Result<Self, BuildError> {
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

/// An endpoint at work.
pub(super) struct Place {
    pub(super) name: Arc<str>,
    pub(super) info: ModelInfo,
    pub(super) family: Family,
    pub(super) first_token: Option<Duration>,
    pub(super) lanes: Vec<Lane>,
    /// True if some gate counts tokens.
    pub(super) counts_tokens: bool,
    health: Mutex<Health>,
}

/// A credential of an endpoint.
pub(super) struct Lane {
    pub(super) label: Arc<str>,
    pub(super) model: Arc<dyn ChatModel>,
    pub(super) gate: Gate,
}

struct Health {
    breaker: Breaker,
    /// Whose turn it is.
    turn: usize,
    /// Whether each credential rests.
    cool: Vec<Option<Rest>>,
    calibration: Calibration,
}

/// Until when a credential rests, and what it did.
#[derive(Debug, Clone, Copy)]
struct Rest {
    until: Instant,
    after: ModelErrorClass,
}

impl Place {
    /// Nothing, if the endpoint has no model.
    pub(super) fn new(endpoint: Endpoint) -> Option<Self> {
        let Endpoint { name, models, limits, breaker, first_token } = endpoint;
        let info = models.first()?.1.info().clone();
        let now = Instant::now();
        let lane = |(label, model)| Lane { label, model, gate: Gate::new(limits, now) };
        let lanes: Vec<Lane> = models.into_iter().map(lane).collect();
        let health = Health {
            breaker: Breaker::new(breaker),
            turn: 0,
            cool: vec![None; lanes.len()],
            calibration: Calibration::default(),
        };
        let counts_tokens = lanes.iter().any(|lane| lane.gate.counts_tokens());
        let (family, health) = (Family::of(&info.model), Mutex::new(health));
        Some(Self { name, family, info, first_token, lanes, counts_tokens, health })
    }

    /// How it stands for a call that takes so many tokens. `first` is the place of its first lane in the trail.
    pub(super) fn standing(&self, trail: &Trail, first: usize, tokens: u64) -> Standing {
        let now = trail.now;
        let (closed_for, turn) = {
            let health = self.lock();
            (health.breaker.closed_for(now), health.turn)
        };
        let mut lanes = first..first + self.lanes.len();
        if lanes.all(|lane| trail.wait(lane).is_none()) {
            return Standing::Never(Why::Failed);
        }
        if !closed_for.is_zero() {
            return Standing::Later { wait: closed_for, queue: None, why: Why::Open };
        }
        let mut best = Standing::Never(Why::Failed);
        for step in 0..self.lanes.len() {
            let lane = (turn + step) % self.lanes.len();
            let standing = self.lane_standing(trail, (first, lane), tokens);
            match (&best, &standing) {
                (_, Standing::Ready { .. }) => return standing,
                (Standing::Later { wait: known, .. }, Standing::Later { wait, .. })
                    if wait >= known => {}
                (Standing::Later { .. }, Standing::Never(_)) => {}
                _ => best = standing,
            }
        }
        best
    }

    fn lane_standing(&self, trail: &Trail, (first, lane): (usize, usize), tokens: u64) -> Standing {
        let now = trail.now;
        let later = |wait, why| Standing::Later { wait, queue: None, why };
        let Some(again) = trail.wait(first + lane) else { return Standing::Never(Why::Failed) };
        let cool = self.lock().cool.get(lane).copied().flatten();
        // A credential that rests is not asked before that, however soon the call would try again.
        if let Some(rest) = cool.filter(|rest| rest.until > now + again) {
            return later(rest.until - now, Why::Cooling(rest.after));
        }
        if !again.is_zero() {
            return later(again, Why::Retrying);
        }
        match self.lanes[lane].gate.standing(tokens, now) {
            Ok(()) => Standing::Ready { lane },
            Err(Busy::Never) => Standing::Never(Why::TooLarge),
            Err(Busy::For(wait)) => Standing::Later { wait, queue: Some(lane), why: Why::Busy },
        }
    }

    /// Lets a call through, and gives the next turn to the next credential.
    pub(super) fn admit(&self, lane: usize, now: Instant) -> Option<Pass> {
        let mut health = self.lock();
        let pass = health.breaker.admit(now)?;
        health.turn = (lane + 1) % self.lanes.len();
        Some(pass)
    }

    pub(super) fn abandoned(&self, pass: Pass) {
        self.lock().breaker.abandoned(pass);
    }

    pub(super) fn succeeded(&self, pass: Pass) {
        self.lock().breaker.succeeded(pass);
    }

    pub(super) fn failed(&self, pass: Pass, now: Instant) {
        if self.lock().breaker.failed(pass, now) {
            tracing::warn!(endpoint = &*self.name, "an endpoint keeps failing and is left alone");
        }
    }

    /// Lets a credential rest.
    pub(super) fn cool(&self, lane: usize, until: Instant, after: ModelErrorClass) {
        if let Some(cool) = self.lock().cool.get_mut(lane)
            && cool.is_none_or(|rest| rest.until < until)
        {
            *cool = Some(Rest { until, after });
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
        let rests = |(_, cool): &(&Lane, &Option<Rest>)| cool.is_some_and(|rest| rest.until > now);
        let resting = self.lanes.iter().zip(&health.cool).filter(rests);
        EndpointState {
            name: self.name.to_string(),
            breaker: health.breaker.state(now),
            resting: resting.map(|(lane, _)| lane.label.to_string()).collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Health> {
        // Nothing that can fail happens under this lock.
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
