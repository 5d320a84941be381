//! Decodes the typed events of a streamed response.

use provost_core::{ProviderData, StopReason, Usage};
use provost_model::{ModelError, ModelEvent};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::REASONING_ITEM;
use crate::wire::SseEvent;
use crate::wire::arguments::Text;
use crate::wire::{DecodeStatus, Decoder, error, malformed, missing_tool_name};

/// Fields of all event types. A tagged enum would first copy each event into a tree.
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
    /// Parses a part of an event.
    fn to_usage(&self) -> Usage {
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

/// A tool call of the response so far.
struct StreamedCall {
    /// Position of the call among all items.
    output_index: u32,
    has_arguments: bool,
}

/// Decoder of one streamed response of OpenAI Responses.
pub(super) struct ResponseDecoder {
    provider: String,
    started: bool,
    has_stopped: bool,
    refused: bool,
    calls: Vec<StreamedCall>,
}

impl ResponseDecoder {
    pub(super) fn new(provider: String) -> Self {
        Self { provider, started: false, has_stopped: false, refused: false, calls: Vec::new() }
    }

    /// Starts a tool call. Ignores other items.
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
        let name = item.name.filter(|name| !name.is_empty()).ok_or_else(missing_tool_name)?;
        let id = item.call_id.unwrap_or_default();
        self.calls.push(StreamedCall { output_index, has_arguments: false });
        let index = self.last_call_index();
        out.push(ModelEvent::ToolCallStart { index, id, name });
        if let Some(json) = item.arguments.filter(|json| !json.is_empty()) {
            self.push_arguments(output_index, json, out);
        }
        Ok(())
    }

    /// Completes a tool call or a reasoning item. Ignores other items.
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
            // Servers that do not stream items send a call only when it is complete.
            "function_call" if self.position(output_index).is_none() => {
                self.start_item(output_index, raw, out)?;
            }
            "function_call" => self.complete_arguments(output_index, item.arguments, out),
            _ => {}
        }
        Ok(())
    }

    /// Returns the index of the newest tool call.
    fn last_call_index(&self) -> u32 {
        u32::try_from(self.calls.len()).unwrap_or(u32::MAX).saturating_sub(1)
    }

    /// Returns the position of the tool call of an output item. `None` if it has not started.
    fn position(&self, output_index: u32) -> Option<usize> {
        self.calls.iter().rposition(|call| call.output_index == output_index)
    }

    /// Appends an event with a part of the arguments. Does nothing if the call has not started.
    fn push_arguments(&mut self, output_index: u32, json: String, out: &mut Vec<ModelEvent>) {
        if let Some(position) = self.position(output_index) {
            self.calls[position].has_arguments = true;
            let index = u32::try_from(position).unwrap_or(u32::MAX);
            out.push(ModelEvent::ToolCallArguments { index, json });
        }
    }

    /// Appends the complete arguments of a call, unless parts of them arrived before.
    fn complete_arguments(
        &mut self,
        output_index: u32,
        arguments: Option<String>,
        out: &mut Vec<ModelEvent>,
    ) {
        let has_arguments =
            self.position(output_index).is_none_or(|position| self.calls[position].has_arguments);
        if let Some(json) = arguments.filter(|json| !has_arguments && !json.is_empty()) {
            self.push_arguments(output_index, json, out);
        }
    }

    /// Appends the start event, unless it was already sent.
    fn start_response(
        &mut self,
        raw: &RawValue,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        if !std::mem::replace(&mut self.started, true) {
            let response: Response = read(raw)?;
            out.push(ModelEvent::Started { response_id: response.id, model: response.model });
        }
        Ok(())
    }

    /// Appends the usage and the stop event.
    fn finish_response(
        &mut self,
        raw: &RawValue,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        self.start_response(raw, out)?;
        let response: Response = read(raw)?;
        if let Some(usage) = response.usage {
            out.push(ModelEvent::Usage(usage.to_usage()));
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
        self.has_stopped = true;
        out.push(ModelEvent::Stop(stop));
        Ok(())
    }
}

fn read<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Result<T, ModelError> {
    serde_json::from_str(raw.get()).map_err(|cause| malformed("an event", &cause))
}

/// Returns the text. `None` if it is empty.
fn non_empty(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

impl Decoder for ResponseDecoder {
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
                    self.push_arguments(index, json, out);
                }
            }
            ("response.function_call_arguments.done", ..) => {
                self.complete_arguments(index, event.arguments, out);
            }
            ("response.output_item.added", Some(item), _) => self.start_item(index, item, out)?,
            ("response.output_item.done", Some(item), _) => self.end_item(index, item, out)?,
            ("response.created" | "response.in_progress", _, Some(response)) => {
                self.start_response(response, out)?;
            }
            ("response.completed" | "response.incomplete", _, Some(response)) => {
                self.finish_response(response, out)?;
                return Ok(DecodeStatus::Done);
            }
            ("response.failed", _, Some(response)) => {
                return Err(error::parse(None, response.get().as_bytes()));
            }
            ("error", ..) => return Err(error::parse(None, data)),
            // Start and end of parts, calls of the vendor's own tools and unknown events are ignored.
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
