//! Decodes the events of a streamed message.

use provost_core::{ProviderData, StopReason, Usage};
use provost_model::{ModelError, ModelErrorClass, ModelEvent};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::{PROVIDER, REDACTED, SIGNATURE};
use crate::wire::SseEvent;
use crate::wire::arguments::Text;
use crate::wire::{DecodeStatus, Decoder, error, malformed};

/// Fields of all event types. A tagged enum would first copy each event into a tree.
#[derive(Deserialize)]
struct StreamEvent<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    index: Option<u32>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    #[serde(borrow)]
    content_block: Option<BlockStart<'a>>,
    #[serde(borrow)]
    message: Option<MessageStart<'a>>,
    usage: Option<EventUsage>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    text: Option<String>,
    thinking: Option<String>,
    partial_json: Option<String>,
    signature: Option<String>,
    #[serde(borrow)]
    stop_reason: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct BlockStart<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    data: Option<String>,
    id: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct MessageStart<'a> {
    id: Option<String>,
    model: Option<String>,
    usage: Option<EventUsage>,
    #[serde(borrow)]
    stop_reason: Option<Text<'a>>,
}

#[derive(Deserialize, Default, Clone, Copy, PartialEq)]
struct EventUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
}

impl EventUsage {
    /// Replaces the counts by later ones. Counts that the later event omits are kept.
    fn update(&mut self, later: EventUsage) {
        self.input_tokens = later.input_tokens.or(self.input_tokens);
        self.output_tokens = later.output_tokens.or(self.output_tokens);
        self.cache_creation_input_tokens =
            later.cache_creation_input_tokens.or(self.cache_creation_input_tokens);
        self.cache_read_input_tokens =
            later.cache_read_input_tokens.or(self.cache_read_input_tokens);
    }

