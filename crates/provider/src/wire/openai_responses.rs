//! OpenAI Responses: typed items in, typed events out.
//!
//! Nothing is kept at the vendor (`store: false`): the conversation is sent whole, and what the model thought comes back
//! sealed, as an item that only the vendor can open.

mod decode;
mod encode;
mod item;

use std::borrow::Cow;

use provost_model::{ChatRequest, ModelError, ModelInfo};
use reqwest::header::{HeaderMap, InvalidHeaderValue};

use crate::wire::openai_chat::KeyHeader;
use crate::wire::transcript::{Charset, IdRule, NameRule, Replay, Rules};
use crate::wire::{Decoder, Wire};

/// What a reasoning item is called in opaque data.
const REASONING_ITEM: &str = "reasoning_item";
/// Characters the id of a call may have.
const CALL_ID_CHARS_MAX: usize = 64;

/// The wire with its options. The default is what OpenAI itself wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenAiResponses {
    /// Whose sealed reasoning comes back: another provider cannot open it, even if it speaks the same wire.
    pub provider: Cow<'static, str>,
    /// How the key is sent.
    pub key_header: KeyHeader,
    /// Asks for the sealed reasoning, so that the model can go on thinking where it was after a tool call.
    pub sealed_reasoning: bool,
}

impl Default for OpenAiResponses {
    fn default() -> Self {
        Self {
            provider: Cow::Borrowed("openai"),
            key_header: KeyHeader::default(),
            sealed_reasoning: true,
        }
    }
}

impl Wire for OpenAiResponses {
    fn path(&self, _base_path: &str) -> &'static str {
        "/responses"
    }

    fn rules(&self) -> Rules {
        Rules {
            tool_names: NameRule::default(),
            call_ids: IdRule { charset: Charset::Any, chars_min: 1, chars_max: CALL_ID_CHARS_MAX },
            reasoning: Replay::Own(self.provider.clone()),
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
        encode::body(self, request, info)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::ResponseDecoder::new(self.provider.clone().into_owned()))
    }
}

#[cfg(test)]
mod tests;
