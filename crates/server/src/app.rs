//! What all handlers share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use provost_api::Problem;
use provost_core::Env;
use provost_engine::Engine;
use tokio_util::sync::CancellationToken;

use crate::auth::{self, KnownTokens};
use crate::config::Limits;
use crate::controllers;
use crate::live::{Hub, LiveEvents};
use crate::metrics::Metrics;
use crate::middleware::{BodyBudget, Rates};
use crate::tool_catalog::ToolHouse;
use crate::webhook::MasterKey;

/// How the server behaves.
#[derive(Clone)]
pub struct AppOptions {
    /// Bytes of a request body at most.
    pub body_bytes_max: usize,
    /// What callers may use of it.
    pub limits: Limits,
    /// True if `/metrics` needs no token.
    pub open_metrics: bool,
    /// The clock by which tokens expire.
    pub env: Env,
    /// What the keys of webhooks are derived from; without it none can be made.
    pub master_key: Option<MasterKey>,
    /// True if webhooks may lead into this machine's network, and without TLS: for tests.
    pub allow_private_webhooks: bool,
    /// What is known of tools.
    pub tools: Option<Arc<dyn ToolHouse>>,
}

impl Default for AppOptions {
    fn default() -> Self {
        Self {
            body_bytes_max: 32 * 1024 * 1024,
            limits: Limits::default(),
            open_metrics: false,
            env: Env::system(),
            master_key: None,
            allow_private_webhooks: false,
            tools: None,
        }
    }
}

/// The server behind its router. Clones share it.
#[derive(Clone)]
pub struct App {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) options: AppOptions,
    pub(crate) tokens: KnownTokens,
    pub(crate) rates: Rates,
    pub(crate) bodies: BodyBudget,
    pub(crate) metrics: Metrics,
    pub(crate) hub: Arc<Hub>,
    /// Cancelled once the server stops: streams end, waits are answered, nothing new is begun.
    pub(crate) draining: CancellationToken,
    /// The same for whoever only looks: asking the token takes a lock that all connections share.
    pub(crate) stopping: AtomicBool,
}

impl App {
    /// Builds a server over an engine. `live` is what the engine was built with the sink of.
    pub fn new(engine: Engine, live: LiveEvents, options: AppOptions) -> Self {
        let limits = &options.limits;
        let shared = Shared {
            tokens: KnownTokens::default(),
            rates: Rates::new(limits.rate_per_second, limits.rate_burst),
            bodies: BodyBudget::new(limits.bodies_bytes_max),
            metrics: Metrics::new(&controllers::table()),
            hub: live.0,
            draining: CancellationToken::new(),
            stopping: AtomicBool::new(false),
            engine,
            options,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Makes a token that may do everything, unless there is one that can be used. Its text is shown this once.
    pub async fn first_token(&self) -> Result<Option<String>, Problem> {
        auth::first(self).await
    }

    /// Ends streams and waits, so that their callers go elsewhere. There is no way back.
    pub fn drain(&self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.draining.cancel();
        self.shared.hub.close();
    }

    /// How many streams are open and how many calls wait for the end of a run.
    pub fn viewers(&self) -> usize {
        self.shared.hub.viewers()
    }

    /// True once the server stops.
    pub(crate) fn is_stopping(&self) -> bool {
        self.shared.stopping.load(Ordering::SeqCst)
    }

    pub(crate) fn tools(&self) -> Option<&dyn ToolHouse> {
        self.shared.options.tools.as_deref()
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.shared.engine
    }
}
