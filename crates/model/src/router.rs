//! A route: one model made of several endpoints.
//!
//! It asks the first endpoint that works, falls back to the next where the class of a failure allows it, tries again as the
//! [`RetryPolicy`] says, spreads calls over several credentials, leaves endpoints alone that keep failing, stays within limits per
//! minute and sets money aside before anything is sent. Pure functions decide, in
//! `availability`, `failure`, `history`, `circuit_breaker` and `window`; `planner` and `stream` act.
//!
//! Invariant: no lock is held across an await, and none is shared by all endpoints. Nothing is asked again after a piece of an answer
//! was given out.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use provost_model::{ChatRequest, Endpoint, ModelErrorClass, RoutedModel, ScriptedModel, complete, fail, text};
//!
//! let broken = ScriptedModel::new().turn(fail(ModelErrorClass::Overloaded, "too much to do"));
//! let model = RoutedModel::builder()
//!     .endpoint(Endpoint::new("first", broken))
//!     .endpoint(Endpoint::new("second", ScriptedModel::new().turn(text("Hello!"))))
//!     .build()
//!     .unwrap();
//! let answer = complete(&model, ChatRequest::default()).await.unwrap();
//! assert_eq!(answer.message.text(), "Hello!");
//! assert_eq!(answer.metadata["route"]["endpoint"], "second");
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
mod stream;
mod window;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use provost_core::{Env, Money};
use tokio::time::Instant;

pub use budget::{
    BudgetHold, BudgetLedger, BudgetRefusal, BudgetWish, CapState, HoldFuture, MemoryLedger,
    Unbounded,
};
pub use build::{RouteError, RoutedModelBuilder};
pub use circuit_breaker::{BreakerPolicy, BreakerState};
pub use endpoint::{Endpoint, EndpointState};
pub use failure::FallbackRules;
pub use rate_limiter::Limits;

use self::endpoint::LiveEndpoint;
use crate::{ChatModel, ChatRequest, ModelInfo, ModelResponse, ModelStream, RetryPolicy};

/// The metadata of an answer that tells which endpoint gave it, and who failed before.
const ROUTE: &str = "route";

/// When the pieces of an answer are given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Delivery {
    /// As they come. From the first one on there is no way back.
    #[default]
    Live,
    /// When the answer is whole: one that breaks off in the middle can be asked for again.
    Whole,
}

/// A model made of several endpoints. Cheap to clone: clones share everything.
#[derive(Clone)]
pub struct RoutedModel {
    inner: Arc<RouterInner>,
}

/// One credential of one endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RouteId {
    endpoint: usize,
    credential: usize,
}

struct RouterInner {
    info: ModelInfo,
    endpoints: Vec<Arc<LiveEndpoint>>,
    retry: RetryPolicy,
    fallback: FallbackRules,
    delivery: Delivery,
    wait_max: Duration,
    total: Option<Duration>,
    ledger: Arc<dyn BudgetLedger>,
    env: Env,
}

impl RoutedModel {
    /// Begins a route.
    pub fn builder() -> RoutedModelBuilder {
        RoutedModelBuilder::new()
    }

    /// How the endpoints are, in their order.
    pub fn endpoints(&self) -> Vec<EndpointState> {
        let now = Instant::now();
        self.inner.endpoints.iter().map(|endpoint| endpoint.state(now)).collect()
    }
}

impl ChatModel for RoutedModel {
    /// What holds for all endpoints: the prices are the highest of each, and there are none if one endpoint has none.
    fn info(&self) -> &ModelInfo {
        &self.inner.info
    }

    fn stream(&self, request: ChatRequest) -> ModelStream {
        Box::pin(stream::call(Arc::clone(&self.inner), request))
    }

    /// By the prices of the endpoint that answered.
    fn cost(&self, response: &ModelResponse) -> Option<Money> {
        let name = response.metadata.get(ROUTE).and_then(|route| route.get("endpoint"));
        let name = name.and_then(|name| name.as_str());
        let endpoint = self.inner.endpoints.iter().find(|known| Some(&*known.name) == name);
        let pricing = endpoint.map_or(&self.inner.info, |known| &known.info).pricing?;
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
