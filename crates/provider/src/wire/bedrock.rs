//! Amazon Bedrock: `converse-stream`, in binary frames, signed.

mod block;
mod decode;
mod encode;

use provost_core::Secret;
use provost_model::{ChatRequest, ModelError, ModelInfo};
use reqwest::header::{HeaderMap, InvalidHeaderValue};

use crate::sigv4::{self, Credentials, Scope, escape_segment};
use crate::wire::openai_chat::KeyHeader;
use crate::wire::transcript::{Charset, IdRule, NameRule, Replay, Rules};
use crate::wire::{Decoder, Framing, Unsigned, Wire};

/// The provider's name in opaque data and metadata.
const PROVIDER: &str = "bedrock";
/// What the signature of a thought is called in opaque data.
const SIGNATURE: &str = "signature";
/// What a hidden thought is called in opaque data.
const REDACTED: &str = "redacted_content";
/// What requests are signed for.
const SERVICE: &str = "bedrock";

/// What signs requests.
#[derive(Debug, Clone)]
pub struct AwsCredentials {
    /// The public part.
    pub access_key_id: String,
    /// The secret part, which is never sent.
    pub secret_access_key: Secret<String>,
    /// The token that goes with temporary credentials.
    pub session_token: Option<Secret<String>>,
}

/// Which family a model belongs to: what is not in the vendor's common words is said in the family's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    Claude,
    Nova,
    GptOss,
    Other,
}

impl Family {
    /// By the id of a model, an inference profile or an ARN.
    pub(crate) fn of(model: &str) -> Self {
        let has = |word: &str| model.contains(word);
        match () {
            () if has("anthropic.") => Self::Claude,
            () if has("amazon.nova") => Self::Nova,
            () if has("openai.gpt-oss") => Self::GptOss,
            () => Self::Other,
        }
    }
}

/// The wire with its options.
#[derive(Debug, Clone)]
pub struct BedrockConverse {
    /// Where the models are, such as `us-east-1`.
    pub region: String,
    /// What signs requests; without it the key of the model is sent as it is.
    pub credentials: Option<AwsCredentials>,
    /// Marks the end of the system prompt, of the tools and of the conversation for the vendor's prompt cache, for models that
    /// have one.
    pub prompt_cache: bool,
}

impl Default for BedrockConverse {
    fn default() -> Self {
        Self { region: "us-east-1".to_owned(), credentials: None, prompt_cache: true }
    }
}

impl Wire for BedrockConverse {
    fn path(&self, _base_path: &str) -> &'static str {
        "/model"
    }

    fn route(&self, _base_path: &str, model: &str) -> String {
        format!("/model/{}/converse-stream", escape_segment(model))
    }

    fn framing(&self) -> Framing {
        Framing::AwsEventStream
    }

    fn rules(&self) -> Rules {
        Rules {
            tool_names: NameRule::default(),
            call_ids: IdRule { charset: Charset::Word, chars_min: 1, chars_max: 64 },
            reasoning: Replay::own(PROVIDER),
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

    fn sign(&self, _key: Option<&str>, request: &mut Unsigned<'_>) -> Result<(), ModelError> {
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
        encode::body(self, request, info)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::FrameDecoder::default())
    }
}

#[cfg(test)]
mod tests;
