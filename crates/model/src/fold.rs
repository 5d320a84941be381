//! The one place where deltas become a message.

use provost_core::usage::limits::{CALLS_PER_TURN_MAX, RESPONSE_BYTES_MAX};
use provost_core::{
    ContentPart, Message, ProviderData, Reasoning, Role, StopReason, Timestamp, ToolCall, Usage,
};
use serde_json::{Map, Value};

use crate::{ModelError, ModelErrorClass, ModelEvent, ModelResponse};

/// Collects the events of one call. Linear in the length of the answer, and bounded.
#[derive(Debug, Default)]
pub struct Fold {
    parts: Vec<ContentPart>,
    /// Provider index of a call to its place in `parts`.
    calls: Vec<(u32, usize)>,
    /// None until the provider says it: a server that never does is not the same as one that says zero.
    usage: Option<Usage>,
    stop: Option<StopReason>,
    response_id: Option<String>,
    model: Option<String>,
    metadata: Map<String, Value>,
    bytes: usize,
}

impl Fold {
    /// Takes one event in.
    pub fn push(&mut self, event: &ModelEvent) -> Result<(), ModelError> {
        match event {
            ModelEvent::Started { response_id, model } => {
                self.response_id.clone_from(response_id);
                self.model.clone_from(model);
            }
            ModelEvent::Text(text) => {
                self.grow(text.len())?;
                match self.parts.last_mut() {
                    Some(ContentPart::Text { text: last }) => last.push_str(text),
                    _ => self.add(ContentPart::text(text)),
                }
            }
            ModelEvent::Reasoning(text) => {
                self.grow(text.len())?;
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
            ModelEvent::ReasoningOpaque(opaque) => self.seal_reasoning(opaque)?,
            ModelEvent::ToolCallStart { index, id, name } => self.start_call(*index, id, name)?,
            ModelEvent::ToolCallArguments { index, json } => {
                self.grow(json.len())?;
                self.call(*index)?.arguments.push_str(json);
            }
            ModelEvent::ToolCallOpaque { index, opaque } => {
                self.grow(opaque.data.len())?;
                self.call(*index)?.opaque = Some(opaque.clone());
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

    /// The id of the call at a provider's index, once it has begun.
    pub fn call_id(&self, index: u32) -> Option<&str> {
        let (_, place) = self.calls.iter().find(|(known, _)| *known == index)?;
        match self.parts.get(*place) {
            Some(ContentPart::ToolCall(call)) => Some(&call.id),
            _ => None,
        }
    }

    /// The whole answer, or an error if the stream ended before the model did.
    pub fn finish(self) -> Result<ModelResponse, ModelError> {
        match self.stop {
            Some(stop) => Ok(self.into_response(stop)),
            None => Err(ModelError::incomplete()),
        }
    }

    /// What arrived before the call was stopped: text and reasoning, no half-written calls.
    pub fn into_partial(mut self) -> ModelResponse {
        self.parts.retain(|part| !matches!(part, ContentPart::ToolCall(_)));
        let mut response = self.into_response(StopReason::Cancelled);
        response.message.interrupted = true;
        response
    }

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

    fn seal_reasoning(&mut self, opaque: &ProviderData) -> Result<(), ModelError> {
        self.grow(opaque.data.len())?;
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

    fn start_call(&mut self, index: u32, id: &str, name: &str) -> Result<(), ModelError> {
        if self.calls.len() >= CALLS_PER_TURN_MAX {
            return Err(ModelError::new(
                ModelErrorClass::Malformed,
                format!(
                    "the model asked for more than {CALLS_PER_TURN_MAX} tool calls in one answer"
                ),
            ));
        }
        self.grow(name.len() + id.len())?;
        self.calls.push((index, self.parts.len()));
        self.add(ContentPart::ToolCall(ToolCall {
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: String::new(),
            opaque: None,
        }));
        Ok(())
    }

    fn call(&mut self, index: u32) -> Result<&mut ToolCall, ModelError> {
        let place = self.calls.iter().find(|(known, _)| *known == index).map(|(_, place)| *place);
        match place.and_then(|place| self.parts.get_mut(place)) {
            Some(ContentPart::ToolCall(call)) => Ok(call),
            _ => Err(ModelError::new(
                ModelErrorClass::Malformed,
                format!("the provider sent arguments for tool call {index}, which never began"),
            )),
        }
    }

    fn add(&mut self, part: ContentPart) {
        // Most answers are one part, and they are kept as long as the conversation: a list of four would be waste.
        if self.parts.is_empty() {
            self.parts.reserve_exact(1);
        }
        self.parts.push(part);
    }

    fn grow(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > RESPONSE_BYTES_MAX {
            return Err(ModelError::new(
                ModelErrorClass::Malformed,
                format!("the answer is larger than {RESPONSE_BYTES_MAX} bytes"),
            ));
        }
        Ok(())
    }
}
