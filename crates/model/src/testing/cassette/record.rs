//! Records the calls of a real model.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::Stream;
use parking_lot::Mutex;
use provost_core::Money;
use serde_json::Value;

use super::{Cassette, CassetteRedaction, RecordedAnswer, RecordedCall, request_key};
use crate::{
    ChatModel, ChatRequest, ModelError, ModelEvent, ModelInfo, ModelResponse, ModelStream,
    ResponseAccumulator,
};

/// A model that records its requests and responses. Cancelled calls are not recorded.
pub struct RecordingModel<M> {
    model: M,
    state: Arc<RecordingState>,
}

/// Calls recorded so far, and the rules that remove secrets from them.
struct RecordingState {
    redaction: CassetteRedaction,
    cassette: Mutex<Cassette>,
}

impl<M: ChatModel> RecordingModel<M> {
    /// Creates a model that records the calls of `model`.
    pub fn new(model: M, redaction: CassetteRedaction) -> Self {
        let state = RecordingState { redaction, cassette: Mutex::default() };
        Self { model, state: Arc::new(state) }
    }

    /// Returns the calls recorded so far.
    pub fn cassette(&self) -> Cassette {
        self.state.cassette.lock().clone()
    }
}

impl RecordingState {
    /// Removes secrets from a call and records it.
    fn record(&self, request: Value, outcome: Result<ModelResponse, &ModelError>) {
        let call = RecordedCall { request, answer: RecordedAnswer::of(outcome) };
        let call = self.redaction.redact_call(call);
        self.cassette.lock().calls.push(call);
    }
}

impl<M: ChatModel> ChatModel for RecordingModel<M> {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn stream(&self, request: ChatRequest) -> ModelStream {
        let key = request_key(&request);
        let (state, stream) = (Arc::clone(&self.state), self.model.stream(request));
        Box::pin(RecordingStream {
            state,
            stream,
            pending: Some((key, ResponseAccumulator::default())),
        })
    }

    fn cost(&self, response: &ModelResponse) -> Option<Money> {
        self.model.cost(response)
    }
}

/// Stream of a model that records the call when the stream ends or fails.
struct RecordingStream {
    state: Arc<RecordingState>,
    stream: ModelStream,
    /// The request and the response so far. `None` after the call is recorded.
    pending: Option<(Value, ResponseAccumulator)>,
}

impl Stream for RecordingStream {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let event = ready!(self.stream.as_mut().poll_next(cx));
        let this = &mut *self;
        match &event {
            Some(Ok(event)) => {
                let pushed = this.pending.as_mut().map(|(_, accumulator)| accumulator.push(event));
                // A response that exceeds the limits is not recorded.
                if matches!(pushed, Some(Err(_))) {
                    this.pending = None;
                }
            }
            Some(Err(error)) => {
                if let Some((key, _)) = this.pending.take() {
                    this.state.record(key, Err(error));
                }
            }
            None => {
                if let Some((key, accumulator)) = this.pending.take() {
                    match accumulator.finish() {
                        Ok(response) => this.state.record(key, Ok(response)),
                        Err(error) => this.state.record(key, Err(&error)),
                    }
                }
            }
        }
        Poll::Ready(event)
    }
}
