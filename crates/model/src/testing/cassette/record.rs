//! Keeping what a real model says.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use futures::Stream;
use provost_core::Money;
use serde_json::Value;

use super::{Cassette, RecordedAnswer, RecordedCall, Redaction, request_key};
use crate::{
    ChatModel, ChatRequest, Fold, ModelError, ModelEvent, ModelInfo, ModelResponse, ModelStream,
};

/// A model that keeps what is asked and answered. Calls that are given up are not kept.
pub struct Recorder<M> {
    model: M,
    shared: Arc<Shared>,
}

struct Shared {
    redaction: Redaction,
    cassette: Mutex<Cassette>,
}

impl<M: ChatModel> Recorder<M> {
    /// Keeps what is said to and by this model.
    pub fn new(model: M, redaction: Redaction) -> Self {
        let shared = Shared { redaction, cassette: Mutex::default() };
        Self { model, shared: Arc::new(shared) }
    }

    /// What was kept so far.
    pub fn cassette(&self) -> Cassette {
        self.shared.lock().clone()
    }
}

impl Shared {
    fn keep(&self, request: Value, outcome: Result<ModelResponse, &ModelError>) {
        let call = RecordedCall { request, answer: RecordedAnswer::of(outcome) };
        let call = self.redaction.call(call);
        self.lock().calls.push(call);
    }

    fn lock(&self) -> MutexGuard<'_, Cassette> {
        // Nothing that can fail happens under this lock.
        self.cassette.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M: ChatModel> ChatModel for Recorder<M> {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn stream(&self, request: ChatRequest) -> ModelStream {
        let key = request_key(&request);
        let (shared, stream) = (Arc::clone(&self.shared), self.model.stream(request));
        Box::pin(Listening { shared, stream, kept: Some((key, Fold::default())) })
    }

    fn cost(&self, response: &ModelResponse) -> Option<Money> {
        self.model.cost(response)
    }
}

struct Listening {
    shared: Arc<Shared>,
    stream: ModelStream,
    /// Until the end is known.
    kept: Option<(Value, Fold)>,
}

impl Stream for Listening {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let event = ready!(self.stream.as_mut().poll_next(cx));
        let this = &mut *self;
        match &event {
            Some(Ok(event)) => {
                let folded = this.kept.as_mut().map(|(_, fold)| fold.push(event));
                // An answer that nobody can take in is not worth keeping.
                if matches!(folded, Some(Err(_))) {
                    this.kept = None;
                }
            }
            Some(Err(error)) => {
                if let Some((key, _)) = this.kept.take() {
                    this.shared.keep(key, Err(error));
                }
            }
            None => {
                if let Some((key, fold)) = this.kept.take() {
                    match fold.finish() {
                        Ok(response) => this.shared.keep(key, Ok(response)),
                        Err(error) => this.shared.keep(key, Err(&error)),
                    }
                }
            }
        }
        Poll::Ready(event)
    }
}
