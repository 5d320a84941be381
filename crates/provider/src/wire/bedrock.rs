//! Wire of Amazon Bedrock: `converse-stream` with binary frames and signed requests.

mod block;
mod decode;
mod encode;

use provost_core::Secret;
use provost_model::{ChatRequest, ModelError, ModelInfo};
use reqwest::header::{HeaderMap, InvalidHeaderValue};

use crate::sigv4::{self, Credentials, Scope, escape_segment};
use crate::wire::normalize::{CallIdRule, Charset, MessageRules, ReasoningReplay, ToolNameRule};
use crate::wire::openai_chat::KeyHeader;
use crate::wire::{Decoder, Framing, UnsignedRequest, WireFormat};

/// Name of the provider in opaque data and metadata.
const PROVIDER: &str = "bedrock";
/// Kind of opaque data with the signature of reasoning.
const SIGNATURE: &str = "signature";
/// Kind of opaque data with redacted reasoning.
const REDACTED: &str = "redacted_content";
/// Service name of the signature.
const SERVICE: &str = "bedrock";

/// AWS credentials that sign requests instead of an API key.
#[derive(Debug, Clone)]
pub struct AwsCredentials {
    /// Id of the access key.
    pub access_key_id: String,
    /// Secret access key. It is never sent.
    pub secret_access_key: Secret<String>,
    /// Session token of temporary credentials.
    pub session_token: Option<Secret<String>>,
}

/// Family of a model. Options that the Converse API does not have are sent as fields of the family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BedrockFamily {
    Claude,
    Nova,
    GptOss,
    Other,
}

impl BedrockFamily {
    /// Returns the family by the id of a model, an inference profile or an ARN. Returns `Other` for unknown models.
    pub(crate) fn of(model: &str) -> Self {
        let has = |part: &str| model.contains(part);
        match () {
            () if has("anthropic.") => Self::Claude,
            () if has("amazon.nova") => Self::Nova,
            () if has("openai.gpt-oss") => Self::GptOss,
            () => Self::Other,
        }
    }
}

/// Bedrock Converse with its options.
#[derive(Debug, Clone)]
pub struct BedrockConverse {
    /// Region of the models, such as `us-east-1`.
    pub region: String,
    /// Credentials that sign requests. `None` sends the API key instead.
    pub credentials: Option<AwsCredentials>,
    /// Marks the end of the system prompt, of the tools and of the conversation for the vendor's prompt cache, for
    /// models that support it.
    pub prompt_cache: bool,
}

impl Default for BedrockConverse {
    fn default() -> Self {
        Self { region: "us-east-1".to_owned(), credentials: None, prompt_cache: true }
    }
}

impl WireFormat for BedrockConverse {
    fn path(&self, _base_path: &str) -> &'static str {
        "/model"
    }

    fn url_path(&self, _base_path: &str, model: &str) -> String {
        format!("/model/{}/converse-stream", escape_segment(model))
    }

    fn framing(&self) -> Framing {
        Framing::AwsEventStream
    }

    fn message_rules(&self) -> MessageRules {
        MessageRules {
            tool_names: ToolNameRule::default(),
            call_ids: CallIdRule { charset: Charset::Word, chars_min: 1, chars_max: 64 },
            reasoning: ReasoningReplay::own_only(PROVIDER),
        }
    }

    fn headers(
        &self,
        key: Option<&str>,
        headers: &mut HeaderMap,
    ) -> Result<(), InvalidHeaderValue> {
        match self.credentials {
            Some(_) => Ok(()),
            None => KeyHeader::Bearer.write(key, headers),
        }
    }

    fn sign(
        &self,
        _key: Option<&str>,
        request: &mut UnsignedRequest<'_>,
    ) -> Result<(), ModelError> {
        let Some(credentials) = &self.credentials else {
            return Ok(());
        };
        let token = credentials.session_token.as_ref();
        let credentials = Credentials {
            access_key: &credentials.access_key_id,
            secret_key: credentials.secret_access_key.expose(),
            session_token: token.map(|token| token.expose().as_str()),
        };
        sigv4::sign(credentials, Scope { region: &self.region, service: SERVICE }, request)
    }

    fn encode(&self, request: &ChatRequest, info: &ModelInfo) -> Result<Vec<u8>, ModelError> {
        encode::encode_body(self, request, info)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::FrameDecoder::default())
    }
}

#[cfg(test)]
mod tests;
