//! Decodes the frames of a streamed Converse response.

use provost_core::{ProviderData, StopReason, Usage};
use provost_model::{ModelError, ModelErrorClass, ModelEvent};
use serde::Deserialize;
use serde_json::json;

use super::{PROVIDER, REDACTED, SIGNATURE};
use crate::wire::SseEvent;
use crate::wire::arguments::Text;
use crate::wire::{DecodeStatus, Decoder, error, malformed, missing_tool_name};

/// Fields of all frame types. The type of a frame is in its headers.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Frame<'a> {
    content_block_index: Option<u32>,
    start: Option<BlockStart>,
    #[serde(borrow)]
    delta: Option<BlockDelta<'a>>,
    #[serde(borrow)]
    stop_reason: Option<Text<'a>>,
    usage: Option<FrameUsage>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockStart {
    tool_use: Option<ToolUseStart>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolUseStart {
    tool_use_id: Option<String>,
    name: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockDelta<'a> {
    text: Option<String>,
    tool_use: Option<ToolUseDelta>,
    #[serde(borrow)]
    reasoning_content: Option<ReasoningDelta<'a>>,
}

#[derive(Deserialize)]
struct ToolUseDelta {
    input: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReasoningDelta<'a> {
    text: Option<String>,
    #[serde(borrow)]
    signature: Option<Text<'a>>,
    redacted_content: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FrameUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_write_input_tokens: Option<u64>,
}

impl FrameUsage {
    /// Converts the counts. The vendor does not include cached tokens in the input count; [`Usage`] does.
    fn to_usage(&self) -> Usage {
        let cache_read = self.cache_read_input_tokens.unwrap_or(0);
        let cache_write = self.cache_write_input_tokens.unwrap_or(0);
        let plain = self.input_tokens.unwrap_or(0);
        Usage {
            input: plain.saturating_add(cache_read).saturating_add(cache_write),
            output: self.output_tokens.unwrap_or(0),
            cache_read,
            cache_write,
            reasoning: 0,
        }
    }
}

/// Decoder of one streamed response of Bedrock Converse.
#[derive(Default)]
pub(super) struct FrameDecoder {
    started: bool,
    has_stopped: bool,
    /// The block index of each call.
    calls: Vec<u32>,
    /// Signature of the current reasoning block.
    signature: String,
}

impl FrameDecoder {
    /// Starts a tool call. Ignores other blocks.
    fn start_block(
        &mut self,
        index: u32,
        start: Option<BlockStart>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let Some(tool) = start.and_then(|start| start.tool_use) else {
            return Ok(());
        };
        let name = tool.name.filter(|name| !name.is_empty()).ok_or_else(missing_tool_name)?;
        let position = u32::try_from(self.calls.len()).unwrap_or(u32::MAX);
        self.calls.push(index);
        let id = tool.tool_use_id.unwrap_or_default();
        out.push(ModelEvent::ToolCallStart { index: position, id, name });
        Ok(())
    }

    /// Appends the events of a part of a block. Keeps a signature until the end of its block.
    fn push_delta(
        &mut self,
        index: u32,
        delta: BlockDelta<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        if let Some(text) = delta.text.filter(|text| !text.is_empty()) {
            out.push(ModelEvent::Text(text));
        }
        if let Some(reasoning) = delta.reasoning_content {
            let text = reasoning.text.filter(|text| !text.is_empty());
            out.extend(text.map(ModelEvent::Reasoning));
            if let Some(data) = reasoning.redacted_content {
                out.push(ModelEvent::ReasoningOpaque(opaque(REDACTED, data)));
            }
            if let Some(signature) = reasoning.signature {
                self.signature.push_str(&signature.0);
            }
        }
        let Some(json) = delta.tool_use.and_then(|tool| tool.input) else {
            return Ok(());
        };
        let Some(position) = self.calls.iter().rposition(|open| *open == index) else {
            return Err(ModelError::new(
                ModelErrorClass::Malformed,
                format!("the provider sent data for block {index}, which has not started"),
            ));
        };
        if !json.is_empty() {
            let index = u32::try_from(position).unwrap_or(u32::MAX);
            out.push(ModelEvent::ToolCallArguments { index, json });
        }
        Ok(())
    }

    /// Appends the signature of a reasoning block.
    fn end_block(&mut self, out: &mut Vec<ModelEvent>) {
        if !self.signature.is_empty() {
            let data = std::mem::take(&mut self.signature);
            out.push(ModelEvent::ReasoningOpaque(opaque(SIGNATURE, data)));
        }
    }

    /// Appends the stop event, unless it was already sent. An unknown reason is also appended as metadata.
    fn push_stop(&mut self, reason: &str, out: &mut Vec<ModelEvent>) {
        let stop = match reason {
            "end_turn" => StopReason::EndTurn,
            "tool_use" => StopReason::ToolUse,
            "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
            "stop_sequence" => StopReason::StopSequence,
            "guardrail_intervened" | "content_filtered" => StopReason::ContentFilter,
            "refusal" => StopReason::Refusal,
            other => {
                let name = "bedrock.stop_reason".to_owned();
                out.push(ModelEvent::Metadata(name, json!(other)));
                StopReason::Unknown
            }
        };
        if !std::mem::replace(&mut self.has_stopped, true) {
            out.push(ModelEvent::Stop(stop));
        }
    }
}

fn opaque(kind: &str, data: String) -> ProviderData {
    ProviderData { provider: PROVIDER.to_owned(), kind: kind.to_owned(), data }
}

/// Returns true for frames that end the stream with an error.
fn is_exception(event: &[u8]) -> bool {
    event.ends_with(b"Exception") || event.ends_with(b"Error")
}

impl Decoder for FrameDecoder {
    fn push(
        &mut self,
        event: &SseEvent<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<DecodeStatus, ModelError> {
        if is_exception(event.event) {
            return Err(error::parse_named(event.event, event.data));
        }
        let frame: Frame<'_> =
            serde_json::from_slice(event.data).map_err(|cause| malformed("an event", &cause))?;
        let index = frame.content_block_index.unwrap_or(0);
        match event.event {
            b"contentBlockDelta" => {
                if let Some(delta) = frame.delta {
                    self.push_delta(index, delta, out)?;
                }
            }
            b"contentBlockStart" => self.start_block(index, frame.start, out)?,
            b"contentBlockStop" => self.end_block(out),
            b"messageStart" if !self.started => {
                self.started = true;
                // The vendor's id of the response is in a header.
                out.push(ModelEvent::Started { response_id: None, model: None });
            }
            b"messageStop" => {
                let reason = frame.stop_reason.map(|reason| reason.0);
                self.push_stop(reason.as_deref().unwrap_or("none"), out);
            }
            // The last frame of a response.
            b"metadata" => {
                let usage = frame.usage.map(|usage| usage.to_usage());
                out.extend(usage.map(ModelEvent::Usage));
                if self.has_stopped {
                    return Ok(DecodeStatus::Done);
                }
            }
            _ => {}
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
