//! A chunk of a streamed Chat Completion.

use provost_core::Usage;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::tool_calls::CallDelta;
use crate::wire::arguments::Text;

/// A part of a streamed response.
#[derive(Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) model: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "null_as_default")]
    pub(super) choices: Vec<Choice<'a>>,
    pub(super) usage: Option<ChunkUsage>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(default)]
    pub(super) index: u32,
    #[serde(borrow, default, deserialize_with = "null_as_default")]
    pub(super) delta: Delta<'a>,
    #[serde(borrow)]
    pub(super) finish_reason: Option<Text<'a>>,
    /// The matched stop sequence. Only some servers send it.
    #[serde(borrow)]
    pub(super) stop_reason: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) logprobs: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
pub(super) struct Delta<'a> {
    pub(super) content: Option<String>,
    pub(super) refusal: Option<String>,
    pub(super) reasoning_content: Option<String>,
    #[serde(borrow)]
    pub(super) reasoning: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) reasoning_details: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<Vec<CallDelta<'a>>>,
}

#[derive(Deserialize)]
pub(super) struct ChunkUsage {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

impl ChunkUsage {
    /// Converts the counts. Counts that the vendor does not report are zero.
    pub(super) fn to_usage(&self) -> Usage {
        let prompt = self.prompt_tokens_details.as_ref();
        let cached = prompt.and_then(|details| details.cached_tokens);
        let completion = self.completion_tokens_details.as_ref();
        Usage {
            input: self.prompt_tokens.unwrap_or(0),
            output: self.completion_tokens.unwrap_or(0),
            cache_read: cached.or(self.prompt_cache_hit_tokens).unwrap_or(0),
            cache_write: prompt.and_then(|details| details.cache_write_tokens).unwrap_or(0),
            reasoning: completion.and_then(|details| details.reasoning_tokens).unwrap_or(0),
        }
    }
}

/// Deserializes null as the default value, because some servers send null for an empty list or object.
fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
