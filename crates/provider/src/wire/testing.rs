//! Feeding wires by hand, for their tests.

use provost_core::Message;
use provost_model::{
    ChatRequest, Fold, ModelError, ModelEvent, ModelInfo, ModelResponse, NativeOutput,
};
use serde_json::Value;

use super::{Decoder, Progress, Wire};
use crate::wire::SseEvent;

pub(crate) fn info() -> ModelInfo {
    ModelInfo {
        reasoning: true,
        native_output: NativeOutput::WithTools,
        ..ModelInfo::unknown("test", "m-1")
    }
}

pub(crate) fn ask() -> ChatRequest {
    ChatRequest::new([Message::user("Hi")])
}

pub(crate) fn encode(wire: &impl Wire, request: &ChatRequest, info: &ModelInfo) -> Value {
    serde_json::from_slice(&wire.encode(request, info).unwrap()).unwrap()
}

/// What a wire makes of a list of events, ended by the end of the stream.
pub(crate) fn decode(wire: &impl Wire, data: &[&str]) -> (Vec<ModelEvent>, Result<(), ModelError>) {
    let mut decoder = wire.decoder();
    let mut events = Vec::new();
    let result = feed(decoder.as_mut(), data, &mut events);
    (events, result)
}

fn feed(
    decoder: &mut dyn Decoder,
    data: &[&str],
    events: &mut Vec<ModelEvent>,
) -> Result<(), ModelError> {
    for data in data {
        let event = SseEvent { event: b"", data: data.as_bytes() };
        if decoder.push(&event, events)? == Progress::Done {
            return Ok(());
        }
    }
    decoder.finish(events)
}

/// The whole answer.
pub(crate) fn answer(wire: &impl Wire, data: &[&str]) -> Result<ModelResponse, ModelError> {
    let (events, result) = decode(wire, data);
    result?;
    let mut fold = Fold::default();
    for event in &events {
        fold.push(event)?;
    }
    fold.finish()
}
