//! Building an [`HttpModel`]: everything that can be wrong is said here, before any request.

use provost_core::{Env, Secret};
use provost_model::{Catalog, ModelInfo, RetryPolicy};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue};

use super::error::required_key;
use super::header::request_headers;
use super::url::base_url;
use super::vendor::VendorClient;
use super::{BuildError, HttpModel, HttpModelInner, Timeouts, client};
use crate::wire::Wire;
use crate::wire::anthropic::{AnthropicMessages, Thinking};
use crate::wire::bedrock::{AwsCredentials, BedrockConverse};
use crate::wire::openai_chat::OpenAiChat;

/// Collects what a model needs.
#[must_use]
pub struct HttpModelBuilder<W> {
    wire: W,
    info: ModelInfo,
    base_url: String,
    key: Option<Secret<String>>,
    key_variable: Option<String>,
    headers: Vec<(String, Secret<String>)>,
    client: Option<reqwest::Client>,
    timeouts: Timeouts,
    retry: RetryPolicy,
    env: Env,
}

impl<W: Wire> HttpModelBuilder<W> {
    pub(super) fn new(provider: String, model: String, wire: W) -> Self {
        Self {
            wire,
            info: ModelInfo::unknown(provider, model),
            base_url: String::new(),
            key: None,
            key_variable: None,
            headers: Vec::new(),
            client: None,
            timeouts: Timeouts::default(),
            retry: RetryPolicy::default(),
            env: Env::system(),
        }
    }

    /// The address of the API, such as `https://api.openai.com/v1`.
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = url.into();
        self
    }

    /// Uses the catalog's entry for this model, if it has one, instead of the entry of the catalog that ships with Provost.
    pub fn catalog(mut self, catalog: &Catalog) -> Self {
        if let Some(entry) = catalog.entry(&self.info.provider, &self.info.model) {
            entry.apply_to(&mut self.info);
            self.wire.configure(entry);
        }
        self
    }

    /// The key.
    pub fn api_key(mut self, key: impl Into<Secret<String>>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Says that building without a key is a mistake, and which variable usually holds it.
    pub fn require_key(mut self, variable: impl Into<String>) -> Self {
        self.key_variable = Some(variable.into());
        self
    }

    /// Adds a header to every request; its value is kept as a secret.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Secret<String>>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Uses this client. Its connect timeout, proxies and redirects are the caller's business.
    pub fn client(mut self, client: reqwest::Client) -> Self {
        self.client = Some(client);
        self
    }

    /// Sets how long each stage may take.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// Sets how failed calls are tried again.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Takes time and chance from here.
    pub fn env(mut self, env: Env) -> Self {
        self.env = env;
        self
    }

    /// Replaces what is known about the model.
    pub fn info(mut self, info: ModelInfo) -> Self {
        self.info = info;
        self
    }

    /// Changes what is known about the model: a price, a limit, an ability.
    pub fn with_info(mut self, change: impl FnOnce(&mut ModelInfo)) -> Self {
        change(&mut self.info);
        self
    }

    /// Changes the options of the wire.
    pub fn with_wire(mut self, change: impl FnOnce(&mut W)) -> Self {
        change(&mut self.wire);
        self
    }

    /// The same, whichever its wire is.
    pub fn boxed(self) -> HttpModelBuilder<Box<dyn Wire>> {
        HttpModelBuilder {
            wire: Box::new(self.wire),
            info: self.info,
            base_url: self.base_url,
            key: self.key,
            key_variable: self.key_variable,
            headers: self.headers,
            client: self.client,
            timeouts: self.timeouts,
            retry: self.retry,
            env: self.env,
        }
    }

    /// Checks everything and builds the model. Nothing is sent.
    pub fn build(self) -> Result<HttpModel, BuildError> {
        if self.info.model.trim().is_empty() {
            return Err(BuildError::Model);
        }
        let key = required_key(self.key, &self.info.provider, self.key_variable.as_deref())?;
        let mut headers = request_headers(&self.headers)?;
        headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static(self.wire.framing().media_type()));
        let key_text = key.as_ref().map(|key| key.expose().as_str());
        if self.wire.headers(key_text, &mut headers).is_err() {
            return Err(BuildError::Key);
        }
        let base = base_url(&self.base_url)?;
        let mut url = base.clone();
        let route = self.wire.route(base.path(), &self.info.model);
        let (path, query) = match route.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (route.as_str(), None),
        };
        url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
        url.set_query(query);
        let client = match self.client {
            Some(client) => client,
            None => client::client(self.timeouts.connect, url.scheme() == "https")?,
        };
        let Self { timeouts, retry, env, .. } = self;
        Ok(HttpModel::new(HttpModelInner {
            wire: Box::new(self.wire),
            info: self.info,
            url,
            vendor: VendorClient { client, headers, key, timeouts, retry, env },
        }))
    }
}

impl HttpModelBuilder<OpenAiChat> {
    /// Sends earlier reasoning back, for servers whose models want it.
    pub fn replay_reasoning(self, replay: bool) -> Self {
        self.with_wire(|wire| wire.replay_reasoning = replay)
    }

    /// Keeps a top-level field of the answers as metadata under `openai.<field>`.
    pub fn metadata_field(self, field: impl Into<String>) -> Self {
        self.with_wire(|wire| wire.metadata_fields.push(field.into()))
    }
}

impl HttpModelBuilder<AnthropicMessages> {
    /// Turns the marks for the vendor's prompt cache on or off.
    pub fn prompt_cache(self, on: bool) -> Self {
        self.with_wire(|wire| wire.prompt_cache = on)
    }

    /// Sets how the model is asked to think.
    pub fn thinking(self, thinking: Thinking) -> Self {
        self.with_wire(|wire| wire.thinking = thinking)
    }
}

impl HttpModelBuilder<BedrockConverse> {
    /// Signs requests instead of sending a key.
    pub fn credentials(mut self, credentials: AwsCredentials) -> Self {
        self.key_variable = None;
        self.with_wire(|wire| wire.credentials = Some(credentials))
    }
}

#[cfg(test)]
mod tests;
