//! Ollama's own API: `/api/chat`, one JSON document per line.

mod decode;
mod encode;
mod message;

use provost_model::{ChatRequest, ModelError, ModelInfo};
use reqwest::header::{HeaderMap, InvalidHeaderValue};

use crate::wire::openai_chat::KeyHeader;
use crate::wire::transcript::{NameRule, Rules};
use crate::wire::{Decoder, Framing, Wire};

/// The wire with its options.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OllamaChat {
    /// How many tokens of context the server makes room for; its own default is small.
    pub context_tokens: Option<u64>,
    /// How long the server keeps the model loaded, such as `10m`.
    pub keep_alive: Option<String>,
    /// Sends earlier reasoning back, for models that want it.
    pub replay_reasoning: bool,
}

impl Wire for OllamaChat {
    fn path(&self, base_path: &str) -> &'static str {
        if base_path.trim_end_matches('/').ends_with("/api") { "/chat" } else { "/api/chat" }
    }

    fn framing(&self) -> Framing {
        Framing::Ndjson
    }

    fn rules(&self) -> Rules {
        Rules { tool_names: NameRule::ANY, ..Rules::default() }
    }

    fn headers(
        &self,
        key: Option<&str>,
        headers: &mut HeaderMap,
    ) -> Result<(), InvalidHeaderValue> {
        KeyHeader::Bearer.write(key, headers)
    }

    fn encode(&self, request: &ChatRequest, info: &ModelInfo) -> Result<Vec<u8>, ModelError> {
        encode::body(self, request, info)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::LineDecoder::default())
    }
}

#[cfg(test)]
mod tests;
