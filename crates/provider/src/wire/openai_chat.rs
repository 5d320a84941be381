//! Wire of OpenAI Chat Completions, which many servers implement.

mod chunk;
mod decode;
mod encode;
mod message;
mod quirk;
mod tool_calls;

use provost_model::{ChatRequest, ModelError, ModelInfo};
use reqwest::header::{HeaderMap, InvalidHeaderValue};
use serde::Deserialize;

pub use self::quirk::{AzureDeployment, CallIdStyle, EffortField, KeyHeader, ReasoningField};
use crate::sigv4::escape_segment;
use crate::wire::normalize::{MessageRules, ReasoningReplay};
use crate::wire::{Decoder, WireFormat};

/// Name of the provider in opaque data and metadata.
const PROVIDER: &str = "openai";

/// Chat Completions with its options. The defaults match the API of OpenAI.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OpenAiChat {
    /// Sends the output limit as `max_tokens`, for older servers. The default is `max_completion_tokens`.
    pub legacy_max_tokens: bool,
    /// Sends earlier reasoning back, for servers whose models need it.
    pub replay_reasoning: bool,
    /// Field in which reasoning is sent back.
    pub reasoning_field: ReasoningField,
    /// Field of the reasoning effort.
    pub effort: EffortField,
    /// Sends instructions with the role `developer` instead of `system`.
    pub developer_role: bool,
    /// Omits `stream_options`, for servers that reject it.
    pub no_stream_options: bool,
    /// Omits `parallel_tool_calls`, for servers that reject it.
    pub no_parallel_tool_calls: bool,
    /// Omits `seed`, for servers that reject it.
    pub no_seed: bool,
    /// Sends the tool choice `any` instead of `required`.
    pub choice_any: bool,
    /// Omits `strict` in a schema, for servers that reject it.
    pub no_strict: bool,
    /// Joins the texts of a message, for servers that accept only a string as content.
    pub plain_content: bool,
    /// Format of call ids.
    pub call_ids: CallIdStyle,
    /// Header of the key.
    pub key_header: KeyHeader,
    /// Deployment, for the deployment URLs of Azure.
    pub azure: Option<AzureDeployment>,
    /// Top-level fields of the response that are added to the metadata, such as `citations`.
    pub metadata_fields: Vec<String>,
}

impl WireFormat for OpenAiChat {
    fn path(&self, _base_path: &str) -> &'static str {
        "/chat/completions"
    }

    fn url_path(&self, base_path: &str, _model: &str) -> String {
        let path = self.path(base_path);
        match &self.azure {
            None => path.to_owned(),
            Some(azure) => format!(
                "/openai/deployments/{}{path}?api-version={}",
                escape_segment(&azure.deployment),
                escape_segment(&azure.api_version)
            ),
        }
    }

    fn message_rules(&self) -> MessageRules {
        MessageRules {
            call_ids: self.call_ids.rule(),
            reasoning: ReasoningReplay::AsText,
            ..MessageRules::default()
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
        Box::new(decode::ChatDecoder::new(self.metadata_fields.clone()))
    }
}

#[cfg(test)]
mod tests;
