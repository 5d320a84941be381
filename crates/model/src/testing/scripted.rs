//! Scripted model for tests of agents. It needs no network.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use provost_model::{ChatRequest, ScriptedModel, complete, text};
//!
//! let model = ScriptedModel::new().turn(text("Hello!"));
//! let response = complete(&model, ChatRequest::default()).await.unwrap();
//! assert_eq!(response.message.text(), "Hello!");
//! model.assert_exhausted();
//! # });
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::stream;
use parking_lot::Mutex;
use provost_core::{ProviderData, StopReason, Usage};
use serde_json::Value;

use crate::{
    ChatModel, ChatRequest, ModelError, ModelErrorClass, ModelEvent, ModelInfo, ModelStream,
    StructuredOutputSupport,
};

/// Scripted response to one model call.
#[derive(Debug, Clone, Default)]
pub struct ScriptedTurn {
    events: Vec<ModelEvent>,
    calls: u32,
    usage: Usage,
    omits_usage: bool,
    stop: Option<StopReason>,
    delay: Duration,
    delta_delay: Duration,
    error: Option<ModelError>,
    ending: StreamEnding,
}

/// How the stream of a turn ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum StreamEnding {
    #[default]
    Complete,
    /// The stream ends without a stop event.
    Truncated,
    /// The stream never ends.
    Never,
}

/// Creates a turn that responds with a text.
pub fn text(text: impl Into<String>) -> ScriptedTurn {
    ScriptedTurn::default().text(text)
}

/// Creates a turn with one tool call.
pub fn call(name: impl Into<String>, arguments: Value) -> ScriptedTurn {
    ScriptedTurn::default().call(name, arguments)
}

/// Creates a turn with several tool calls.
pub fn calls<N: Into<String>>(calls: impl IntoIterator<Item = (N, Value)>) -> ScriptedTurn {
    calls
        .into_iter()
        .fold(ScriptedTurn::default(), |turn, (name, arguments)| turn.call(name, arguments))
}

/// Creates a turn that fails.
pub fn fail(class: ModelErrorClass, message: impl Into<String>) -> ScriptedTurn {
    ScriptedTurn { error: Some(ModelError::new(class, message)), ..ScriptedTurn::default() }
}

impl ScriptedTurn {
    /// Adds text as one delta.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.events.push(ModelEvent::Text(text.into()));
        self
    }

    /// Adds text as one delta per item.
    #[must_use]
    pub fn deltas<T: Into<String>>(mut self, pieces: impl IntoIterator<Item = T>) -> Self {
        self.events.extend(pieces.into_iter().map(|piece| ModelEvent::Text(piece.into())));
        self
    }

    /// Adds reasoning as one delta.
    #[must_use]
    pub fn reasoning(mut self, text: impl Into<String>) -> Self {
        self.events.push(ModelEvent::Reasoning(text.into()));
        self
    }

    /// Completes the reasoning with opaque provider data.
    #[must_use]
    pub fn opaque(mut self, opaque: ProviderData) -> Self {
        self.events.push(ModelEvent::ReasoningOpaque(opaque));
        self
    }

    /// Adds a tool call. Its id is `call_1`, `call_2` and so on within the script.
    #[must_use]
    pub fn call(self, name: impl Into<String>, arguments: Value) -> Self {
        self.raw_call("", name, arguments.to_string())
    }

    /// Adds a tool call with this id and these arguments. The arguments may be invalid JSON.
    #[must_use]
    pub fn raw_call(
        mut self,
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        let index = self.calls;
        self.calls += 1;
        self.events.push(ModelEvent::ToolCallStart { index, id: id.into(), name: name.into() });
        self.events.push(ModelEvent::ToolCallArguments { index, json: arguments.into() });
        self
    }

    /// Sets the reported usage. The default is zero.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Reports no usage, as some servers do.
    #[must_use]
    pub fn without_usage(mut self) -> Self {
        self.omits_usage = true;
        self
    }

    /// Sets the stop reason. The default follows from the content.
    #[must_use]
    pub fn stop(mut self, stop: StopReason) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Delays the first event.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Delays each further event.
    #[must_use]
    pub fn delta_delay(mut self, delay: Duration) -> Self {
        self.delta_delay = delay;
        self
    }

    /// Fails with this error after all events of the turn.
    #[must_use]
    pub fn then_fail(mut self, error: ModelError) -> Self {
        self.error = Some(error);
        self
    }

    /// Ends the stream without a stop event, like a broken connection.
    #[must_use]
    pub fn truncate(mut self) -> Self {
        self.ending = StreamEnding::Truncated;
        self
    }

    /// Keeps the stream open after the last event.
    #[must_use]
    pub fn hang(mut self) -> Self {
        self.ending = StreamEnding::Never;
        self
    }

    /// Returns the items of the stream. Tool calls without an id get the next ids of the script.
    fn into_items(mut self, ids: &mut u64) -> Vec<Result<ModelEvent, ModelError>> {
        for event in &mut self.events {
            if let ModelEvent::ToolCallStart { id, .. } = event {
                *ids += 1;
                if id.is_empty() {
                    *id = format!("call_{ids}");
                }
            }
        }
        let mut items: Vec<_> = self.events.into_iter().map(Ok).collect();
        if let Some(error) = self.error {
            items.push(Err(error));
        } else if self.ending == StreamEnding::Complete {
            if !self.omits_usage {
                items.push(Ok(ModelEvent::Usage(self.usage)));
            }
            let default_stop =
                if self.calls > 0 { StopReason::ToolUse } else { StopReason::EndTurn };
            items.push(Ok(ModelEvent::Stop(self.stop.unwrap_or(default_stop))));
        }
        items
    }
}

