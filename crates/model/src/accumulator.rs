//! Builds a response from the events of a model call.

use provost_core::usage::limits::{CALLS_PER_TURN_MAX, RESPONSE_BYTES_MAX};
use provost_core::{
    ContentPart, Message, ProviderData, Reasoning, Role, StopReason, Timestamp, ToolCall, Usage,
};
use serde_json::{Map, Value};

use crate::{ModelError, ModelErrorClass, ModelEvent, ModelResponse};

/// Collects the events of one model call into a [`ModelResponse`]. It takes linear time and limits the size of the
/// response.
#[derive(Debug, Default)]
pub struct ResponseAccumulator {
    parts: Vec<ContentPart>,
    /// The provider's index of each tool call and the position of the call in `parts`.
    calls: Vec<(u32, usize)>,
    /// The reported usage. `None` means that the provider has not reported it, which differs from a report of zero.
    usage: Option<Usage>,
    stop: Option<StopReason>,
    response_id: Option<String>,
    model: Option<String>,
    metadata: Map<String, Value>,
    bytes: usize,
}

impl ResponseAccumulator {
    /// Adds one event. Returns an error if the response becomes too large, has too many tool calls, or has data for a
    /// tool call that has not started.
    pub fn push(&mut self, event: &ModelEvent) -> Result<(), ModelError> {
        match event {
            ModelEvent::Started { response_id, model } => {
                self.response_id.clone_from(response_id);
                self.model.clone_from(model);
            }
            ModelEvent::Text(text) => {
                self.count_bytes(text.len())?;
                match self.parts.last_mut() {
                    Some(ContentPart::Text { text: last }) => last.push_str(text),
                    _ => self.add(ContentPart::text(text)),
                }
            }
            ModelEvent::Reasoning(text) => {
                self.count_bytes(text.len())?;
                match self.parts.last_mut() {
                    Some(ContentPart::Reasoning(last)) if last.opaque.is_none() => {
                        last.text.push_str(text)
                    }
                    _ => self.parts.push(ContentPart::Reasoning(Reasoning {
                        text: text.clone(),
                        opaque: None,
                    })),
                }
            }
            ModelEvent::ReasoningOpaque(opaque) => self.close_reasoning(opaque)?,
            ModelEvent::ToolCallStart { index, id, name } => self.start_call(*index, id, name)?,
            ModelEvent::ToolCallArguments { index, json } => {
                self.count_bytes(json.len())?;
                self.call_mut(*index)?.arguments.push_str(json);
            }
            ModelEvent::ToolCallOpaque { index, opaque } => {
                self.count_bytes(opaque.data.len())?;
                self.call_mut(*index)?.opaque = Some(opaque.clone());
            }
            ModelEvent::Usage(usage) => self.usage = Some(*usage),
            ModelEvent::Metadata(name, value) => {
                self.metadata.insert(name.clone(), value.clone());
            }
            ModelEvent::Retry { .. } => {}
            ModelEvent::Stop(stop) => self.stop = Some(*stop),
        }
        Ok(())
    }

    /// Returns the id of the tool call at a provider's index. `None` if that call has not started.
    pub fn call_id(&self, index: u32) -> Option<&str> {
        let (_, position) = self.calls.iter().find(|(open, _)| *open == index)?;
        match self.parts.get(*position) {
            Some(ContentPart::ToolCall(call)) => Some(&call.id),
            _ => None,
        }
    }

    /// Returns the complete response. Returns [`ModelErrorClass::StreamTruncated`] if no [`ModelEvent::Stop`] was
    /// added.
    pub fn finish(self) -> Result<ModelResponse, ModelError> {
        match self.stop {
            Some(stop) => Ok(self.into_response(stop)),
            None => Err(ModelError::stream_truncated()),
        }
    }

    /// Returns the partial response of a call that was interrupted: its text and reasoning, without tool calls.
    pub fn into_interrupted(mut self) -> ModelResponse {
        self.parts.retain(|part| !matches!(part, ContentPart::ToolCall(_)));
        let mut response = self.into_response(StopReason::Cancelled);
        response.message.interrupted = true;
        response
    }

    /// Builds the response from the parts added so far.
    fn into_response(self, stop: StopReason) -> ModelResponse {
        let mut message = Message::new(Role::Assistant, self.parts, Timestamp::default());
        message.model = self.model;
        ModelResponse {
            message,
            usage: self.usage.unwrap_or_default(),
            usage_known: self.usage.is_some(),
            stop,
            response_id: self.response_id,
            metadata: self.metadata,
        }
    }

    /// Adds opaque data to the open reasoning part, or adds a reasoning part without text if none is open.
    fn close_reasoning(&mut self, opaque: &ProviderData) -> Result<(), ModelError> {
        self.count_bytes(opaque.data.len())?;
        match self.parts.last_mut() {
            Some(ContentPart::Reasoning(last)) if last.opaque.is_none() => {
                last.opaque = Some(opaque.clone())
            }
            _ => self.add(ContentPart::Reasoning(Reasoning {
                text: String::new(),
                opaque: Some(opaque.clone()),
            })),
        }
        Ok(())
    }

    /// Adds a tool call without arguments. Returns an error if the response has too many tool calls or the index is in
    /// use.
    fn start_call(&mut self, index: u32, id: &str, name: &str) -> Result<(), ModelError> {
        if self.calls.len() >= CALLS_PER_TURN_MAX {
            return Err(ModelError::new(
                ModelErrorClass::Malformed,
                format!(
                    "the model requested more than {CALLS_PER_TURN_MAX} tool calls in one response"
                ),
            ));
        }
        self.count_bytes(name.len() + id.len())?;
        self.calls.push((index, self.parts.len()));
        self.add(ContentPart::ToolCall(ToolCall {
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: String::new(),
            opaque: None,
        }));
        Ok(())
    }

    /// Returns the tool call at a provider's index. Returns an error if the tool call has not started.
    fn call_mut(&mut self, index: u32) -> Result<&mut ToolCall, ModelError> {
        let position =
            self.calls.iter().find(|(open, _)| *open == index).map(|(_, position)| *position);
        match position.and_then(|position| self.parts.get_mut(position)) {
            Some(ContentPart::ToolCall(call)) => Ok(call),
            _ => Err(ModelError::new(
                ModelErrorClass::Malformed,
                format!("the provider sent arguments for tool call {index}, which has not started"),
            )),
        }
    }

    fn add(&mut self, part: ContentPart) {
        // Most responses have one part and live as long as the conversation, so the default capacity of four would
        // waste memory.
        if self.parts.is_empty() {
            self.parts.reserve_exact(1);
        }
        self.parts.push(part);
    }

    /// Adds to the size of the response. Returns an error if it exceeds the limit.
    fn count_bytes(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > RESPONSE_BYTES_MAX {
            return Err(ModelError::new(
                ModelErrorClass::Malformed,
                format!("the response is larger than {RESPONSE_BYTES_MAX} bytes"),
            ));
        }
        Ok(())
    }
}
