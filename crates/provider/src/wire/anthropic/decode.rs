//! The events of a streamed Anthropic message as model events.

use provost_core::{ProviderData, StopReason, Usage};
use provost_model::{ModelError, ModelErrorClass, ModelEvent};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::{PROVIDER, REDACTED, SIGNATURE};
use crate::wire::SseEvent;
use crate::wire::piece::Text;
use crate::wire::{Decoder, Progress, failure, malformed};

/// Every event in one flat shape: a tagged enum would copy each event into a tree first.
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
    /// Later counts replace earlier ones; what a later event leaves out stays.
    fn update(&mut self, later: EventUsage) {
        self.input_tokens = later.input_tokens.or(self.input_tokens);
        self.output_tokens = later.output_tokens.or(self.output_tokens);
        self.cache_creation_input_tokens =
            later.cache_creation_input_tokens.or(self.cache_creation_input_tokens);
        self.cache_read_input_tokens =
            later.cache_read_input_tokens.or(self.cache_read_input_tokens);
    }

    /// The vendor counts cached tokens beside the input; here they are a part of it.
    fn read(&self) -> Usage {
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

/// A block that is being written.
enum OpenBlock {
    Thinking { signature: String },
    ToolUse { call: u32, initial: String, wrote: bool },
    Other,
}

/// Decodes one streamed message.
#[derive(Default)]
pub(super) struct MessageDecoder {
    blocks: Vec<(u32, OpenBlock)>,
    calls: u32,
    usage: EventUsage,
    stopped: bool,
}

impl MessageDecoder {
    fn start(&mut self, message: MessageStart<'_>, out: &mut Vec<ModelEvent>) {
        out.push(ModelEvent::Started { response_id: message.id, model: message.model });
        self.count(message.usage, out);
        if let Some(reason) = message.stop_reason {
            self.stop(&reason.0, out);
        }
    }

    /// Tells the counts as soon as they are there: a call that is stopped or breaks later was not free.
    fn count(&mut self, usage: Option<EventUsage>, out: &mut Vec<ModelEvent>) {
        if let Some(usage) = usage.filter(|usage| *usage != EventUsage::default()) {
            self.usage.update(usage);
            out.push(ModelEvent::Usage(self.usage.read()));
        }
    }

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
                OpenBlock::ToolUse { call, initial: initial.to_owned(), wrote: false }
            }
            // Blocks of the vendor's own tools are its own business.
            _ => OpenBlock::Other,
        };
        self.blocks.push((index, open));
        Ok(())
    }

    fn delta(
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
        let block = self.blocks.iter_mut().rev().find(|(known, _)| *known == index);
        match block.map(|(_, block)| block) {
            Some(OpenBlock::Thinking { signature }) => {
                signature.push_str(delta.signature.as_deref().unwrap_or(""));
            }
            Some(OpenBlock::ToolUse { call, wrote, .. }) => {
                if let Some(json) = non_empty(delta.partial_json) {
                    *wrote = true;
                    out.push(ModelEvent::ToolCallArguments { index: *call, json });
                }
            }
            Some(OpenBlock::Other) => {}
            None => {
                return Err(ModelError::new(
                    ModelErrorClass::Malformed,
                    format!("the provider sent a piece of block {index}, which never began"),
                ));
            }
        }
        Ok(())
    }

    fn stop_block(&mut self, index: u32, out: &mut Vec<ModelEvent>) {
        let Some(place) = self.blocks.iter().rposition(|(known, _)| *known == index) else {
            return;
        };
        match self.blocks.swap_remove(place).1 {
            OpenBlock::Thinking { signature } if !signature.is_empty() => {
                out.push(ModelEvent::ReasoningOpaque(opaque(SIGNATURE, signature)));
            }
            // Arguments usually come in pieces, but a short answer may hold them whole.
            OpenBlock::ToolUse { call, initial, wrote: false } if initial.len() > 2 => {
                out.push(ModelEvent::ToolCallArguments { index: call, json: initial });
            }
            _ => {}
        }
    }

    fn stop(&mut self, reason: &str, out: &mut Vec<ModelEvent>) {
        if self.stopped {
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
        self.stopped = true;
        out.push(ModelEvent::Stop(stop));
    }
}

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
    ) -> Result<Progress, ModelError> {
        let data = event.data;
        let event: StreamEvent<'_> =
            serde_json::from_slice(data).map_err(|cause| malformed("an event", &cause))?;
        let index = event.index.unwrap_or(0);
        match event.kind.0.as_ref() {
            "content_block_delta" => {
                if let Some(delta) = event.delta {
                    self.delta(index, delta, out)?;
                }
            }
            "content_block_start" => {
                if let Some(block) = event.content_block {
                    self.start_block(index, block, out)?;
                }
            }
            "content_block_stop" => self.stop_block(index, out),
            "message_start" => {
                if let Some(message) = event.message {
                    self.start(message, out);
                }
            }
            "message_delta" => {
                self.count(event.usage, out);
                if let Some(reason) = event.delta.and_then(|delta| delta.stop_reason) {
                    self.stop(&reason.0, out);
                }
            }
            "message_stop" => {
                return match self.stopped {
                    true => Ok(Progress::Done),
                    false => Err(ModelError::incomplete()),
                };
            }
            "error" => return Err(failure::read(None, data)),
            // `ping`, and whatever the vendor adds.
            _ => {}
        }
        Ok(Progress::More)
    }

    fn finish(&mut self, _out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if !self.stopped {
            return Err(ModelError::incomplete());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
