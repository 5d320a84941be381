//! Decodes the chunks of a streamed Chat Completion.

use std::collections::BTreeMap;

use provost_core::StopReason;
use provost_model::{ModelError, ModelErrorClass, ModelEvent};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::PROVIDER;
use super::chunk::{Choice, Chunk, Delta};
use super::tool_calls::StreamedCalls;
use crate::wire::SseEvent;
use crate::wire::{DecodeStatus, Decoder, error, malformed};

/// Decoder of one streamed response of Chat Completions. Only the first choice becomes the message; the text of the
/// others becomes metadata.
pub(super) struct ChatDecoder {
    metadata_fields: Vec<String>,
    started: bool,
    has_choice: bool,
    refused: bool,
    stop: Option<StopReason>,
    calls: StreamedCalls,
    other_choices: BTreeMap<u32, String>,
    logprobs: Vec<Value>,
}

impl ChatDecoder {
    pub(super) fn new(metadata_fields: Vec<String>) -> Self {
        Self {
            metadata_fields,
            started: false,
            has_choice: false,
            refused: false,
            stop: None,
            calls: StreamedCalls::default(),
            other_choices: BTreeMap::new(),
            logprobs: Vec::new(),
        }
    }

    /// Appends the events of a chunk. Returns an error if the chunk is malformed or reports an error.
    fn push_chunk(&mut self, data: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let chunk: Chunk<'_> =
            serde_json::from_slice(data).map_err(|cause| malformed("a chunk", &cause))?;
        if chunk.error.is_some() {
            return Err(error::parse(None, data));
        }
        if !self.started && (chunk.id.is_some() || chunk.model.is_some()) {
            self.started = true;
            out.push(ModelEvent::Started {
                response_id: chunk.id.map(|id| id.0.into_owned()),
                model: chunk.model.map(|model| model.0.into_owned()),
            });
        }
        for choice in chunk.choices {
            self.has_choice = true;
            match choice.index {
                0 => self.push_choice(choice, out)?,
                other => self.collect_other_choice(other, choice),
            }
        }
        if let Some(usage) = chunk.usage {
            out.push(ModelEvent::Usage(usage.to_usage()));
        }
        if !self.metadata_fields.is_empty() {
            self.add_metadata_fields(data, out);
        }
        Ok(())
    }

    /// Appends the events of the first choice.
    fn push_choice(
        &mut self,
        choice: Choice<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        self.push_delta(choice.delta, out)?;
        if let Some(logprobs) = choice.logprobs {
            self.logprobs
                .extend(serde_json::from_str(logprobs.get()).ok().filter(|v: &Value| !v.is_null()));
        }
        if let Some(reason) = &choice.finish_reason {
            let has_stop_sequence =
                choice.stop_reason.is_some_and(|stop| stop.get().starts_with('"'));
            self.finish_choice(&reason.0, has_stop_sequence, out)?;
        }
        Ok(())
    }

    /// Appends the events of a part of the message.
    fn push_delta(
        &mut self,
        delta: Delta<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let reasoning = match delta.reasoning_content {
            Some(text) => Some(text),
            None => delta.reasoning.or(delta.reasoning_details).and_then(reasoning_text),
        };
        if let Some(text) = reasoning.filter(|text| !text.is_empty()) {
            out.push(ModelEvent::Reasoning(text));
        }
        if let Some(text) = delta.content.filter(|text| !text.is_empty()) {
            out.push(ModelEvent::Text(text));
        }
        if let Some(text) = delta.refusal.filter(|text| !text.is_empty()) {
            self.refused = true;
            out.push(ModelEvent::Text(text));
        }
        for call in delta.tool_calls.into_iter().flatten() {
            self.calls.push(call, out)?;
        }
        Ok(())
    }

