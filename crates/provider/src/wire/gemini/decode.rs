//! Decodes the chunks of a streamed Gemini response.

use provost_core::{ProviderData, StopReason, Usage};
use provost_model::{ModelError, ModelErrorClass, ModelEvent};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{PROVIDER, SIGNATURE};
use crate::wire::SseEvent;
use crate::wire::arguments::Text;
use crate::wire::{DecodeStatus, Decoder, error, malformed, missing_tool_name};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk<'a> {
    #[serde(borrow, default)]
    candidates: Option<Vec<Candidate<'a>>>,
    usage_metadata: Option<ChunkUsage>,
    model_version: Option<String>,
    response_id: Option<String>,
    #[serde(borrow)]
    prompt_feedback: Option<PromptFeedback<'a>>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(borrow)]
    content: Option<Content<'a>>,
    #[serde(borrow)]
    finish_reason: Option<Text<'a>>,
    index: Option<u32>,
    #[serde(borrow)]
    grounding_metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    url_context_metadata: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow, default)]
    parts: Option<Vec<Part<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    text: Option<String>,
    #[serde(default)]
    thought: bool,
    thought_signature: Option<String>,
    #[serde(borrow)]
    function_call: Option<FunctionCall<'a>>,
}

#[derive(Deserialize)]
struct FunctionCall<'a> {
    id: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptFeedback<'a> {
    #[serde(borrow)]
    block_reason: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChunkUsage {
    prompt_token_count: Option<u64>,
    tool_use_prompt_token_count: Option<u64>,
    cached_content_token_count: Option<u64>,
    candidates_token_count: Option<u64>,
    thoughts_token_count: Option<u64>,
}

impl ChunkUsage {
    /// Converts the counts. The vendor does not include thoughts in the output count; [`Usage`] does.
    fn to_usage(&self) -> Usage {
        let thoughts = self.thoughts_token_count.unwrap_or(0);
        let tools = self.tool_use_prompt_token_count.unwrap_or(0);
        Usage {
            input: self.prompt_token_count.unwrap_or(0).saturating_add(tools),
            output: self.candidates_token_count.unwrap_or(0).saturating_add(thoughts),
            cache_read: self.cached_content_token_count.unwrap_or(0),
            cache_write: 0,
            reasoning: thoughts,
        }
    }
}

/// Decoder of one streamed response of Gemini. Only the first candidate becomes the message.
#[derive(Default)]
pub(super) struct ContentDecoder {
    started: bool,
    calls: u32,
    has_stopped: bool,
}

impl ContentDecoder {
    /// Appends the events of a part.
    fn push_part(&mut self, part: Part<'_>, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if let Some(call) = part.function_call {
            return self.push_call(call, part.thought_signature, out);
        }
        if let Some(text) = part.text.filter(|text| !text.is_empty()) {
            out.push(match part.thought {
                true => ModelEvent::Reasoning(text),
                false => ModelEvent::Text(text),
            });
        }
        if let Some(data) = part.thought_signature.filter(|data| !data.is_empty()) {
            out.push(ModelEvent::ReasoningOpaque(signature(data)));
        }
        Ok(())
    }

    /// Appends the events of a complete tool call. Returns an error if it has no name.
    fn push_call(
        &mut self,
        call: FunctionCall<'_>,
        signature_data: Option<String>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let name = call.name.filter(|name| !name.is_empty()).ok_or_else(missing_tool_name)?;
        let index = self.calls;
        self.calls += 1;
        out.push(ModelEvent::ToolCallStart { index, id: call.id.unwrap_or_default(), name });
        if let Some(args) = call.args.filter(|args| args.get() != "null") {
            out.push(ModelEvent::ToolCallArguments { index, json: args.get().to_owned() });
        }
        if let Some(data) = signature_data.filter(|data| !data.is_empty()) {
            out.push(ModelEvent::ToolCallOpaque { index, opaque: signature(data) });
        }
        Ok(())
    }

    /// Appends the events of a candidate: its parts, its metadata and its stop event.
    fn push_candidate(
        &mut self,
        candidate: Candidate<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        for part in candidate.content.and_then(|content| content.parts).into_iter().flatten() {
            self.push_part(part, out)?;
        }
        for (name, raw) in [
            ("gemini.grounding", candidate.grounding_metadata),
            ("gemini.url_context", candidate.url_context_metadata),
        ] {
            let value = raw.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok());
            out.extend(value.map(|value| ModelEvent::Metadata(name.to_owned(), value)));
        }
        if let Some(reason) = candidate.finish_reason.filter(|reason| !reason.0.is_empty()) {
            self.push_stop(&reason.0, out);
        }
        Ok(())
    }

    /// Appends the stop event, unless it was already sent. An unknown reason is also appended as metadata.
    fn push_stop(&mut self, reason: &str, out: &mut Vec<ModelEvent>) {
        if self.has_stopped {
            return;
        }
        let stop = match reason {
            "STOP" | "FUNCTION_CALL" if self.calls > 0 => StopReason::ToolUse,
            "STOP" => StopReason::EndTurn,
            "MAX_TOKENS" => StopReason::MaxTokens,
            "SAFETY"
            | "RECITATION"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION" => StopReason::ContentFilter,
            other => {
                let name = "gemini.finish_reason".to_owned();
                out.push(ModelEvent::Metadata(name, json!(other)));
                StopReason::Unknown
            }
        };
        self.has_stopped = true;
        out.push(ModelEvent::Stop(stop));
    }
}

fn signature(data: String) -> ProviderData {
    ProviderData { provider: PROVIDER.to_owned(), kind: SIGNATURE.to_owned(), data }
}

impl Decoder for ContentDecoder {
    fn push(
        &mut self,
        event: &SseEvent<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<DecodeStatus, ModelError> {
        if event.data == b"[DONE]" {
            return match self.has_stopped {
                true => Ok(DecodeStatus::Done),
                false => Err(ModelError::stream_truncated()),
            };
        }
        let chunk: Chunk<'_> =
            serde_json::from_slice(event.data).map_err(|cause| malformed("a chunk", &cause))?;
        if chunk.error.is_some() {
            return Err(error::parse(None, event.data));
        }
        if !self.started && (chunk.response_id.is_some() || chunk.model_version.is_some()) {
            self.started = true;
            let (response_id, model) = (chunk.response_id, chunk.model_version);
            out.push(ModelEvent::Started { response_id, model });
        }
        // Reported as soon as it is known, because a call that is interrupted later is billed too.
        if let Some(usage) = chunk.usage_metadata {
            out.push(ModelEvent::Usage(usage.to_usage()));
        }
        let blocked = chunk.prompt_feedback.and_then(|feedback| feedback.block_reason);
        let candidates = chunk.candidates.unwrap_or_default();
        if let Some(reason) = blocked.filter(|_| candidates.is_empty()) {
            return Err(ModelError::new(
                ModelErrorClass::ContentFilter,
                format!(
                    "the provider's content filter rejected the request ({}): change the prompt",
                    reason.0
                ),
            ));
        }
        for candidate in candidates {
            if candidate.index.unwrap_or(0) == 0 {
                self.push_candidate(candidate, out)?;
            }
        }
        Ok(DecodeStatus::More)
    }

    fn finish(&mut self, _out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        match self.has_stopped {
            true => Ok(()),
            false => Err(ModelError::stream_truncated()),
        }
    }
}
