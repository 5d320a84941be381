//! Building a route: everything that can be wrong with it is said here.

use std::sync::Arc;
use std::time::Duration;

use provost_core::{Env, ErrorKind};

use super::budget::{BudgetLedger, Unbounded};
use super::endpoint::{Endpoint, LiveEndpoint};
use super::failure::FallbackRules;
use super::{Delivery, RoutedModel, RouterInner};
use crate::{ModelInfo, NativeOutput, RetryPolicy};

/// Endpoints of one route.
const ENDPOINTS_MAX: usize = 32;
/// How long a call waits until somebody can be asked, unless the builder says otherwise.
const WAIT_MAX_DEFAULT: Duration = Duration::from_secs(30);

/// Why a route cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// There is nobody to ask.
    #[error("a route needs at least one endpoint: add one with `endpoint`")]
    Empty,
    /// There are too many to ask.
    #[error("a route has at most {ENDPOINTS_MAX} endpoints: leave some out")]
    TooMany,
    /// Two endpoints share a name, which tells them apart in answers and logs.
    #[error("two endpoints are called `{0}`: give one another name")]
    Twin(String),
    /// An endpoint has no credential.
    #[error("the endpoint `{0}` has no credential: give it at least one")]
    NoCredential(String),
}

impl RouteError {
    /// The shared kind.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }
}

/// Collects what a route needs.
#[must_use]
pub struct RoutedModelBuilder {
    endpoints: Vec<Endpoint>,
    retry: RetryPolicy,
    fallback: FallbackRules,
    delivery: Delivery,
    wait_max: Duration,
    total: Option<Duration>,
    ledger: Arc<dyn BudgetLedger>,
    env: Env,
}

impl RoutedModelBuilder {
    pub(super) fn new() -> Self {
        Self {
            endpoints: Vec::new(),
            retry: RetryPolicy::default(),
            fallback: FallbackRules::default(),
            delivery: Delivery::default(),
            wait_max: WAIT_MAX_DEFAULT,
            total: None,
            ledger: Arc::new(Unbounded),
            env: Env::system(),
        }
    }

    /// Adds an endpoint; those that were added before come first.
    pub fn endpoint(mut self, endpoint: Endpoint) -> Self {
        self.endpoints.push(endpoint);
        self
    }

    /// Sets how often a call is tried again where it was tried before, and how long it waits for that.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Sets after which failures another endpoint is asked.
    pub fn fallback(mut self, rules: FallbackRules) -> Self {
        self.fallback = rules;
        self
    }

    /// Sets when the pieces of an answer are given out.
    pub fn delivery(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
        self
    }

    /// Sets how long a call waits at once until somebody can be asked; 30 seconds unless told.
    pub fn wait_max(mut self, wait: Duration) -> Self {
        self.wait_max = wait;
        self
    }

    /// Sets how long a whole call may take, with all its attempts. A request's own deadline counts beside it.
    pub fn total(mut self, total: Duration) -> Self {
        self.total = Some(total);
        self
    }

    /// Pays every call from a ledger: what it may cost is set aside there before it is sent.
    ///
    /// Under the engine a run's calls are paid from the engine's budgets already; there a route needs no ledger of its own.
    pub fn budget(mut self, ledger: impl BudgetLedger) -> Self {
        self.ledger = Arc::new(ledger);
        self
    }

    /// Takes chance from here.
    pub fn env(mut self, env: Env) -> Self {
        self.env = env;
        self
    }

    /// Checks everything and builds the route. Nothing is sent.
    pub fn build(self) -> Result<RoutedModel, RouteError> {
        if self.endpoints.len() > ENDPOINTS_MAX {
            return Err(RouteError::TooMany);
        }
        let mut endpoints: Vec<Arc<LiveEndpoint>> = Vec::new();
        for endpoint in self.endpoints {
            let name = endpoint.name.to_string();
            if endpoints.iter().any(|known| *known.name == *name) {
                return Err(RouteError::Twin(name));
            }
            let endpoint = LiveEndpoint::new(endpoint).ok_or(RouteError::NoCredential(name))?;
            endpoints.push(Arc::new(endpoint));
        }
        let info = common(&endpoints).ok_or(RouteError::Empty)?;
        Ok(RoutedModel {
            inner: Arc::new(RouterInner {
                info,
                endpoints,
                retry: self.retry,
                fallback: self.fallback,
                delivery: self.delivery,
                wait_max: self.wait_max,
                total: self.total,
                ledger: self.ledger,
                env: self.env,
            }),
        })
    }
}

/// What may be relied on whichever endpoint answers; names and context are those of the first.
fn common(endpoints: &[Arc<LiveEndpoint>]) -> Option<ModelInfo> {
    let (first, others) = endpoints.split_first()?;
    let mut info = first.info.clone();
    for other in others.iter().map(|endpoint| &endpoint.info) {
        info.stand_ins.extend(other.names().map(|(at, name)| (at.to_owned(), name.to_owned())));
        info.max_output = info.max_output.zip(other.max_output).map(|(one, two)| one.max(two));
        info.pricing = info.pricing.zip(other.pricing).and_then(|(one, two)| one.max_prices(&two));
        info.tools &= other.tools;
        info.images &= other.images;
        info.native_output = match (info.native_output, other.native_output) {
            (NativeOutput::None, _) | (_, NativeOutput::None) => NativeOutput::None,
            (NativeOutput::WithTools, NativeOutput::WithTools) => NativeOutput::WithTools,
            _ => NativeOutput::WithoutTools,
        };
    }
    Some(info)
}