    /// Appends the stop event for the vendor's reason. An unknown reason is also appended as metadata.
    fn finish_choice(
        &mut self,
        reason: &str,
        has_stop_sequence: bool,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let stop = match reason {
            "length" => StopReason::MaxTokens,
            "content_filter" => StopReason::ContentFilter,
            "tool_calls" | "function_call" => StopReason::ToolUse,
            "stop" | "eos" | "end_turn" if has_stop_sequence => StopReason::StopSequence,
            "stop" | "eos" | "end_turn" => self.default_stop(),
            // Some servers send an empty reason with every chunk.
            "" => return Ok(()),
            other => {
                out.push(ModelEvent::Metadata("openai.finish_reason".to_owned(), json!(other)));
                StopReason::Unknown
            }
        };
        self.push_stop(stop, out)
    }

    /// Returns the stop reason that follows from the content.
    fn default_stop(&self) -> StopReason {
        if self.refused {
            StopReason::Refusal
        } else if self.calls.is_empty() {
            StopReason::EndTurn
        } else {
            StopReason::ToolUse
        }
    }

    /// Appends the stop event, unless it was already sent. Returns an error if a tool call has no name.
    fn push_stop(&mut self, stop: StopReason, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if self.stop.is_some() {
            return Ok(());
        }
        if self.calls.has_unnamed_call() {
            return Err(ModelError::new(
                ModelErrorClass::Malformed,
                "the provider sent a tool call without a name",
            ));
        }
        if !self.logprobs.is_empty() {
            let logprobs = Value::Array(std::mem::take(&mut self.logprobs));
            out.push(ModelEvent::Metadata("openai.logprobs".to_owned(), logprobs));
        }
        self.stop = Some(stop);
        out.push(ModelEvent::Stop(stop));
        Ok(())
    }

    /// Collects the text of another choice, for the metadata.
    fn collect_other_choice(&mut self, index: u32, choice: Choice<'_>) {
        if let Some(text) = choice.delta.content {
            self.other_choices.entry(index).or_default().push_str(&text);
        }
    }

    /// Appends the configured fields of the chunk as metadata.
    fn add_metadata_fields(&self, data: &[u8], out: &mut Vec<ModelEvent>) {
        let Ok(Value::Object(mut chunk)) = serde_json::from_slice(data) else {
            return;
        };
        for field in &self.metadata_fields {
            if let Some(value) = chunk.remove(field).filter(|value| !value.is_null()) {
                out.push(ModelEvent::Metadata(format!("{PROVIDER}.{field}"), value));
            }
        }
    }

    /// Appends the texts of the other choices as metadata.
    fn push_other_choices(&mut self, out: &mut Vec<ModelEvent>) {
        if !self.other_choices.is_empty() {
            let texts = std::mem::take(&mut self.other_choices).into_values();
            let texts = Value::Array(texts.map(Value::String).collect());
            out.push(ModelEvent::Metadata("openai.choices".to_owned(), texts));
        }
    }
}

impl Decoder for ChatDecoder {
    fn push(
        &mut self,
        event: &SseEvent<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<DecodeStatus, ModelError> {
        if event.data == b"[DONE]" {
            if !self.has_choice {
                return Err(ModelError::new(
                    ModelErrorClass::Malformed,
                    "the provider's stream held no choices",
                ));
            }
            self.push_stop(self.default_stop(), out)?;
            self.push_other_choices(out);
            return Ok(DecodeStatus::Done);
        }
        self.push_chunk(event.data, out)?;
        Ok(DecodeStatus::More)
    }

    fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if self.stop.is_none() {
            return Err(ModelError::stream_truncated());
        }
        self.push_other_choices(out);
        Ok(())
    }
}

/// Returns reasoning that is a string, an object or a list of objects. `None` for other JSON.
fn reasoning_text(raw: &RawValue) -> Option<String> {
    match serde_json::from_str(raw.get()).ok()? {
        Value::String(text) => Some(text),
        Value::Object(piece) => piece_text(&Value::Object(piece)),
        Value::Array(pieces) => Some(pieces.iter().filter_map(piece_text).collect()),
        _ => None,
    }
}

/// Returns the text of a piece of reasoning. `None` if it has none.
fn piece_text(piece: &Value) -> Option<String> {
    ["text", "content", "summary"]
        .iter()
        .find_map(|field| piece.get(field)?.as_str())
        .map(str::to_owned)
}
