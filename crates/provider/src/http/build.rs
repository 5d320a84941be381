//! Builder of an [`HttpModel`]. It reports every configuration error before a request is sent.

use provost_core::{Env, Secret};
use provost_model::{ModelCatalog, ModelInfo, RetryPolicy};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue};

use super::error::check_key;
use super::header::request_headers;
use super::url::parse_base_url;
use super::vendor_client::VendorClient;
use super::{HttpModel, HttpModelInner, ModelBuildError, Timeouts, client};
use crate::wire::WireFormat;
use crate::wire::anthropic::{AnthropicMessages, Thinking};
use crate::wire::bedrock::{AwsCredentials, BedrockConverse};
use crate::wire::openai_chat::OpenAiChat;

/// Builder of an [`HttpModel`].
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

impl<W: WireFormat> HttpModelBuilder<W> {
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

    /// Sets the base URL of the API, such as `https://api.openai.com/v1`.
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = url.into();
        self
    }

    /// Applies the properties in the catalog's entry for this model. Changes nothing if the catalog has no entry.
    pub fn catalog(mut self, catalog: &ModelCatalog) -> Self {
        if let Some(entry) = catalog.entry(&self.info.provider, &self.info.model) {
            entry.apply_to(&mut self.info);
            self.wire.configure(entry);
        }
        self
    }

    /// Sets the API key.
    pub fn api_key(mut self, key: impl Into<Secret<String>>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Makes [`build`](Self::build) fail without a key. `variable` is the variable that usually holds the key and is
    /// named in the error.
    pub fn require_key(mut self, variable: impl Into<String>) -> Self {
        self.key_variable = Some(variable.into());
        self
    }

    /// Adds a header to every request. Its value is removed from errors like a secret.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Secret<String>>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the HTTP client. Its own connect timeout, proxies and redirect policy apply.
    pub fn client(mut self, client: reqwest::Client) -> Self {
        self.client = Some(client);
        self
    }

    /// Sets the time limits of each stage.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// Sets the policy for retries.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Sets the source of time and random numbers, from which retry delays take their jitter.
    pub fn env(mut self, env: Env) -> Self {
        self.env = env;
        self
    }

    /// Replaces the properties of the model.
    pub fn info(mut self, info: ModelInfo) -> Self {
        self.info = info;
        self
    }

    /// Changes the properties of the model, such as prices, limits or capabilities.
    pub fn with_info(mut self, change: impl FnOnce(&mut ModelInfo)) -> Self {
        change(&mut self.info);
        self
    }

    /// Changes the options of the wire.
    pub fn with_wire(mut self, change: impl FnOnce(&mut W)) -> Self {
        change(&mut self.wire);
        self
    }

    /// Erases the type of the wire, so that builders of different wires have the same type.
    pub fn boxed(self) -> HttpModelBuilder<Box<dyn WireFormat>> {
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

    /// Validates the configuration and builds the model. Sends no request. Returns an error if the model has no name, a
    /// required key is missing, or a header or the base URL is invalid.
    pub fn build(self) -> Result<HttpModel, ModelBuildError> {
        if self.info.model.trim().is_empty() {
            return Err(ModelBuildError::Model);
        }
        let key = check_key(self.key, &self.info.provider, self.key_variable.as_deref())?;
        let mut headers = request_headers(&self.headers)?;
        headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static(self.wire.framing().media_type()));
        let key_text = key.as_ref().map(|key| key.expose().as_str());
        if self.wire.headers(key_text, &mut headers).is_err() {
            return Err(ModelBuildError::Key);
        }
        let base = parse_base_url(&self.base_url)?;
        let mut url = base.clone();
        let url_path = self.wire.url_path(base.path(), &self.info.model);
        let (path, query) = match url_path.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (url_path.as_str(), None),
        };
        url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
        url.set_query(query);
        let client = match self.client {
            Some(client) => client,
            None => client::shared_client(self.timeouts.connect, url.scheme() == "https")?,
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
    /// Sets whether earlier reasoning is sent back, for servers whose models need it.
    pub fn replay_reasoning(self, replay: bool) -> Self {
        self.with_wire(|wire| wire.replay_reasoning = replay)
    }

    /// Adds a top-level field of the response to the metadata, as `openai.<field>`.
    pub fn metadata_field(self, field: impl Into<String>) -> Self {
        self.with_wire(|wire| wire.metadata_fields.push(field.into()))
    }
}

impl HttpModelBuilder<AnthropicMessages> {
    /// Enables or disables the markers for the vendor's prompt cache.
    pub fn prompt_cache(self, on: bool) -> Self {
        self.with_wire(|wire| wire.prompt_cache = on)
    }

    /// Sets the thinking mode.
    pub fn thinking(self, thinking: Thinking) -> Self {
        self.with_wire(|wire| wire.thinking = thinking)
    }
}

impl HttpModelBuilder<BedrockConverse> {
    /// Sets credentials that sign the requests instead of a key.
    pub fn credentials(mut self, credentials: AwsCredentials) -> Self {
        self.key_variable = None;
        self.with_wire(|wire| wire.credentials = Some(credentials))
    }
}

#[cfg(test)]
mod tests;
