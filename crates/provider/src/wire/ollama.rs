//! Wire of Ollama's native API: `/api/chat` with one JSON document per line.

mod decode;
mod encode;
mod message;

use provost_model::{ChatRequest, ModelError, ModelInfo};
use reqwest::header::{HeaderMap, InvalidHeaderValue};

use crate::wire::normalize::{MessageRules, ToolNameRule};
use crate::wire::openai_chat::KeyHeader;
use crate::wire::{Decoder, Framing, WireFormat};

/// Ollama's native API with its options.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OllamaChat {
    /// Size of the context that the server allocates. `None` uses the default of the server, which is small.
    pub context_tokens: Option<u64>,
    /// Time for which the server keeps the model loaded, such as `10m`.
    pub keep_alive: Option<String>,
    /// Sends earlier reasoning back, for models that need it.
    pub replay_reasoning: bool,
}

impl WireFormat for OllamaChat {
    fn path(&self, base_path: &str) -> &'static str {
        if base_path.trim_end_matches('/').ends_with("/api") { "/chat" } else { "/api/chat" }
    }

    fn framing(&self) -> Framing {
        Framing::Ndjson
    }

    fn message_rules(&self) -> MessageRules {
        MessageRules { tool_names: ToolNameRule::ANY, ..MessageRules::default() }
    }

    fn headers(
        &self,
        key: Option<&str>,
        headers: &mut HeaderMap,
    ) -> Result<(), InvalidHeaderValue> {
        KeyHeader::Bearer.write(key, headers)
    }

    fn encode(&self, request: &ChatRequest, info: &ModelInfo) -> Result<Vec<u8>, ModelError> {
        encode::encode_body(self, request, info)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::LineDecoder::default())
    }
}

#[cfg(test)]
mod tests;
