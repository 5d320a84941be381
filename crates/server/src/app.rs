//! What all handlers share.

use std::sync::Arc;

use provost_api::Problem;
use provost_engine::Engine;
use tokio_util::sync::CancellationToken;

use crate::auth::{self, KnownTokens};
use crate::config::AppOptions;
use crate::live::Hub;
use crate::metrics::Metrics;
use crate::middleware::{BodyBudget, Rates};
use crate::tool_catalog::ToolHouse;

/// The server behind its router. Clones share it.
#[derive(Clone)]
pub struct App {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Engine,
    options: AppOptions,
    tokens: KnownTokens,
    rates: Rates,
    bodies: BodyBudget,
    metrics: Metrics,
    live: Hub,
    shutdown: CancellationToken,
}

impl App {
    /// Builds a server over an engine.
    #[expect(
        clippy::expect_used,
        reason = "the names of metrics are constants, which a test registers"
    )]
    pub fn new(engine: Engine, options: AppOptions) -> Self {
        let limits = &options.limits;
        let shared = Shared {
            tokens: KnownTokens::default(),
            rates: Rates::new(limits.rate_per_second, limits.rate_burst),
            bodies: BodyBudget::new(limits.bodies_bytes_max),
            metrics: Metrics::new().expect("metrics with legal names"),
            live: Hub::default(),
            shutdown: CancellationToken::new(),
            engine,
            options,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Creates a token with every permission, unless a usable one exists. Its text is shown this once.
    pub async fn first_token(&self) -> Result<Option<String>, Problem> {
        auth::first(self).await
    }

    /// Ends streams and waits, so that their clients reconnect elsewhere. It cannot be undone.
    pub fn drain(&self) {
        self.shared.shutdown.cancel();
    }

    /// Returns how many streams are open and how many calls wait for the end of a run.
    pub fn viewers(&self) -> usize {
        self.shared.live.viewers()
    }

    /// Cancelled when the server stops: streams end, and calls that wait are answered.
    pub(crate) fn shutdown(&self) -> &CancellationToken {
        &self.shared.shutdown
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    pub(crate) fn options(&self) -> &AppOptions {
        &self.shared.options
    }

    pub(crate) fn tools(&self) -> Option<&dyn ToolHouse> {
        self.shared.options.tools.as_deref()
    }

    pub(crate) fn tokens(&self) -> &KnownTokens {
        &self.shared.tokens
    }

    pub(crate) fn rates(&self) -> &Rates {
        &self.shared.rates
    }

    pub(crate) fn bodies(&self) -> &BodyBudget {
        &self.shared.bodies
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    pub(crate) fn live(&self) -> &Hub {
        &self.shared.live
    }
}
