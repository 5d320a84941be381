//! Selects and opens models.

mod demo;
mod probe;
mod select;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use lru::LruCache;
use parking_lot::Mutex;
use provost_model::{ChatModel, Endpoint, ModelCatalog, RetryPolicy, RoutedModel};
use provost_provider::wire::WireFormat;
use provost_provider::{
    Anthropic, HttpModel, HttpModelBuilder, ModelBuildError, OpenAi, ProviderRegistry,
    openai_compatible,
};

use self::demo::DemoModel;
pub use self::probe::{Address, connect, ollama_address, ollama_models, parse_url};
pub use self::select::{Environment, ModelChoice, ModelRequest, Provider, select};
use crate::error::HostError;

/// Timeout of connecting to a local server.
pub const PROBE_TIMEOUT: Duration = Duration::from_millis(150);

/// Number of open models. Agents choose models, so their number has no other bound.
const OPEN_MODELS_MAX: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// Models of this process, by request. A model stays open until many others have been used since.
pub struct Models {
    /// Delay of the demo model before each word.
    demo_token_delay: Duration,
    /// Catalog entries of the user, which take precedence over the built-in catalog.
    catalog: ModelCatalog,
    opened: Mutex<LruCache<ModelRequest, Arc<dyn ChatModel>>>,
}

impl Models {
    /// Creates an empty set. The demo model waits `demo_token_delay` before each word. Entries of `catalog` take
    /// precedence over the built-in catalog.
    pub fn new(demo_token_delay: Duration, catalog: ModelCatalog) -> Self {
        Self { demo_token_delay, catalog, opened: Mutex::new(LruCache::new(OPEN_MODELS_MAX)) }
    }

    /// Opens the selected model, so that an invalid configuration is reported before a run needs the model.
    pub fn open(&self, request: ModelRequest, choice: &ModelChoice) -> Result<(), HostError> {
        let model = self.route(choice)?;
        self.opened.lock().put(request, model);
        Ok(())
    }

    /// Returns the model of a request. The first call selects and opens it. Returns an error if its configuration is
    /// invalid.
    pub(crate) fn get_or_open(
        &self,
        request: ModelRequest,
    ) -> Result<Arc<dyn ChatModel>, HostError> {
        if let Some(model) = self.opened.lock().get(&request) {
            return Ok(Arc::clone(model));
        }
        let model = self.route(&select_model(&request)?)?;
        self.opened.lock().put(request, Arc::clone(&model));
        Ok(model)
    }

    /// Opens the model of a choice. With fallbacks, the model is a route over all of them.
    fn route(&self, choice: &ModelChoice) -> Result<Arc<dyn ChatModel>, HostError> {
        if choice.fallbacks.is_empty() {
            return self.open_one(choice, RetryPolicy::default());
        }
        let first = ModelChoice { fallbacks: Vec::new(), ..choice.clone() };
        let mut route = RoutedModel::builder();
        for candidate in std::iter::once(&first).chain(&choice.fallbacks) {
            // The route retries, because it knows the other endpoints.
            let model = self.open_one(candidate, RetryPolicy::never())?;
            route = route.endpoint(Endpoint::new(candidate.name(), model));
        }
        let route = route.build().map_err(|error| HostError::invalid(error.to_string()))?;
        Ok(Arc::new(route))
    }

    /// Opens one model without its fallbacks.
    fn open_one(
        &self,
        choice: &ModelChoice,
        retry: RetryPolicy,
    ) -> Result<Arc<dyn ChatModel>, HostError> {
        let invalid = |error: ModelBuildError| HostError::new(error.kind(), error.to_string());
        let model = match choice.provider {
            Provider::Demo => return Ok(Arc::new(DemoModel::new(self.demo_token_delay))),
            Provider::Anthropic => self.build(Anthropic::builder(&choice.model), choice, retry),
            Provider::Vendor(_) => {
                let env = |name: &str| std::env::var(name).ok();
                let builder =
                    ProviderRegistry::builtin().builder(&choice.name(), env).map_err(invalid)?;
                self.build(builder, choice, retry)
            }
            Provider::OpenAi => self.build(OpenAi::builder(&choice.model), choice, retry),
            Provider::Ollama | Provider::OpenAiCompatible => {
                let url = choice.base_url.as_deref().unwrap_or_default();
                let builder = openai_compatible(choice.provider.as_str(), url, &choice.model);
                self.build(builder, choice, retry)
            }
        };
        Ok(Arc::new(model.map_err(invalid)?))
    }

    /// Builds a model with the catalog and the settings of a choice.
    fn build<W: WireFormat>(
        &self,
        mut builder: HttpModelBuilder<W>,
        choice: &ModelChoice,
        retry: RetryPolicy,
    ) -> Result<HttpModel, ModelBuildError> {
        builder = builder.catalog(&self.catalog);
        if let Some(url) = &choice.base_url {
            builder = builder.base_url(url);
        }
        if let Some(key) = &choice.key {
            builder = builder.api_key(key.clone());
        }
        builder.retry(retry).build()
    }
}

/// Selects a model with the environment variables of this process, and probes a local Ollama server if needed.
pub fn select_model(request: &ModelRequest) -> Result<ModelChoice, HostError> {
    let env = |name: &str| std::env::var(name).ok();
    let ollama = |address: &Address| ollama_models(address, PROBE_TIMEOUT);
    let environment = Environment { env: &env, ollama: &ollama };
    select(request, &environment)
}
