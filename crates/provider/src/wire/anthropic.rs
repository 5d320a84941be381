//! Anthropic Messages.

mod block;
mod decode;
mod encode;

use provost_model::{Catalog, CatalogEntry, ChatRequest, ModelError, ModelInfo};
use reqwest::header::{HeaderMap, HeaderValue, InvalidHeaderValue};

use crate::wire::openai_chat::KeyHeader;
use crate::wire::transcript::{NameRule, Replay, Rules};
use crate::wire::{Decoder, Wire};

/// The provider's name in opaque data and metadata.
const PROVIDER: &str = "anthropic";
/// What a thinking block's signature is called in opaque data.
const SIGNATURE: &str = "signature";
/// What a hidden thinking block is called in opaque data.
const REDACTED: &str = "redacted_thinking";

/// How a token of OAuth begins. It stands for a person and not for an account, and goes another way than a key.
const OAUTH_PREFIX: &str = "sk-ant-oat";
const OAUTH_BETA: &str = "oauth-2025-04-20";
const BETA: &str = "anthropic-beta";

/// How a model is asked to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Thinking {
    /// The model decides how much, guided by an effort. What current models want.
    #[default]
    Adaptive,
    /// A number of tokens. What models before 4.6 want.
    Budget,
}

/// The wire with its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnthropicMessages {
    /// Marks the end of the system prompt, of the tools and of the conversation for the vendor's prompt cache.
    pub prompt_cache: bool,
    /// How the model is asked to think when the request names an effort.
    pub thinking: Thinking,
    /// False keeps `temperature` and `top_p` back, for models that refuse them.
    pub sampling: bool,
}

impl Default for AnthropicMessages {
    fn default() -> Self {
        Self { prompt_cache: true, thinking: Thinking::default(), sampling: true }
    }
}

impl AnthropicMessages {
    /// The wire as a model of the catalog wants it.
    pub(crate) fn for_model(model: &str) -> Self {
        let mut wire = Self::default();
        if let Some(entry) = Catalog::builtin().entry("anthropic", model) {
            wire.configure(entry);
        }
        wire
    }
}

impl Wire for AnthropicMessages {
    fn configure(&mut self, entry: &CatalogEntry) {
        self.thinking = match entry.thinking_budget {
            true => Thinking::Budget,
            false => Thinking::Adaptive,
        };
        self.sampling = entry.sampling;
    }

    fn path(&self, base_path: &str) -> &'static str {
        // The vendor's own base URL has no version in it, many gateways' do.
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

    fn rules(&self) -> Rules {
        Rules {
            tool_names: NameRule { chars_max: 128, ..NameRule::default() },
            reasoning: Replay::own(PROVIDER),
            ..Rules::default()
        }
    }

    fn encode(&self, request: &ChatRequest, info: &ModelInfo) -> Result<Vec<u8>, ModelError> {
        encode::body(self, request, info)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::MessageDecoder::default())
    }
}

/// Adds a feature to those that the caller asks for already.
fn add_beta(feature: &str, headers: &mut HeaderMap) -> Result<(), InvalidHeaderValue> {
    let asked = headers.get(BETA).and_then(|asked| asked.to_str().ok());
    let all = match asked {
        Some(asked) if asked.split(',').any(|known| known.trim() == feature) => return Ok(()),
        Some(asked) => format!("{asked},{feature}"),
        None => feature.to_owned(),
    };
    headers.insert(BETA, HeaderValue::try_from(all)?);
    Ok(())
}

#[cfg(test)]
mod tests;
