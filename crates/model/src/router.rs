//! A route: one model made of several endpoints.
//!
//! The router sends a call to the first available endpoint and falls back to the next one if the class of the failure
//! allows it. It retries by its [`RetryPolicy`], distributes calls over several credentials, opens a circuit breaker for
//! an endpoint that keeps failing, respects limits per minute and reserves money before it sends a request.
//!
//! The modules `availability`, `failure`, `history`, `circuit_breaker` and `sliding_window` decide and are pure. The
//! modules `planner` and `stream` wait and send.
//!
//! Invariants: no lock is held across an await, and the endpoints share no lock. A call is never retried after a delta
//! was delivered.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use provost_model::{ChatRequest, Endpoint, ModelErrorClass, RoutedModel, ScriptedModel, complete, fail, text};
//!
//! let overloaded = ScriptedModel::new().turn(fail(ModelErrorClass::Overloaded, "overloaded"));
//! let model = RoutedModel::builder()
//!     .endpoint(Endpoint::new("first", overloaded))
//!     .endpoint(Endpoint::new("second", ScriptedModel::new().turn(text("Hello!"))))
//!     .build()
//!     .unwrap();
//! let response = complete(&model, ChatRequest::default()).await.unwrap();
//! assert_eq!(response.message.text(), "Hello!");
//! assert_eq!(response.metadata["route"]["endpoint"], "second");
//! # });
//! ```

mod attempt;
mod availability;
mod budget;
mod build;
mod circuit_breaker;
mod endpoint;
mod failure;
mod history;
mod planner;
mod rate_limiter;
mod sliding_window;
mod stream;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use provost_core::{Env, Money};
use tokio::time::Instant;

pub use budget::{
    BudgetError, BudgetLedger, BudgetReservation, BudgetStatus, InMemoryLedger, NoBudget,
    ReservationRequest, ReserveFuture,
};
pub use build::{RouteError, RoutedModelBuilder};
pub use circuit_breaker::{CircuitBreakerConfig, CircuitState};
pub use endpoint::{Endpoint, EndpointStatus};
pub use failure::FallbackPolicy;
pub use rate_limiter::RateLimits;

use self::endpoint::LiveEndpoint;
use crate::{ChatModel, ChatRequest, ModelInfo, ModelResponse, ModelStream, RetryPolicy};

/// Name of the metadata with the endpoint of a response and the failed attempts before it.
const ROUTE: &str = "route";

/// When the deltas of a response are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResponseBuffering {
    /// Deltas are delivered as they arrive. After the first delta the call cannot be retried.
    #[default]
    Streaming,
    /// Deltas are delivered when the response is complete, so a response that breaks off can be retried.
    Buffered,
}

/// A model made of several endpoints. Clones are cheap and share all state.
#[derive(Clone)]
pub struct RoutedModel {
    inner: Arc<RouterInner>,
}

/// Positions of an endpoint and of one of its credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RouteId {
    endpoint: usize,
    credential: usize,
}

/// State that the clones of a [`RoutedModel`] share.
struct RouterInner {
    info: ModelInfo,
    endpoints: Vec<Arc<LiveEndpoint>>,
    retry: RetryPolicy,
    fallback: FallbackPolicy,
    buffering: ResponseBuffering,
    max_wait: Duration,
    total_timeout: Option<Duration>,
    ledger: Arc<dyn BudgetLedger>,
    env: Env,
}

impl RoutedModel {
    /// Creates a builder.
    pub fn builder() -> RoutedModelBuilder {
        RoutedModelBuilder::new()
    }

    /// Returns the status of the endpoints, in their order.
    pub fn endpoints(&self) -> Vec<EndpointStatus> {
        let now = Instant::now();
        self.inner.endpoints.iter().map(|endpoint| endpoint.status(now)).collect()
    }
}

impl ChatModel for RoutedModel {
    /// Returns the properties that all endpoints have. Each price is the highest of the endpoints; there is none if the
    /// price of one endpoint is unknown.
    fn info(&self) -> &ModelInfo {
        &self.inner.info
    }

    fn stream(&self, request: ChatRequest) -> ModelStream {
        Box::pin(stream::call(Arc::clone(&self.inner), request))
    }

    /// Calculates the cost with the prices of the endpoint that responded. `None` if the price or the usage is unknown.
    fn cost(&self, response: &ModelResponse) -> Option<Money> {
        let name = response.metadata.get(ROUTE).and_then(|route| route.get("endpoint"));
        let name = name.and_then(|name| name.as_str());
        let endpoint = self.inner.endpoints.iter().find(|endpoint| Some(&*endpoint.name) == name);
        let pricing = endpoint.map_or(&self.inner.info, |endpoint| &endpoint.info).pricing?;
        response.usage_known.then(|| pricing.cost(&response.usage))
    }
}

impl fmt::Debug for RoutedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> =
            self.inner.endpoints.iter().map(|endpoint| &*endpoint.name).collect();
        f.debug_struct("RoutedModel").field("endpoints", &names).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
