//! State that all handlers share.

use std::sync::Arc;

use provost_api::Problem;
use provost_engine::Engine;
use tokio_util::sync::CancellationToken;

use crate::auth;
use crate::config::AppOptions;
use crate::live::LiveEvents;
use crate::metrics::Metrics;
use crate::middleware::{BodyBudget, RateLimiter};
use crate::tool_service::ToolService;

/// A server. Clones share its state.
#[derive(Clone)]
pub struct App {
    state: Arc<AppState>,
}

/// State that the clones of a server share.
struct AppState {
    engine: Engine,
    options: AppOptions,
    rate_limiter: RateLimiter,
    bodies: BodyBudget,
    metrics: Metrics,
    live: LiveEvents,
    shutdown: CancellationToken,
}

impl App {
    /// Creates a server for an engine. It serves requests as soon as a listener or a local transport passes them on.
    #[expect(clippy::expect_used, reason = "metric names are constants, and a test registers them")]
    pub fn new(engine: Engine, options: AppOptions) -> Self {
        let limits = &options.limits;
        let state = AppState {
            rate_limiter: RateLimiter::new(limits.rate_per_second, limits.rate_burst),
            bodies: BodyBudget::new(limits.bodies_bytes_max),
            metrics: Metrics::new().expect("valid metric names"),
            live: LiveEvents::default(),
            shutdown: CancellationToken::new(),
            engine,
            options,
        };
        Self { state: Arc::new(state) }
    }

    /// Creates an admin token for all namespaces and returns its text. `None` if a valid one exists.
    pub async fn bootstrap_admin_token(&self) -> Result<Option<String>, Problem> {
        auth::bootstrap_admin_token(self).await
    }

    /// Makes all open streams and all requests that wait for a run end, so that their clients connect to another
    /// server. Returns at once. It cannot be undone.
    pub fn begin_shutdown(&self) {
        self.state.shutdown.cancel();
    }

    /// Returns the number of open streams and of requests that wait for the end of a run.
    pub fn open_streams(&self) -> usize {
        self.state.live.subscriber_count()
    }

    /// Returns the token that is cancelled when the server shuts down.
    pub(crate) fn shutdown(&self) -> &CancellationToken {
        &self.state.shutdown
    }

    /// Returns the engine.
    pub(crate) fn engine(&self) -> &Engine {
        &self.state.engine
    }

    pub(crate) fn options(&self) -> &AppOptions {
        &self.state.options
    }

    /// Returns the declared tools. `None` if the server has none.
    pub(crate) fn tools(&self) -> Option<&dyn ToolService> {
        self.state.options.tools.as_deref()
    }

    pub(crate) fn rate_limiter(&self) -> &RateLimiter {
        &self.state.rate_limiter
    }

    pub(crate) fn bodies(&self) -> &BodyBudget {
        &self.state.bodies
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.state.metrics
    }

    pub(crate) fn live(&self) -> &LiveEvents {
        &self.state.live
    }
}
