//! OpenAI Chat Completions, and the many servers that speak it.

mod calls;
mod chunk;
mod decode;
mod encode;
mod message;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, InvalidHeaderValue};

use crate::wire::{Decoder, Wire};
use crate::{ChatRequest, ModelError, ModelInfo};

/// The provider's name in opaque data and metadata.
const PROVIDER: &str = "openai";

/// The wire with its options. The default is what OpenAI itself wants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenAiChat {
    /// Sends the output limit as `max_tokens`, which older servers know, and not as `max_completion_tokens`.
    pub legacy_max_tokens: bool,
    /// Sends earlier reasoning back as `reasoning_content`, for servers whose models want it.
    pub replay_reasoning: bool,
    /// Top-level fields of the answer to keep as metadata, such as `citations`.
    pub metadata_fields: Vec<String>,
}

impl Wire for OpenAiChat {
    fn path(&self, _base_path: &str) -> &'static str {
        "/chat/completions"
    }

    fn headers(
        &self,
        key: Option<&str>,
        headers: &mut HeaderMap,
    ) -> Result<(), InvalidHeaderValue> {
        if let Some(key) = key {
            let mut value = HeaderValue::try_from(format!("Bearer {key}"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(())
    }

    fn encode(&self, request: &ChatRequest, info: &ModelInfo) -> Result<Vec<u8>, ModelError> {
        encode::body(self, request, info)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::ChatDecoder::new(self.metadata_fields.clone()))
    }
}

#[cfg(test)]
mod tests;
