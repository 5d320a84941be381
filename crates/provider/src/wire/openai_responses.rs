//! Wire of OpenAI Responses: typed items in requests, typed events in responses.
//!
//! The vendor stores nothing (`store: false`). Each request contains the whole conversation, with reasoning in
//! encrypted items that only the vendor can read.

mod decode;
mod encode;
mod item;

use std::borrow::Cow;

use provost_model::{ChatRequest, ModelError, ModelInfo};
use reqwest::header::{HeaderMap, InvalidHeaderValue};

use crate::wire::normalize::{CallIdRule, Charset, MessageRules, ReasoningReplay, ToolNameRule};
use crate::wire::openai_chat::KeyHeader;
use crate::wire::{Decoder, WireFormat};

/// Kind of opaque data with a reasoning item.
const REASONING_ITEM: &str = "reasoning_item";
/// Largest number of characters of a call id.
const CALL_ID_CHARS_MAX: usize = 64;

/// OpenAI Responses with its options. The defaults match the API of OpenAI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenAiResponses {
    /// Provider whose encrypted reasoning is sent back. Another provider cannot read it, even over the same wire.
    pub provider: Cow<'static, str>,
    /// Header of the key.
    pub key_header: KeyHeader,
    /// Requests encrypted reasoning, so that the model can continue it after a tool call.
    pub encrypted_reasoning: bool,
}

impl Default for OpenAiResponses {
    fn default() -> Self {
        Self {
            provider: Cow::Borrowed("openai"),
            key_header: KeyHeader::default(),
            encrypted_reasoning: true,
        }
    }
}

impl WireFormat for OpenAiResponses {
    fn path(&self, _base_path: &str) -> &'static str {
        "/responses"
    }

    fn message_rules(&self) -> MessageRules {
        MessageRules {
            tool_names: ToolNameRule::default(),
            call_ids: CallIdRule {
                charset: Charset::Any,
                chars_min: 1,
                chars_max: CALL_ID_CHARS_MAX,
            },
            reasoning: ReasoningReplay::OwnOnly(self.provider.clone()),
        }
    }

    fn headers(
        &self,
        key: Option<&str>,
        headers: &mut HeaderMap,
    ) -> Result<(), InvalidHeaderValue> {
        self.key_header.write(key, headers)
    }

    fn encode(&self, request: &ChatRequest, info: &ModelInfo) -> Result<Vec<u8>, ModelError> {
        encode::encode_body(self, request, info)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::ResponseDecoder::new(self.provider.clone().into_owned()))
    }
}

#[cfg(test)]
mod tests;
