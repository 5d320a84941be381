//! A model that plays a script: for tests of agents, without a network.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use provost_model::{ChatRequest, ScriptedModel, complete, text};
//!
//! let model = ScriptedModel::new().turn(text("Hello!"));
//! let answer = complete(&model, ChatRequest::default()).await.unwrap();
//! assert_eq!(answer.message.text(), "Hello!");
//! model.assert_exhausted();
//! # });
//! ```

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::stream;
use provost_core::{ProviderData, StopReason, Usage};
use serde_json::Value;

use crate::{
    ChatModel, ChatRequest, ModelError, ModelErrorClass, ModelEvent, ModelInfo, ModelStream,
    NativeOutput,
};

/// One answer of the script.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    events: Vec<ModelEvent>,
    calls: u32,
    usage: Usage,
    usage_untold: bool,
    stop: Option<StopReason>,
    delay: Duration,
    delta_delay: Duration,
    error: Option<ModelError>,
    ending: Ending,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Ending {
    #[default]
    Whole,
    /// The stream ends without a stop.
    Cut,
    /// The stream never ends.
    Hang,
}

/// A turn of text.
pub fn text(text: impl Into<String>) -> Turn {
    Turn::default().text(text)
}

/// A turn with one tool call.
pub fn call(name: impl Into<String>, arguments: Value) -> Turn {
    Turn::default().call(name, arguments)
}

/// A turn with several tool calls.
pub fn calls<N: Into<String>>(calls: impl IntoIterator<Item = (N, Value)>) -> Turn {
    calls.into_iter().fold(Turn::default(), |turn, (name, arguments)| turn.call(name, arguments))
}

/// A turn that fails.
pub fn fail(class: ModelErrorClass, message: impl Into<String>) -> Turn {
    Turn { error: Some(ModelError::new(class, message)), ..Turn::default() }
}

impl Turn {
    /// Adds text as one delta.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.events.push(ModelEvent::Text(text.into()));
        self
    }

    /// Adds text, one delta for each piece.
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

    /// Closes the reasoning with a provider's own data.
    #[must_use]
    pub fn opaque(mut self, opaque: ProviderData) -> Self {
        self.events.push(ModelEvent::ReasoningOpaque(opaque));
        self
    }

    /// Adds a tool call; its id is `call_1`, `call_2` … within the script.
    #[must_use]
    pub fn call(self, name: impl Into<String>, arguments: Value) -> Self {
        self.raw_call("", name, arguments.to_string())
    }

    /// Adds a tool call with this id and these arguments, valid JSON or not.
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

    /// Says what the turn used; without it, nothing.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Does not say what the turn used, as some servers do.
    #[must_use]
    pub fn no_usage(mut self) -> Self {
        self.usage_untold = true;
        self
    }

    /// Says why the model stopped, where it is not what the content suggests.
    #[must_use]
    pub fn stop(mut self, stop: StopReason) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Waits before the first event.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Waits before each further event.
    #[must_use]
    pub fn delta_delay(mut self, delay: Duration) -> Self {
        self.delta_delay = delay;
        self
    }

    /// Fails after the events given so far.
    #[must_use]
    pub fn then_fail(mut self, error: ModelError) -> Self {
        self.error = Some(error);
        self
    }

    /// Ends the stream without a stop, as a broken connection would.
    #[must_use]
    pub fn cut(mut self) -> Self {
        self.ending = Ending::Cut;
        self
    }

    /// Never ends the stream.
    #[must_use]
    pub fn hang(mut self) -> Self {
        self.ending = Ending::Hang;
        self
    }

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
        } else if self.ending == Ending::Whole {
            if !self.usage_untold {
                items.push(Ok(ModelEvent::Usage(self.usage)));
            }
            let natural = if self.calls > 0 { StopReason::ToolUse } else { StopReason::EndTurn };
            items.push(Ok(ModelEvent::Stop(self.stop.unwrap_or(natural))));
        }
        items
    }
}

type Answer = dyn Fn(&ChatRequest, usize) -> Turn + Send + Sync;

/// Plays turns in order, or asks a function for each, and remembers what it was asked.
///
/// Clones share the script and the memory.
#[derive(Clone)]
pub struct ScriptedModel {
    info: ModelInfo,
    script: Arc<Mutex<Script>>,
    answer: Option<Arc<Answer>>,
    recording: bool,
}

#[derive(Default)]
struct Script {
    turns: VecDeque<Turn>,
    requests: Vec<ChatRequest>,
    calls: usize,
    ids: u64,
}

impl Default for ScriptedModel {
    fn default() -> Self {
        let mut info = ModelInfo::unknown("scripted", "scripted-1");
        info.reasoning = true;
        info.native_output = NativeOutput::WithTools;
        Self { info, script: Arc::default(), answer: None, recording: true }
    }
}

impl ScriptedModel {
    /// An empty script.
    pub fn new() -> Self {
        Self::default()
    }

    /// A model that computes each turn from the request and the number of calls before it.
    pub fn answering(answer: impl Fn(&ChatRequest, usize) -> Turn + Send + Sync + 'static) -> Self {
        Self { answer: Some(Arc::new(answer)), ..Self::default() }
    }

    /// Adds a turn.
    #[must_use]
    pub fn turn(self, turn: Turn) -> Self {
        self.lock().turns.push_back(turn);
        self
    }

    /// Changes the facts the model tells about itself.
    #[must_use]
    pub fn with_info(mut self, change: impl FnOnce(&mut ModelInfo)) -> Self {
        change(&mut self.info);
        self
    }

    /// Stops remembering requests: for measurements.
    #[must_use]
    pub fn forgetful(mut self) -> Self {
        self.recording = false;
        self
    }

    /// How often it was asked.
    pub fn call_count(&self) -> usize {
        self.lock().calls
    }

    /// The request of one call, counted from 0.
    ///
    /// # Panics
    /// If there was no such call.
    pub fn request(&self, index: usize) -> ChatRequest {
        let script = self.lock();
        assert!(index < script.requests.len(), "only {} calls were made", script.requests.len());
        script.requests[index].clone()
    }

    /// All requests, oldest first.
    pub fn requests(&self) -> Vec<ChatRequest> {
        self.lock().requests.clone()
    }

    /// Checks that the whole script was played.
    ///
    /// # Panics
    /// If turns are left.
    pub fn assert_exhausted(&self) {
        let left = self.lock().turns.len();
        assert!(left == 0, "{left} turns of the script were not played");
    }

    fn next_turn(&self, request: &ChatRequest) -> (Turn, u64) {
        let index = self.lock().calls;
        let computed = self.answer.as_ref().map(|answer| answer(request, index));
        let mut script = self.lock();
        script.calls += 1;
        if self.recording {
            script.requests.push(request.clone());
        }
        let turn = computed.or_else(|| script.turns.pop_front()).unwrap_or_else(|| {
            fail(ModelErrorClass::InvalidRequest, format!("the script has no turn {}", index + 1))
        });
        let first_id = script.ids;
        script.ids += u64::from(turn.calls);
        (turn, first_id)
    }

    fn lock(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChatModel for ScriptedModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: ChatRequest) -> ModelStream {
        let (turn, mut ids) = self.next_turn(&request);
        let (delay, delta_delay, hang) =
            (turn.delay, turn.delta_delay, turn.ending == Ending::Hang);
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
