//! Wire of Anthropic Messages.

mod block;
mod decode;
mod encode;

use provost_model::{CatalogEntry, ChatRequest, ModelCatalog, ModelError, ModelInfo};
use reqwest::header::{HeaderMap, HeaderValue, InvalidHeaderValue};

use crate::wire::normalize::{MessageRules, ReasoningReplay, ToolNameRule};
use crate::wire::openai_chat::KeyHeader;
use crate::wire::{Decoder, WireFormat};

/// Name of the provider in opaque data and metadata.
const PROVIDER: &str = "anthropic";
/// Kind of opaque data with the signature of a thinking block.
const SIGNATURE: &str = "signature";
/// Kind of opaque data with a redacted thinking block.
const REDACTED: &str = "redacted_thinking";

/// Prefix of OAuth tokens. They belong to a user and need another header than an API key.
const OAUTH_PREFIX: &str = "sk-ant-oat";
const OAUTH_BETA: &str = "oauth-2025-04-20";
const BETA: &str = "anthropic-beta";

/// How reasoning effort is sent to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Thinking {
    /// The model decides how much it thinks, guided by the effort. Current models use this mode.
    #[default]
    Adaptive,
    /// The request sets a thinking budget in tokens. Models before 4.6 use this mode.
    Budget,
}

/// Anthropic Messages with its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnthropicMessages {
    /// Marks the end of the system prompt, of the tools and of the conversation for the vendor's prompt cache.
    pub prompt_cache: bool,
    /// Thinking mode of requests that set an effort.
    pub thinking: Thinking,
    /// False omits `temperature` and `top_p`, for models that reject them.
    pub sampling: bool,
}

impl Default for AnthropicMessages {
    fn default() -> Self {
        Self { prompt_cache: true, thinking: Thinking::default(), sampling: true }
    }
}

impl AnthropicMessages {
    /// Creates the wire with the options of a model in the catalog.
    pub(crate) fn for_model(model: &str) -> Self {
        let mut wire = Self::default();
        if let Some(entry) = ModelCatalog::builtin().entry("anthropic", model) {
            wire.configure(entry);
        }
        wire
    }
}

impl WireFormat for AnthropicMessages {
    fn configure(&mut self, entry: &CatalogEntry) {
        self.thinking = match entry.thinking_budget {
            true => Thinking::Budget,
            false => Thinking::Adaptive,
        };
        self.sampling = entry.sampling;
    }

    fn path(&self, base_path: &str) -> &'static str {
        // The vendor's base URL contains no version. The base URLs of many gateways do.
        if base_path.trim_end_matches('/').ends_with("/v1") { "/messages" } else { "/v1/messages" }
    }

    fn headers(
        &self,
        key: Option<&str>,
        headers: &mut HeaderMap,
    ) -> Result<(), InvalidHeaderValue> {
        match key {
            Some(token) if token.starts_with(OAUTH_PREFIX) => {
                KeyHeader::Bearer.write(key, headers)?;
                add_beta(OAUTH_BETA, headers)?;
            }
            Some(key) => {
                let mut value = HeaderValue::try_from(key)?;
                value.set_sensitive(true);
                headers.insert("x-api-key", value);
            }
            None => {}
        }
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        Ok(())
    }

    fn message_rules(&self) -> MessageRules {
        MessageRules {
            tool_names: ToolNameRule { chars_max: 128, ..ToolNameRule::default() },
            reasoning: ReasoningReplay::own_only(PROVIDER),
            ..MessageRules::default()
        }
    }

    fn encode(&self, request: &ChatRequest, info: &ModelInfo) -> Result<Vec<u8>, ModelError> {
        encode::encode_body(self, request, info)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::MessageDecoder::default())
    }
}

/// Adds a beta feature to the features that the caller already requests.
fn add_beta(feature: &str, headers: &mut HeaderMap) -> Result<(), InvalidHeaderValue> {
    let requested = headers.get(BETA).and_then(|requested| requested.to_str().ok());
    let all = match requested {
        Some(requested) if requested.split(',').any(|name| name.trim() == feature) => return Ok(()),
        Some(requested) => format!("{requested},{feature}"),
        None => feature.to_owned(),
    };
    headers.insert(BETA, HeaderValue::try_from(all)?);
    Ok(())
}

#[cfg(test)]
mod tests;
