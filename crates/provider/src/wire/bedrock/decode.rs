//! The frames of a streamed Converse answer as model events.

use provost_core::{ProviderData, StopReason, Usage};
use provost_model::{ModelError, ModelErrorClass, ModelEvent};
use serde::Deserialize;
use serde_json::json;

use super::{PROVIDER, REDACTED, SIGNATURE};
use crate::wire::SseEvent;
use crate::wire::piece::Text;
use crate::wire::{Decoder, Progress, failure, malformed, nameless};

/// Every event in one flat shape; which one it is stands before it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Frame<'a> {
    content_block_index: Option<u32>,
    start: Option<Start>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    #[serde(borrow)]
    stop_reason: Option<Text<'a>>,
    usage: Option<FrameUsage>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Start {
    tool_use: Option<StartUse>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StartUse {
    tool_use_id: Option<String>,
    name: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Delta<'a> {
    text: Option<String>,
    tool_use: Option<DeltaUse>,
    #[serde(borrow)]
    reasoning_content: Option<Thought<'a>>,
}

#[derive(Deserialize)]
struct DeltaUse {
    input: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Thought<'a> {
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
    /// The vendor counts cached tokens beside the input; here they are a part of it.
    fn read(&self) -> Usage {
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

/// Decodes one streamed answer.
#[derive(Default)]
pub(super) struct FrameDecoder {
    started: bool,
    stopped: bool,
    /// The block of each call.
    calls: Vec<u32>,
    /// The signature of the thought that is being written.
    signature: String,
}

impl FrameDecoder {
    fn start(
        &mut self,
        index: u32,
        start: Option<Start>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let Some(tool) = start.and_then(|start| start.tool_use) else {
            return Ok(());
        };
        let name = tool.name.filter(|name| !name.is_empty()).ok_or_else(nameless)?;
        let place = u32::try_from(self.calls.len()).unwrap_or(u32::MAX);
        self.calls.push(index);
        let id = tool.tool_use_id.unwrap_or_default();
        out.push(ModelEvent::ToolCallStart { index: place, id, name });
        Ok(())
    }

    fn delta(
        &mut self,
        index: u32,
        delta: Delta<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        if let Some(text) = delta.text.filter(|text| !text.is_empty()) {
            out.push(ModelEvent::Text(text));
        }
        if let Some(thought) = delta.reasoning_content {
            let text = thought.text.filter(|text| !text.is_empty());
            out.extend(text.map(ModelEvent::Reasoning));
            if let Some(data) = thought.redacted_content {
                out.push(ModelEvent::ReasoningOpaque(opaque(REDACTED, data)));
            }
            if let Some(signature) = thought.signature {
                self.signature.push_str(&signature.0);
            }
        }
        let Some(json) = delta.tool_use.and_then(|tool| tool.input) else {
            return Ok(());
        };
        let Some(place) = self.calls.iter().rposition(|known| *known == index) else {
            return Err(ModelError::new(
                ModelErrorClass::Malformed,
                format!("the provider sent a piece of block {index}, which never began"),
            ));
        };
        if !json.is_empty() {
            let index = u32::try_from(place).unwrap_or(u32::MAX);
            out.push(ModelEvent::ToolCallArguments { index, json });
        }
        Ok(())
    }

    fn end_block(&mut self, out: &mut Vec<ModelEvent>) {
        if !self.signature.is_empty() {
            let data = std::mem::take(&mut self.signature);
            out.push(ModelEvent::ReasoningOpaque(opaque(SIGNATURE, data)));
        }
    }

    fn stop(&mut self, reason: &str, out: &mut Vec<ModelEvent>) {
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
        if !std::mem::replace(&mut self.stopped, true) {
            out.push(ModelEvent::Stop(stop));
        }
    }
}

fn opaque(kind: &str, data: String) -> ProviderData {
    ProviderData { provider: PROVIDER.to_owned(), kind: kind.to_owned(), data }
}

/// True for the frames that end a stream with an error.
fn is_exception(event: &[u8]) -> bool {
    event.ends_with(b"Exception") || event.ends_with(b"Error")
}

impl Decoder for FrameDecoder {
    fn push(
        &mut self,
        event: &SseEvent<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<Progress, ModelError> {
        if is_exception(event.event) {
            return Err(failure::named(event.event, event.data));
        }
        let frame: Frame<'_> =
            serde_json::from_slice(event.data).map_err(|cause| malformed("an event", &cause))?;
        let index = frame.content_block_index.unwrap_or(0);
        match event.event {
            b"contentBlockDelta" => {
                if let Some(delta) = frame.delta {
                    self.delta(index, delta, out)?;
                }
            }
            b"contentBlockStart" => self.start(index, frame.start, out)?,
            b"contentBlockStop" => self.end_block(out),
            b"messageStart" if !self.started => {
                self.started = true;
                // The vendor's id of the answer is in a header.
                out.push(ModelEvent::Started { response_id: None, model: None });
            }
            b"messageStop" => {
                let reason = frame.stop_reason.map(|reason| reason.0);
                self.stop(reason.as_deref().unwrap_or("none"), out);
            }
            // The last frame.
            b"metadata" => {
                let usage = frame.usage.map(|usage| usage.read());
                out.extend(usage.map(ModelEvent::Usage));
                if self.stopped {
                    return Ok(Progress::Done);
                }
            }
            _ => {}
        }
        Ok(Progress::More)
    }

    fn finish(&mut self, _out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        match self.stopped {
            true => Ok(()),
            false => Err(ModelError::incomplete()),
        }
    }
}