type TurnFn = dyn Fn(&ChatRequest, usize) -> ScriptedTurn + Send + Sync;

/// A model that plays turns in order, or computes each turn with a function, and records its requests.
///
/// Clones share the script and the recorded requests.
#[derive(Clone)]
pub struct ScriptedModel {
    info: ModelInfo,
    script: Arc<Mutex<Script>>,
    turn_fn: Option<Arc<TurnFn>>,
    records_requests: bool,
}

/// Remaining turns and recorded requests.
#[derive(Default)]
struct Script {
    turns: VecDeque<ScriptedTurn>,
    requests: Vec<ChatRequest>,
    calls: usize,
    ids: u64,
}

impl Default for ScriptedModel {
    fn default() -> Self {
        let mut info = ModelInfo::unknown("scripted", "scripted-1");
        info.reasoning = true;
        info.native_output = StructuredOutputSupport::WithTools;
        Self { info, script: Arc::default(), turn_fn: None, records_requests: true }
    }
}

impl ScriptedModel {
    /// Creates a model with an empty script.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a model that computes each turn from the request and the number of earlier calls.
    pub fn from_fn(
        next_turn: impl Fn(&ChatRequest, usize) -> ScriptedTurn + Send + Sync + 'static,
    ) -> Self {
        Self { turn_fn: Some(Arc::new(next_turn)), ..Self::default() }
    }

    /// Adds a turn.
    #[must_use]
    pub fn turn(self, turn: ScriptedTurn) -> Self {
        self.script.lock().turns.push_back(turn);
        self
    }

    /// Adds a turn that responds with this text.
    #[must_use]
    pub fn text(self, response: impl Into<String>) -> Self {
        self.turn(text(response))
    }

    /// Adds a turn that requests one tool call.
    #[must_use]
    pub fn tool_call(self, name: impl Into<String>, arguments: Value) -> Self {
        self.turn(call(name, arguments))
    }

    /// Adds a turn that requests several tool calls.
    #[must_use]
    pub fn tool_calls<N: Into<String>>(
        self,
        requested: impl IntoIterator<Item = (N, Value)>,
    ) -> Self {
        self.turn(calls(requested))
    }

    /// Changes the properties of the model.
    #[must_use]
    pub fn with_info(mut self, change: impl FnOnce(&mut ModelInfo)) -> Self {
        change(&mut self.info);
        self
    }

    /// Stops the recording of requests, for benchmarks.
    #[must_use]
    pub fn without_recording(mut self) -> Self {
        self.records_requests = false;
        self
    }

    /// Returns the number of calls.
    pub fn call_count(&self) -> usize {
        self.script.lock().calls
    }

    /// Returns the request of one call, counted from 0.
    ///
    /// # Panics
    ///
    /// Panics if there was no such call.
    pub fn request(&self, index: usize) -> ChatRequest {
        let script = self.script.lock();
        assert!(index < script.requests.len(), "only {} calls were made", script.requests.len());
        script.requests[index].clone()
    }

    /// Returns all requests, oldest first.
    pub fn requests(&self) -> Vec<ChatRequest> {
        self.script.lock().requests.clone()
    }

    /// Checks that all turns were played.
    ///
    /// # Panics
    ///
    /// Panics if turns are left.
    pub fn assert_exhausted(&self) {
        let remaining = self.script.lock().turns.len();
        assert!(remaining == 0, "{remaining} turns of the script were not played");
    }

    /// Records a request and returns the turn that responds to it, with the number of tool calls in earlier turns.
    /// Without a turn left, the turn fails.
    fn next_turn(&self, request: &ChatRequest) -> (ScriptedTurn, u64) {
        let index = self.script.lock().calls;
        let computed = self.turn_fn.as_ref().map(|turn_fn| turn_fn(request, index));
        let mut script = self.script.lock();
        script.calls += 1;
        if self.records_requests {
            script.requests.push(request.clone());
        }
        let turn = computed.or_else(|| script.turns.pop_front()).unwrap_or_else(|| {
            fail(ModelErrorClass::InvalidRequest, format!("the script has no turn {}", index + 1))
        });
        let first_id = script.ids;
        script.ids += u64::from(turn.calls);
        (turn, first_id)
    }
}

impl ChatModel for ScriptedModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: ChatRequest) -> ModelStream {
        let (turn, mut ids) = self.next_turn(&request);
        let (delay, delta_delay, hang) =
            (turn.delay, turn.delta_delay, turn.ending == StreamEnding::Never);
        let items = turn.into_items(&mut ids).into_iter();
        if delay.is_zero() && delta_delay.is_zero() && !hang {
            return Box::pin(stream::iter(items));
        }
        let state = (items, delay);
        Box::pin(stream::unfold(state, move |(mut items, wait)| async move {
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            match items.next() {
                Some(item) => Some((item, (items, delta_delay))),
                None if hang => std::future::pending().await,
                None => None,
            }
        }))
    }
}

#[cfg(test)]
mod tests;
