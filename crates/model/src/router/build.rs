//! Builder of a route. It reports every configuration error before a request is sent.

use std::sync::Arc;
use std::time::Duration;

use provost_core::{Env, ErrorKind};

use super::budget::{BudgetLedger, NoBudget};
use super::endpoint::{Endpoint, LiveEndpoint};
use super::failure::FallbackPolicy;
use super::{ResponseBuffering, RoutedModel, RouterInner};
use crate::{ModelInfo, RetryPolicy, StructuredOutputSupport};

/// Largest number of endpoints in a route.
const ENDPOINTS_MAX: usize = 32;
/// Default time that a call waits for an available endpoint.
const MAX_WAIT_DEFAULT: Duration = Duration::from_secs(30);

/// Error in the configuration of a route.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The route has no endpoints.
    #[error("a route needs at least one endpoint: add one with `endpoint`")]
    Empty,
    /// The route has too many endpoints.
    #[error("a route has at most {ENDPOINTS_MAX} endpoints: remove some")]
    TooMany,
    /// Two endpoints have the same name. Names identify endpoints in responses and logs.
    #[error("two endpoints have the name `{0}`: rename one")]
    DuplicateEndpoint(String),
    /// An endpoint has no credentials.
    #[error("the endpoint `{0}` has no credential: add at least one")]
    NoCredential(String),
}

impl RouteError {
    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }
}

/// Builder of a [`RoutedModel`].
#[must_use]
pub struct RoutedModelBuilder {
    endpoints: Vec<Endpoint>,
    retry: RetryPolicy,
    fallback: FallbackPolicy,
    buffering: ResponseBuffering,
    max_wait: Duration,
    total_timeout: Option<Duration>,
    ledger: Arc<dyn BudgetLedger>,
    env: Env,
}

impl RoutedModelBuilder {
    pub(super) fn new() -> Self {
        Self {
            endpoints: Vec::new(),
            retry: RetryPolicy::default(),
            fallback: FallbackPolicy::default(),
            buffering: ResponseBuffering::default(),
            max_wait: MAX_WAIT_DEFAULT,
            total_timeout: None,
            ledger: Arc::new(NoBudget),
            env: Env::system(),
        }
    }

    /// Adds an endpoint. Endpoints are tried in the order in which they were added.
    pub fn endpoint(mut self, endpoint: Endpoint) -> Self {
        self.endpoints.push(endpoint);
        self
    }

    /// Sets the policy for retries at an endpoint that was already tried.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Sets the failures after which another endpoint is tried.
    pub fn fallback(mut self, policy: FallbackPolicy) -> Self {
        self.fallback = policy;
        self
    }

    /// Sets when deltas are delivered.
    pub fn buffering(mut self, buffering: ResponseBuffering) -> Self {
        self.buffering = buffering;
        self
    }

    /// Sets how long a call waits for an available endpoint. The default is 30 seconds.
    pub fn max_wait(mut self, wait: Duration) -> Self {
        self.max_wait = wait;
        self
    }

    /// Sets the time limit of a call with all its attempts. The deadline of a request applies as well.
    pub fn total_timeout(mut self, timeout: Duration) -> Self {
        self.total_timeout = Some(timeout);
        self
    }

    /// Sets the ledger that reserves the cost of each call before it is sent.
    ///
    /// Under the engine the calls of a run are already charged to the engine's budgets, so a route needs no ledger
    /// there.
    pub fn budget(mut self, ledger: impl BudgetLedger) -> Self {
        self.ledger = Arc::new(ledger);
        self
    }

    /// Sets the source of random numbers, from which retry delays take their jitter.
    pub fn env(mut self, env: Env) -> Self {
        self.env = env;
        self
    }

    /// Validates the configuration and builds the route. Sends no request. Returns an error if there is no endpoint,
    /// there are too many, an endpoint has no credential, or two endpoints have the same name.
    pub fn build(self) -> Result<RoutedModel, RouteError> {
        if self.endpoints.len() > ENDPOINTS_MAX {
            return Err(RouteError::TooMany);
        }
        let mut endpoints: Vec<Arc<LiveEndpoint>> = Vec::new();
        for endpoint in self.endpoints {
            let name = endpoint.name.to_string();
            if endpoints.iter().any(|other| *other.name == *name) {
                return Err(RouteError::DuplicateEndpoint(name));
            }
            let endpoint = LiveEndpoint::new(endpoint).ok_or(RouteError::NoCredential(name))?;
            endpoints.push(Arc::new(endpoint));
        }
        let info = common_info(&endpoints).ok_or(RouteError::Empty)?;
        Ok(RoutedModel {
            inner: Arc::new(RouterInner {
                info,
                endpoints,
                retry: self.retry,
                fallback: self.fallback,
                buffering: self.buffering,
                max_wait: self.max_wait,
                total_timeout: self.total_timeout,
                ledger: self.ledger,
                env: self.env,
            }),
        })
    }
}

/// Returns the properties that all endpoints have. Name and context window come from the first endpoint. `None` if
/// there is no endpoint.
fn common_info(endpoints: &[Arc<LiveEndpoint>]) -> Option<ModelInfo> {
    let (first, others) = endpoints.split_first()?;
    let mut info = first.info.clone();
    for other in others.iter().map(|endpoint| &endpoint.info) {
        info.fallbacks.extend(other.names().map(|(at, name)| (at.to_owned(), name.to_owned())));
        info.max_output = info.max_output.zip(other.max_output).map(|(one, two)| one.max(two));
        info.pricing = info.pricing.zip(other.pricing).and_then(|(one, two)| one.max_prices(&two));
        info.tools &= other.tools;
        info.images &= other.images;
        info.native_output = match (info.native_output, other.native_output) {
            (StructuredOutputSupport::None, _) | (_, StructuredOutputSupport::None) => {
                StructuredOutputSupport::None
            }
            (StructuredOutputSupport::WithTools, StructuredOutputSupport::WithTools) => {
                StructuredOutputSupport::WithTools
            }
            _ => StructuredOutputSupport::WithoutTools,
        };
    }
    Some(info)
}
