//! Models: which one is used and why, and opening it.

mod demo;
mod probe;
mod select;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use provost_model::{Catalog, ChatModel, Endpoint, RetryPolicy, RoutedModel};
use provost_provider::wire::Wire;
use provost_provider::{
    Anthropic, BuildError, HttpModel, HttpModelBuilder, OpenAi, Providers, openai_compatible,
};

use self::demo::DemoModel;
pub use self::probe::{Address, connect, ollama_address, ollama_models, parse_url};
pub use self::select::{Choice, Environment, ModelRequest, Provider, select};
use crate::error::HostError;

/// How long it may take to reach a local server.
pub const PROBE_TIMEOUT: Duration = Duration::from_millis(150);

/// The models of this process, each opened once.
pub struct Models {
    /// How long the demo model waits before each word.
    demo_token_delay: Duration,
    /// The user's entries; they take precedence over the catalog that ships with Provost.
    catalog: Catalog,
    opened: Mutex<HashMap<ModelRequest, Arc<dyn ChatModel>>>,
}

impl Models {
    /// Creates an empty set. The demo model waits `demo_token_delay` before each word; entries of `catalog` take precedence
    /// over the catalog that ships with Provost.
    pub fn new(demo_token_delay: Duration, catalog: Catalog) -> Self {
        Self { demo_token_delay, catalog, opened: Mutex::default() }
    }

    /// Opens the chosen model, which reports what is wrong with it before anything is stored.
    pub fn open(&self, wanted: ModelRequest, choice: &Choice) -> Result<(), HostError> {
        let model = self.route(choice)?;
        self.opened().insert(wanted, model);
        Ok(())
    }

    pub(crate) fn get(&self, wanted: ModelRequest) -> Result<Arc<dyn ChatModel>, HostError> {
        if let Some(model) = self.opened().get(&wanted) {
            return Ok(Arc::clone(model));
        }
        let model = self.route(&choose(&wanted)?)?;
        self.opened().insert(wanted, Arc::clone(&model));
        Ok(model)
    }

    /// Opens the model of a choice: a route, if the choice has fallbacks.
    fn route(&self, choice: &Choice) -> Result<Arc<dyn ChatModel>, HostError> {
        if choice.stand_ins.is_empty() {
            return self.open_one(choice, RetryPolicy::default());
        }
        let first = Choice { stand_ins: Vec::new(), ..choice.clone() };
        let mut route = RoutedModel::builder();
        for each in std::iter::once(&first).chain(&choice.stand_ins) {
            // The route retries, because it knows the other endpoints.
            let model = self.open_one(each, RetryPolicy::never())?;
            route = route.endpoint(Endpoint::new(each.name(), model));
        }
        let route = route.build().map_err(|error| HostError::invalid(error.to_string()))?;
        Ok(Arc::new(route))
    }

    fn open_one(
        &self,
        choice: &Choice,
        retry: RetryPolicy,
    ) -> Result<Arc<dyn ChatModel>, HostError> {
        let invalid = |error: BuildError| HostError::new(error.kind(), error.to_string());
        let model = match choice.provider {
            Provider::Demo => return Ok(Arc::new(DemoModel::new(self.demo_token_delay))),
            Provider::Anthropic => self.build(Anthropic::builder(&choice.model), choice, retry),
            Provider::Vendor(_) => {
                let env = |name: &str| std::env::var(name).ok();
                let builder = Providers::builtin().builder(&choice.name(), env).map_err(invalid)?;
                self.build(builder, choice, retry)
            }
            Provider::OpenAi => self.build(OpenAi::builder(&choice.model), choice, retry),
            Provider::Ollama | Provider::Compatible => {
                let url = choice.base_url.as_deref().unwrap_or_default();
                let builder = openai_compatible(choice.provider.as_str(), url, &choice.model);
                self.build(builder, choice, retry)
            }
        };
        Ok(Arc::new(model.map_err(invalid)?))
    }

    /// Adds the catalog and the settings of a choice to a builder.
    fn build<W: Wire>(
        &self,
        mut builder: HttpModelBuilder<W>,
        choice: &Choice,
        retry: RetryPolicy,
    ) -> Result<HttpModel, BuildError> {
        builder = builder.catalog(&self.catalog);
        if let Some(url) = &choice.base_url {
            builder = builder.base_url(url);
        }
        if let Some(key) = &choice.key {
            builder = builder.api_key(key.clone());
        }
        builder.retry(retry).build()
    }

    fn opened(&self) -> MutexGuard<'_, HashMap<ModelRequest, Arc<dyn ChatModel>>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Decides which model to use, from the real environment.
pub fn choose(wanted: &ModelRequest) -> Result<Choice, HostError> {
    let env = |name: &str| std::env::var(name).ok();
    let ollama = |address: &Address| ollama_models(address, PROBE_TIMEOUT);
    let world = Environment { env: &env, ollama: &ollama };
    select(wanted, &world)
}
