//! Answering from what was kept.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::stream;
use provost_core::ContentPart;

use super::{Cassette, RECORD_HINT, RecordedAnswer, Redaction, class, key, request_key};
use crate::{
    ChatModel, ChatRequest, ModelError, ModelErrorClass, ModelEvent, ModelInfo, ModelResponse,
    ModelStream,
};

/// A model that answers from a cassette. Each recorded call is played once, and a request that was not recorded fails.
#[derive(Clone)]
pub struct Player {
    shared: Arc<Shared>,
}

struct Shared {
    info: ModelInfo,
    redaction: Redaction,
    cassette: Cassette,
    played: Mutex<Vec<bool>>,
}

impl Player {
    /// Plays a cassette in the place of a model. `redaction` must be the one it was recorded with, so that requests are the same
    /// again.
    pub fn new(cassette: Cassette, info: ModelInfo, redaction: Redaction) -> Self {
        let played = Mutex::new(vec![false; cassette.calls.len()]);
        Self { shared: Arc::new(Shared { info, redaction, cassette, played }) }
    }

    /// How many recorded calls nobody has made yet.
    pub fn left(&self) -> usize {
        self.shared.lock().iter().filter(|played| !**played).count()
    }

    fn answer(&self, request: &ChatRequest) -> Result<ModelResponse, ModelError> {
        let mut asked = request_key(request);
        self.shared.redaction.value(&mut asked);
        let calls = &self.shared.cassette.calls;
        let mut played = self.shared.lock();
        let fits = |at: &usize| !played[*at] && key::matches(&calls[*at].request, &asked);
        let Some(at) = (0..calls.len()).find(fits) else {
            let next = played.iter().position(|played| !played);
            return Err(self.miss(&asked, next));
        };
        played[at] = true;
        match &calls[at].answer {
            RecordedAnswer::Response(response) => Ok((**response).clone()),
            RecordedAnswer::Error { class: name, message, status } => {
                let mut error = ModelError::new(class(name), message.clone());
                error.status = *status;
                Err(error)
            }
        }
    }

    /// What was asked in vain, beside the call that would have been next.
    fn miss(&self, asked: &serde_json::Value, next: Option<usize>) -> ModelError {
        let calls = &self.shared.cassette.calls;
        let told = match next.and_then(|at| Some((at, calls.get(at)?))) {
            None => format!("all {} recorded calls were made already", calls.len()),
            Some((at, call)) => {
                let differences = key::differences(&call.request, asked).join("\n  ");
                format!(
                    "call {} of {} was recorded otherwise:\n  {differences}",
                    at + 1,
                    calls.len()
                )
            }
        };
        let problem = format!(
            "the cassette has no answer to this request: {told}\nrecord it again with {RECORD_HINT} if the change is meant"
        );
        ModelError::new(ModelErrorClass::InvalidRequest, problem)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Vec<bool>> {
        // Nothing that can fail happens under this lock.
        self.played.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChatModel for Player {
    fn info(&self) -> &ModelInfo {
        &self.shared.info
    }

    fn stream(&self, request: ChatRequest) -> ModelStream {
        let player = self.clone();
        let answer = stream::once(async move {
            let events: Vec<Result<ModelEvent, ModelError>> = match player.answer(&request) {
                Ok(response) => events(response).into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            };
            stream::iter(events)
        });
        Box::pin(futures::StreamExt::flatten(answer))
    }
}

/// The events that fold into an answer.
fn events(response: ModelResponse) -> Vec<ModelEvent> {
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
            // A model says nothing else.
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
