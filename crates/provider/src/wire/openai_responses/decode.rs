//! The typed events of a streamed response as model events.

use provost_core::{ProviderData, StopReason, Usage};
use provost_model::{ModelError, ModelEvent};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::REASONING_ITEM;
use crate::wire::SseEvent;
use crate::wire::piece::Text;
use crate::wire::{Decoder, Progress, failure, malformed, nameless};

/// Every event in one flat shape: a tagged enum would copy each event into a tree first.
#[derive(Deserialize)]
struct StreamEvent<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    output_index: Option<u32>,
    delta: Option<String>,
    arguments: Option<String>,
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    call_id: Option<String>,
    name: Option<String>,
    arguments: Option<String>,
}

#[derive(Deserialize)]
struct Response {
    id: Option<String>,
    model: Option<String>,
    usage: Option<ResponseUsage>,
    incomplete_details: Option<IncompleteDetails>,
}

#[derive(Deserialize)]
struct IncompleteDetails {
    reason: Option<String>,
}

#[derive(Deserialize)]
struct ResponseUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    input_tokens_details: Option<InputDetails>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Deserialize)]
struct InputDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct OutputDetails {
    reasoning_tokens: Option<u64>,
}

impl ResponseUsage {
    fn read(&self) -> Usage {
        let input = self.input_tokens_details.as_ref();
        let output = self.output_tokens_details.as_ref();
        Usage {
            input: self.input_tokens.unwrap_or(0),
            output: self.output_tokens.unwrap_or(0),
            cache_read: input.and_then(|details| details.cached_tokens).unwrap_or(0),
            cache_write: input.and_then(|details| details.cache_write_tokens).unwrap_or(0),
            reasoning: output.and_then(|details| details.reasoning_tokens).unwrap_or(0),
        }
    }
}

/// A call that is being written.
struct OpenCall {
    /// Its place among all items.
    output_index: u32,
    wrote: bool,
}

/// Decodes one streamed response.
pub(super) struct ResponseDecoder {
    provider: String,
    started: bool,
    stopped: bool,
    refused: bool,
    calls: Vec<OpenCall>,
}

impl ResponseDecoder {
    pub(super) fn new(provider: String) -> Self {
        Self { provider, started: false, stopped: false, refused: false, calls: Vec::new() }
    }

    fn start_item(
        &mut self,
        output_index: u32,
        raw: &RawValue,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let item: Item<'_> = read(raw)?;
        if item.kind.0 != "function_call" {
            return Ok(());
        }
        let name = item.name.filter(|name| !name.is_empty()).ok_or_else(nameless)?;
        let id = item.call_id.unwrap_or_default();
        self.calls.push(OpenCall { output_index, wrote: false });
        let index = self.last_call();
        out.push(ModelEvent::ToolCallStart { index, id, name });
        if let Some(json) = item.arguments.filter(|json| !json.is_empty()) {
            self.write(output_index, json, out);
        }
        Ok(())
    }

    fn end_item(
        &mut self,
        output_index: u32,
        raw: &RawValue,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let item: Item<'_> = read(raw)?;
        match item.kind.0.as_ref() {
            "reasoning" => out.push(ModelEvent::ReasoningOpaque(ProviderData {
                provider: self.provider.clone(),
                kind: REASONING_ITEM.to_owned(),
                data: raw.get().to_owned(),
            })),
            // Servers that do not stream items tell a call only when it is whole.
            "function_call" if self.place(output_index).is_none() => {
                self.start_item(output_index, raw, out)?;
            }
            "function_call" => self.complete(output_index, item.arguments, out),
            _ => {}
        }
        Ok(())
    }

    fn last_call(&self) -> u32 {
        u32::try_from(self.calls.len()).unwrap_or(u32::MAX).saturating_sub(1)
    }

    fn place(&self, output_index: u32) -> Option<usize> {
        self.calls.iter().rposition(|call| call.output_index == output_index)
    }

