//! Helpers for the tests of wires.

use provost_core::Message;
use provost_model::{
    ChatRequest, ModelError, ModelEvent, ModelInfo, ModelResponse, ResponseAccumulator,
    StructuredOutputSupport,
};
use serde_json::Value;

use super::{DecodeStatus, Decoder, WireFormat};
use crate::wire::SseEvent;

pub(crate) fn info() -> ModelInfo {
    ModelInfo {
        reasoning: true,
        native_output: StructuredOutputSupport::WithTools,
        ..ModelInfo::unknown("test", "m-1")
    }
}

pub(crate) fn test_request() -> ChatRequest {
    ChatRequest::new([Message::user("Hi")])
}

pub(crate) fn encode(wire: &impl WireFormat, request: &ChatRequest, info: &ModelInfo) -> Value {
    serde_json::from_slice(&wire.encode(request, info).unwrap()).unwrap()
}

/// Decodes a list of events and then the end of the stream.
pub(crate) fn decode(
    wire: &impl WireFormat,
    data: &[&str],
) -> (Vec<ModelEvent>, Result<(), ModelError>) {
    let mut decoder = wire.decoder();
    let mut events = Vec::new();
    let result = feed(decoder.as_mut(), data, &mut events);
    (events, result)
}

/// Passes events to a decoder until the response is complete, then ends the input.
fn feed(
    decoder: &mut dyn Decoder,
    data: &[&str],
    events: &mut Vec<ModelEvent>,
) -> Result<(), ModelError> {
    for data in data {
        let event = SseEvent { event: b"", data: data.as_bytes() };
        if decoder.push(&event, events)? == DecodeStatus::Done {
            return Ok(());
        }
    }
    decoder.finish(events)
}

/// Decodes a complete response.
pub(crate) fn decode_response(
    wire: &impl WireFormat,
    data: &[&str],
) -> Result<ModelResponse, ModelError> {
    let (events, result) = decode(wire, data);
    result?;
    let mut accumulator = ResponseAccumulator::default();
    for event in &events {
        accumulator.push(event)?;
    }
    accumulator.finish()
}
