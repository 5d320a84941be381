//! The built-in demo model: no key, no server, the same answer every time.
//!
//! It plays whole turns, tool calls included, so that everything around a model can be seen to work before there is one.
//! Invariant: what it says depends on the request only.

mod script;

use std::time::Duration;

use futures::stream;
use provost_core::{StopReason, Usage};
use provost_model::{ChatModel, ChatRequest, ModelEvent, ModelInfo, ModelStream};

use self::script::{Answer, plan};

/// The provider and the model name under which it is known.
pub(crate) const NAME: &str = "demo";

/// Tokens it claims to remember.
const CONTEXT_WINDOW: u64 = 32_000;

/// The demo model.
#[derive(Debug)]
pub(crate) struct DemoModel {
    info: ModelInfo,
    pace: Duration,
}

impl DemoModel {
    /// A demo model that waits this long before each word; zero is for pipes and tests.
    pub(crate) fn new(pace: Duration) -> Self {
        let mut info = ModelInfo::unknown(NAME, NAME);
        info.context_window = Some(CONTEXT_WINDOW);
        info.images = false;
        Self { info, pace }
    }
}

impl ChatModel for DemoModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: ChatRequest) -> ModelStream {
        let events = play(&request);
        let pace = self.pace;
        Box::pin(stream::unfold(events.into_iter(), move |mut left| async move {
            let event = left.next()?;
            if !pace.is_zero() && matches!(event, ModelEvent::Text(_)) {
                tokio::time::sleep(pace).await;
            }
            Some((Ok(event), left))
        }))
    }
}

/// The whole answer to a request as the events of a stream.
fn play(request: &ChatRequest) -> Vec<ModelEvent> {
    let Answer { text, calls } = plan(request);
    let turn = request.messages.len();
    let mut events = vec![ModelEvent::Started {
        response_id: Some(format!("demo-{turn}")),
        model: Some(NAME.to_owned()),
    }];
    events.extend(words(&text).map(|word| ModelEvent::Text(word.to_owned())));
    let stop = if calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
    let mut output = count(&text);
    for (index, (name, arguments)) in (0..).zip(calls) {
        let json = arguments.to_string();
        output += count(&json) + 1;
        // Unique within a run: the length of the conversation differs from turn to turn.
        let id = format!("demo_{turn}_{index}");
        let name = name.to_owned();
        events.push(ModelEvent::ToolCallStart { index, id, name });
        events.push(ModelEvent::ToolCallArguments { index, json });
    }
    let said = request.messages.iter().map(|message| count(&message.text()));
    let system = request.system.as_deref().map_or(0, count);
    let input = said.sum::<u64>() + system;
    events.push(ModelEvent::Usage(Usage::new(input, output)));
    events.push(ModelEvent::Stop(stop));
    events
}

/// Words, each with the space after it, so that joining them gives the text again.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let word = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let space = rest[word..].find(|c: char| !c.is_whitespace());
        let (piece, left) = rest.split_at(space.map_or(rest.len(), |space| word + space));
        rest = left;
        (!piece.is_empty()).then_some(piece)
    })
}

/// A rough count of tokens.
fn count(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

#[cfg(test)]
mod tests;
