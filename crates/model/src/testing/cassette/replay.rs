//! Replays recorded calls.

use std::sync::Arc;

use futures::stream;
use parking_lot::Mutex;
use provost_core::ContentPart;

use super::{
    Cassette, CassetteRedaction, RECORD_HINT, RecordedAnswer, class_from_name, key, request_key,
};
use crate::{
    ChatModel, ChatRequest, ModelError, ModelErrorClass, ModelEvent, ModelInfo, ModelResponse,
    ModelStream,
};

/// A model that responds from a cassette. Each recorded call is replayed once. A request that was not recorded fails.
#[derive(Clone)]
pub struct ReplayModel {
    state: Arc<ReplayState>,
}

/// Cassette with the calls that were already replayed.
struct ReplayState {
    info: ModelInfo,
    redaction: CassetteRedaction,
    cassette: Cassette,
    played: Mutex<Vec<bool>>,
}

impl ReplayModel {
    /// Creates a model that replays a cassette. `redaction` must have the rules of the recording, because requests are
    /// compared after redaction.
    pub fn new(cassette: Cassette, info: ModelInfo, redaction: CassetteRedaction) -> Self {
        let played = Mutex::new(vec![false; cassette.calls.len()]);
        Self { state: Arc::new(ReplayState { info, redaction, cassette, played }) }
    }

    /// Returns the number of recorded calls that were not replayed yet.
    pub fn remaining(&self) -> usize {
        self.state.played.lock().iter().filter(|played| !**played).count()
    }

    /// Returns the response of the first matching call that was not replayed yet, and marks it. Returns an error if no
    /// recorded call matches, or the recorded error.
    fn take_response(&self, request: &ChatRequest) -> Result<ModelResponse, ModelError> {
        let mut requested = request_key(request);
        self.state.redaction.redact_value(&mut requested);
        let calls = &self.state.cassette.calls;
        let mut played = self.state.played.lock();
        let is_match = |at: &usize| !played[*at] && key::matches(&calls[*at].request, &requested);
        let Some(at) = (0..calls.len()).find(is_match) else {
            let next = played.iter().position(|played| !played);
            return Err(self.mismatch_error(&requested, next));
        };
        played[at] = true;
        match &calls[at].answer {
            RecordedAnswer::Response(response) => Ok((**response).clone()),
            RecordedAnswer::Error { class: name, message, status } => {
                let mut error = ModelError::new(class_from_name(name), message.clone());
                error.status = *status;
                Err(error)
            }
        }
    }

    /// Creates the error for a request without a recorded response. Its message has the differences to the next
    /// recorded call.
    fn mismatch_error(&self, requested: &serde_json::Value, next: Option<usize>) -> ModelError {
        let calls = &self.state.cassette.calls;
        let explanation = match next.and_then(|at| Some((at, calls.get(at)?))) {
            None => format!("all {} recorded calls were already replayed", calls.len()),
            Some((at, call)) => {
                let differences = key::compare_requests(&call.request, requested).join("\n  ");
                format!(
                    "call {} of {} differs from this request:\n  {differences}",
                    at + 1,
                    calls.len()
                )
            }
        };
        let problem = format!(
            "the cassette has no response to this request: {explanation}\nrecord it again with {RECORD_HINT} if the change is intended"
        );
        ModelError::new(ModelErrorClass::InvalidRequest, problem)
    }
}

impl ReplayState {}

impl ChatModel for ReplayModel {
    fn info(&self) -> &ModelInfo {
        &self.state.info
    }

    fn stream(&self, request: ChatRequest) -> ModelStream {
        let model = self.clone();
        let answer = stream::once(async move {
            let events: Vec<Result<ModelEvent, ModelError>> = match model.take_response(&request) {
                Ok(response) => to_events(response).into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            };
            stream::iter(events)
        });
        Box::pin(futures::StreamExt::flatten(answer))
    }
}

/// Converts a response to the events of a stream.
fn to_events(response: ModelResponse) -> Vec<ModelEvent> {
    let ModelResponse { message, usage, usage_known, stop, response_id, metadata } = response;
    let mut events = vec![ModelEvent::Started { response_id, model: message.model }];
    let mut index = 0;
    for part in message.parts {
        match part {
            ContentPart::Text { text } => events.push(ModelEvent::Text(text)),
            ContentPart::Reasoning(reasoning) => {
                if !reasoning.text.is_empty() {
                    events.push(ModelEvent::Reasoning(reasoning.text));
                }
                events.extend(reasoning.opaque.map(ModelEvent::ReasoningOpaque));
            }
            ContentPart::ToolCall(call) => {
                let (id, name) = (call.id, call.name);
                events.push(ModelEvent::ToolCallStart { index, id, name });
                events.push(ModelEvent::ToolCallArguments { index, json: call.arguments });
                events
                    .extend(call.opaque.map(|opaque| ModelEvent::ToolCallOpaque { index, opaque }));
                index += 1;
            }
            // A response of a model contains no other parts.
            ContentPart::Image(_)
            | ContentPart::Document(_)
            | ContentPart::ToolResult(_)
            | ContentPart::Unknown(_) => {}
        }
    }
    events.extend(metadata.into_iter().map(|(name, value)| ModelEvent::Metadata(name, value)));
    events.extend(usage_known.then_some(ModelEvent::Usage(usage)));
    events.push(ModelEvent::Stop(stop));
    events
}
