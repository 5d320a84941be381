//! Models: which one is used and why, and opening it.

mod demo;
mod probe;
mod select;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use provost_model::{ChatModel, Endpoint, RetryPolicy, RoutedModel};
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
    opened: Mutex<HashMap<ModelRequest, Arc<dyn ChatModel>>>,
}

impl Models {
    /// Models of which none is opened yet.
    pub fn new(demo_token_delay: Duration) -> Self {
        Self { demo_token_delay, opened: Mutex::default() }
    }

    /// Opens the chosen model, which reports what is wrong with it before anything is stored.
    pub fn open(&self, wanted: ModelRequest, choice: &Choice) -> Result<(), HostError> {
        let model = open_model(choice, self.demo_token_delay)?;
        self.opened().insert(wanted, model);
        Ok(())
    }

    pub(crate) fn get(&self, wanted: ModelRequest) -> Result<Arc<dyn ChatModel>, HostError> {
        if let Some(model) = self.opened().get(&wanted) {
            return Ok(Arc::clone(model));
        }
        let model = open_model(&choose(&wanted)?, self.demo_token_delay)?;
        self.opened().insert(wanted, Arc::clone(&model));
        Ok(model)
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

/// The model of a decision: a route, if others stand in for it.
pub fn open_model(choice: &Choice, pace: Duration) -> Result<Arc<dyn ChatModel>, HostError> {
    if choice.stand_ins.is_empty() {
        return open_one(choice, pace, RetryPolicy::default());
    }
    let first = Choice { stand_ins: Vec::new(), ..choice.clone() };
    let mut route = RoutedModel::builder();
    for each in std::iter::once(&first).chain(&choice.stand_ins) {
        // The route tries again, and knows who else could be asked.
        let model = open_one(each, pace, RetryPolicy::never())?;
        route = route.endpoint(Endpoint::new(each.name(), model));
    }
    let route = route.build().map_err(|error| HostError::invalid(error.to_string()))?;
    Ok(Arc::new(route))
}

fn open_one(
    choice: &Choice,
    pace: Duration,
    retry: RetryPolicy,
) -> Result<Arc<dyn ChatModel>, HostError> {
    let refused = |error: BuildError| HostError::new(error.kind(), error.to_string());
    let model = match choice.provider {
        Provider::Demo => return Ok(Arc::new(DemoModel::new(pace))),
        Provider::Anthropic => finished(Anthropic::builder(&choice.model), choice, retry),
        Provider::Vendor(_) => {
            let env = |name: &str| std::env::var(name).ok();
            let builder = Providers::builtin().builder(&choice.name(), env).map_err(refused)?;
            finished(builder, choice, retry)
        }
        Provider::OpenAi => finished(OpenAi::builder(&choice.model), choice, retry),
        Provider::Ollama | Provider::Compatible => {
            let url = choice.base_url.as_deref().unwrap_or_default();
            let builder = openai_compatible(choice.provider.as_str(), url, &choice.model);
            finished(builder, choice, retry)
        }
    };
    Ok(Arc::new(model.map_err(refused)?))
}

/// What a decision says besides the provider and the model.
fn finished<W: Wire>(
    mut builder: HttpModelBuilder<W>,
    choice: &Choice,
    retry: RetryPolicy,
) -> Result<HttpModel, BuildError> {
    if let Some(url) = &choice.base_url {
        builder = builder.base_url(url);
    }
    if let Some(key) = &choice.key {
        builder = builder.api_key(key.clone());
    }
    builder.retry(retry).build()
}
