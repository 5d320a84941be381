//! OpenAI Chat Completions, and the many servers that speak it.

mod calls;
mod chunk;
mod decode;
mod encode;
mod message;
mod quirk;

use provost_model::{ChatRequest, ModelError, ModelInfo};
use reqwest::header::{HeaderMap, InvalidHeaderValue};
use serde::Deserialize;

pub use self::quirk::{AzureDeployment, CallIds, EffortField, KeyHeader, ReasoningField};
use crate::sigv4::escape_segment;
use crate::wire::transcript::{Replay, Rules};
use crate::wire::{Decoder, Wire};

/// The provider's name in opaque data and metadata.
const PROVIDER: &str = "openai";

/// The wire with its options. The default is what OpenAI itself wants.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OpenAiChat {
    /// Sends the output limit as `max_tokens`, which older servers know, and not as `max_completion_tokens`.
    pub legacy_max_tokens: bool,
    /// Sends earlier reasoning back, for servers whose models want it.
    pub replay_reasoning: bool,
    /// What the field is called in which reasoning goes back.
    pub reasoning_field: ReasoningField,
    /// How the effort of a request is said.
    pub effort: EffortField,
    /// Says instructions as `developer` and not as `system`.
    pub developer_role: bool,
    /// Leaves `stream_options` out, for servers that refuse it.
    pub no_stream_options: bool,
    /// Leaves `parallel_tool_calls` out, for servers that refuse it.
    pub no_parallel_tool_calls: bool,
    /// Leaves `seed` out, for servers that refuse it.
    pub no_seed: bool,
    /// Says `any` where OpenAI says `required`.
    pub choice_any: bool,
    /// Leaves `strict` out of a schema, for servers that refuse it.
    pub no_strict: bool,
    /// Joins texts to one, for servers that take only a string as the content of a message.
    pub plain_content: bool,
    /// What ids of calls must look like.
    pub call_ids: CallIds,
    /// How the key is sent.
    pub key_header: KeyHeader,
    /// The deployment, for Azure's older addresses.
    pub azure: Option<AzureDeployment>,
    /// Top-level fields of the answer to keep as metadata, such as `citations`.
    pub metadata_fields: Vec<String>,
}

impl Wire for OpenAiChat {
    fn path(&self, _base_path: &str) -> &'static str {
        "/chat/completions"
    }

    fn route(&self, base_path: &str, _model: &str) -> String {
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

    fn rules(&self) -> Rules {
        Rules { call_ids: self.call_ids.rule(), reasoning: Replay::Text, ..Rules::default() }
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
        Box::new(decode::ChatDecoder::new(self.metadata_fields.clone()))
    }
}

#[cfg(test)]
mod tests;
