//! Wire of Google Gemini: `streamGenerateContent` with thought signatures.

mod content;
mod decode;
mod encode;

use provost_model::{ChatRequest, ModelError, ModelInfo};
use reqwest::header::{HeaderMap, HeaderValue, InvalidHeaderValue};

use crate::sigv4::escape_path;
use crate::wire::normalize::{CallIdRule, Charset, MessageRules, ReasoningReplay, ToolNameRule};
use crate::wire::{Decoder, WireFormat};

/// Name of the provider in opaque data and metadata.
const PROVIDER: &str = "gemini";
/// Kind of opaque data with the signature of a thought.
const SIGNATURE: &str = "thought_signature";

/// How reasoning effort is sent to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GeminiThinking {
    /// The request sets a thinking level. Gemini 3 and later use this mode and require a signature with tool calls.
    #[default]
    Level,
    /// The request sets a thinking budget in tokens. Gemini 2.5 uses this mode.
    Budget,
}

/// Gemini with its options.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GeminiContent {
    /// Thinking mode of requests that set an effort.
    pub thinking: GeminiThinking,
}

impl GeminiContent {
    /// Creates the wire with the thinking mode that a model supports, by its name.
    pub fn for_model(model: &str) -> Self {
        let name = model.rsplit('/').next().unwrap_or(model);
        let is_older = ["gemini-1", "gemini-2"].iter().any(|older| name.starts_with(older));
        let thinking = if is_older { GeminiThinking::Budget } else { GeminiThinking::Level };
        Self { thinking }
    }
}

impl WireFormat for GeminiContent {
    fn path(&self, _base_path: &str) -> &'static str {
        "/models"
    }

    fn url_path(&self, _base_path: &str, model: &str) -> String {
        let model = escape_path(model.strip_prefix("models/").unwrap_or(model));
        format!("/models/{model}:streamGenerateContent?alt=sse")
    }

    fn message_rules(&self) -> MessageRules {
        MessageRules {
            tool_names: ToolNameRule {
                charset: Charset::Dotted,
                chars_max: 64,
                letter_first: true,
            },
            call_ids: CallIdRule::default(),
            reasoning: ReasoningReplay::own_only(PROVIDER),
        }
    }

    fn headers(
        &self,
        key: Option<&str>,
        headers: &mut HeaderMap,
    ) -> Result<(), InvalidHeaderValue> {
        if let Some(key) = key {
            let mut value = HeaderValue::try_from(key)?;
            value.set_sensitive(true);
            headers.insert("x-goog-api-key", value);
        }
        Ok(())
    }

    fn encode(&self, request: &ChatRequest, info: &ModelInfo) -> Result<Vec<u8>, ModelError> {
        encode::encode_body(self, request, info)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::ContentDecoder::default())
    }
}

#[cfg(test)]
mod tests;