    fn write(&mut self, output_index: u32, json: String, out: &mut Vec<ModelEvent>) {
        if let Some(place) = self.place(output_index) {
            self.calls[place].wrote = true;
            let index = u32::try_from(place).unwrap_or(u32::MAX);
            out.push(ModelEvent::ToolCallArguments { index, json });
        }
    }

    /// The whole arguments count only where no piece of them came before.
    fn complete(
        &mut self,
        output_index: u32,
        arguments: Option<String>,
        out: &mut Vec<ModelEvent>,
    ) {
        let wrote = self.place(output_index).is_none_or(|place| self.calls[place].wrote);
        if let Some(json) = arguments.filter(|json| !wrote && !json.is_empty()) {
            self.write(output_index, json, out);
        }
    }

    fn begin(&mut self, raw: &RawValue, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if !std::mem::replace(&mut self.started, true) {
            let response: Response = read(raw)?;
            out.push(ModelEvent::Started { response_id: response.id, model: response.model });
        }
        Ok(())
    }

    fn end(&mut self, raw: &RawValue, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        self.begin(raw, out)?;
        let response: Response = read(raw)?;
        if let Some(usage) = response.usage {
            out.push(ModelEvent::Usage(usage.read()));
        }
        let reason = response.incomplete_details.and_then(|details| details.reason);
        let stop = match reason.as_deref() {
            None if self.refused => StopReason::Refusal,
            None if self.calls.is_empty() => StopReason::EndTurn,
            None => StopReason::ToolUse,
            Some("max_output_tokens" | "max_tokens") => StopReason::MaxTokens,
            Some("content_filter") => StopReason::ContentFilter,
            Some(other) => {
                let name = "openai.incomplete_reason".to_owned();
                out.push(ModelEvent::Metadata(name, json!(other)));
                StopReason::Unknown
            }
        };
        self.stopped = true;
        out.push(ModelEvent::Stop(stop));
        Ok(())
    }
}

fn read<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Result<T, ModelError> {
    serde_json::from_str(raw.get()).map_err(|cause| malformed("an event", &cause))
}

fn non_empty(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

impl Decoder for ResponseDecoder {
    fn push(
        &mut self,
        event: &SseEvent<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<Progress, ModelError> {
        if event.data == b"[DONE]" {
            return match self.stopped {
                true => Ok(Progress::Done),
                false => Err(ModelError::incomplete()),
            };
        }
        let data = event.data;
        let event: StreamEvent<'_> =
            serde_json::from_slice(data).map_err(|cause| malformed("an event", &cause))?;
        let index = event.output_index.unwrap_or(0);
        match (event.kind.0.as_ref(), event.item, event.response) {
            ("response.output_text.delta", ..) => {
                out.extend(non_empty(event.delta).map(ModelEvent::Text));
            }
            ("response.refusal.delta", ..) => {
                self.refused = true;
                out.extend(non_empty(event.delta).map(ModelEvent::Text));
            }
            ("response.reasoning_summary_text.delta" | "response.reasoning_text.delta", ..) => {
                out.extend(non_empty(event.delta).map(ModelEvent::Reasoning));
            }
            ("response.function_call_arguments.delta", ..) => {
                if let Some(json) = non_empty(event.delta) {
                    self.write(index, json, out);
                }
            }
            ("response.function_call_arguments.done", ..) => {
                self.complete(index, event.arguments, out);
            }
            ("response.output_item.added", Some(item), _) => self.start_item(index, item, out)?,
            ("response.output_item.done", Some(item), _) => self.end_item(index, item, out)?,
            ("response.created" | "response.in_progress", _, Some(response)) => {
                self.begin(response, out)?;
            }
            ("response.completed" | "response.incomplete", _, Some(response)) => {
                self.end(response, out)?;
                return Ok(Progress::Done);
            }
            ("response.failed", _, Some(response)) => {
                return Err(failure::read(None, response.get().as_bytes()));
            }
            ("error", ..) => return Err(failure::read(None, data)),
            // Parts that begin and end, the vendor's own tools, and whatever it adds.
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