    /// Converts the counts. The vendor does not include cached tokens in the input count; [`Usage`] does.
    fn to_usage(self) -> Usage {
        let cache_read = self.cache_read_input_tokens.unwrap_or(0);
        let cache_write = self.cache_creation_input_tokens.unwrap_or(0);
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

/// A content block of the message whose end has not arrived.
enum OpenBlock {
    Thinking { signature: String },
    ToolUse { call: u32, initial: String, has_arguments: bool },
    Other,
}

/// Decoder of one streamed message of Anthropic.
#[derive(Default)]
pub(super) struct MessageDecoder {
    blocks: Vec<(u32, OpenBlock)>,
    calls: u32,
    usage: EventUsage,
    has_stopped: bool,
}

impl MessageDecoder {
    /// Appends the start event and the usage reported so far.
    fn start_message(&mut self, message: MessageStart<'_>, out: &mut Vec<ModelEvent>) {
        out.push(ModelEvent::Started { response_id: message.id, model: message.model });
        self.update_usage(message.usage, out);
        if let Some(reason) = message.stop_reason {
            self.push_stop(&reason.0, out);
        }
    }

    /// Merges later counts into the usage, and appends the usage at once, because a call that is interrupted later is
    /// billed too.
    fn update_usage(&mut self, usage: Option<EventUsage>, out: &mut Vec<ModelEvent>) {
        if let Some(usage) = usage.filter(|usage| *usage != EventUsage::default()) {
            self.usage.update(usage);
            out.push(ModelEvent::Usage(self.usage.to_usage()));
        }
    }

    /// Starts a content block. Returns an error if it is a tool call without a name.
    fn start_block(
        &mut self,
        index: u32,
        block: BlockStart<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let open = match block.kind.0.as_ref() {
            "text" => {
                out.extend(non_empty(block.text).map(ModelEvent::Text));
                OpenBlock::Other
            }
            "thinking" => {
                out.extend(non_empty(block.thinking).map(ModelEvent::Reasoning));
                OpenBlock::Thinking { signature: block.signature.unwrap_or_default() }
            }
            "redacted_thinking" => {
                let data = block.data.unwrap_or_default();
                out.push(ModelEvent::ReasoningOpaque(opaque(REDACTED, data)));
                OpenBlock::Other
            }
            "tool_use" => {
                let Some(name) = non_empty(block.name) else {
                    return Err(ModelError::new(
                        ModelErrorClass::Malformed,
                        "the provider sent a tool call without a name",
                    ));
                };
                let call = self.calls;
                self.calls += 1;
                out.push(ModelEvent::ToolCallStart {
                    index: call,
                    id: block.id.unwrap_or_default(),
                    name,
                });
                let initial = block.input.map_or("", RawValue::get);
                OpenBlock::ToolUse { call, initial: initial.to_owned(), has_arguments: false }
            }
            // Blocks of the vendor's own tools are ignored.
            _ => OpenBlock::Other,
        };
        self.blocks.push((index, open));
        Ok(())
    }

    /// Appends the events of a part of a block. Keeps a signature until the end of its block.
    fn push_delta(
        &mut self,
        index: u32,
        delta: Delta<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        out.extend(non_empty(delta.text).map(ModelEvent::Text));
        out.extend(non_empty(delta.thinking).map(ModelEvent::Reasoning));
        if delta.signature.is_none() && delta.partial_json.is_none() {
            return Ok(());
        }
        let block = self.blocks.iter_mut().rev().find(|(open, _)| *open == index);
        match block.map(|(_, block)| block) {
            Some(OpenBlock::Thinking { signature }) => {
                signature.push_str(delta.signature.as_deref().unwrap_or(""));
            }
            Some(OpenBlock::ToolUse { call, has_arguments, .. }) => {
                if let Some(json) = non_empty(delta.partial_json) {
                    *has_arguments = true;
                    out.push(ModelEvent::ToolCallArguments { index: *call, json });
                }
            }
            Some(OpenBlock::Other) => {}
            None => {
                return Err(ModelError::new(
                    ModelErrorClass::Malformed,
                    format!("the provider sent data for block {index}, which has not started"),
                ));
            }
        }
        Ok(())
    }

    /// Ends a content block: appends its signature, or its initial arguments if no part of them arrived later.
    fn end_block(&mut self, index: u32, out: &mut Vec<ModelEvent>) {
        let Some(position) = self.blocks.iter().rposition(|(open, _)| *open == index) else {
            return;
        };
        match self.blocks.swap_remove(position).1 {
            OpenBlock::Thinking { signature } if !signature.is_empty() => {
                out.push(ModelEvent::ReasoningOpaque(opaque(SIGNATURE, signature)));
            }
            // Arguments usually arrive in parts, but a short response may contain them in the start event.
            OpenBlock::ToolUse { call, initial, has_arguments: false } if initial.len() > 2 => {
                out.push(ModelEvent::ToolCallArguments { index: call, json: initial });
            }
            _ => {}
        }
    }

    /// Appends the stop event, unless it was already sent. An unknown reason is also appended as metadata.
    fn push_stop(&mut self, reason: &str, out: &mut Vec<ModelEvent>) {
        if self.has_stopped {
            return;
        }
        let stop = match reason {
            "end_turn" => StopReason::EndTurn,
            "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
            "stop_sequence" => StopReason::StopSequence,
            "tool_use" => StopReason::ToolUse,
            "refusal" => StopReason::Refusal,
            other => {
                let name = "anthropic.stop_reason".to_owned();
                out.push(ModelEvent::Metadata(name, json!(other)));
                StopReason::Unknown
            }
        };
        self.has_stopped = true;
        out.push(ModelEvent::Stop(stop));
    }
}

/// Returns the text. `None` if it is empty.
fn non_empty(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

fn opaque(kind: &str, data: String) -> ProviderData {
    ProviderData { provider: PROVIDER.to_owned(), kind: kind.to_owned(), data }
}

impl Decoder for MessageDecoder {
    fn push(
        &mut self,
        event: &SseEvent<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<DecodeStatus, ModelError> {
        let data = event.data;
        let event: StreamEvent<'_> =
            serde_json::from_slice(data).map_err(|cause| malformed("an event", &cause))?;
        let index = event.index.unwrap_or(0);
        match event.kind.0.as_ref() {
            "content_block_delta" => {
                if let Some(delta) = event.delta {
                    self.push_delta(index, delta, out)?;
                }
            }
            "content_block_start" => {
                if let Some(block) = event.content_block {
                    self.start_block(index, block, out)?;
                }
            }
            "content_block_stop" => self.end_block(index, out),
            "message_start" => {
                if let Some(message) = event.message {
                    self.start_message(message, out);
                }
            }
            "message_delta" => {
                self.update_usage(event.usage, out);
                if let Some(reason) = event.delta.and_then(|delta| delta.stop_reason) {
                    self.push_stop(&reason.0, out);
                }
            }
            "message_stop" => {
                return match self.has_stopped {
                    true => Ok(DecodeStatus::Done),
                    false => Err(ModelError::stream_truncated()),
                };
            }
            "error" => return Err(error::parse(None, data)),
            // `ping` and unknown events are ignored.
            _ => {}
        }
        Ok(DecodeStatus::More)
    }

    fn finish(&mut self, _out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if !self.has_stopped {
            return Err(ModelError::stream_truncated());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
