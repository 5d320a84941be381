//! Google Gemini: `streamGenerateContent`, with thought signatures.

mod content;
mod decode;
mod encode;

use provost_model::{ChatRequest, ModelError, ModelInfo};
use reqwest::header::{HeaderMap, HeaderValue, InvalidHeaderValue};

use crate::sigv4::escape_path;
use crate::wire::transcript::{Charset, IdRule, NameRule, Replay, Rules};
use crate::wire::{Decoder, Wire};

/// The provider's name in opaque data and metadata.
const PROVIDER: &str = "gemini";
/// What the mark of a thought is called in opaque data.
const SIGNATURE: &str = "thought_signature";

/// How a model is asked to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GeminiThinking {
    /// By a word. What Gemini 3 and later want; they also want each call to carry a signature.
    #[default]
    Level,
    /// By a number of tokens. What Gemini 2.5 wants.
    Budget,
}

/// The wire with its options.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GeminiContent {
    /// How the model is asked to think when the request names an effort.
    pub thinking: GeminiThinking,
}

impl GeminiContent {
    /// The wire for a model, by its name.
    pub fn for_model(model: &str) -> Self {
        let name = model.rsplit('/').next().unwrap_or(model);
        let is_older = ["gemini-1", "gemini-2"].iter().any(|older| name.starts_with(older));
        let thinking = if is_older { GeminiThinking::Budget } else { GeminiThinking::Level };
        Self { thinking }
    }
}

impl Wire for GeminiContent {
    fn path(&self, _base_path: &str) -> &'static str {
        "/models"
    }

    fn route(&self, _base_path: &str, model: &str) -> String {
        let model = escape_path(model.strip_prefix("models/").unwrap_or(model));
        format!("/models/{model}:streamGenerateContent?alt=sse")
    }

    fn rules(&self) -> Rules {
        Rules {
            tool_names: NameRule { charset: Charset::Dotted, chars_max: 64, letter_first: true },
            call_ids: IdRule::default(),
            reasoning: Replay::own(PROVIDER),
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
        encode::body(self, request, info)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::ContentDecoder::default())
    }
}

#[cfg(test)]
mod tests;
