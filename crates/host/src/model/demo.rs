//! The built-in demo model, which needs no key and no server.
//!
//! It writes complete turns with tool calls, so that users can try every feature without a real model.
//! Invariant: the response depends only on the request.

mod script;

use std::time::Duration;

use futures::stream;
use provost_core::{StopReason, Usage};
use provost_model::{ChatModel, ChatRequest, ModelEvent, ModelInfo, ModelStream};

use self::script::{ScriptedResponse, plan};

/// Name of the provider and of the model.
pub(crate) const NAME: &str = "demo";

/// Context window that the model reports, in tokens.
const CONTEXT_WINDOW: u64 = 32_000;

/// Model without a network that gives scripted responses, for demonstrations.
#[derive(Debug)]
pub(crate) struct DemoModel {
    info: ModelInfo,
    token_delay: Duration,
}

impl DemoModel {
    /// Creates a demo model that waits before each word. Zero disables the delay.
    pub(crate) fn new(token_delay: Duration) -> Self {
        let mut info = ModelInfo::unknown(NAME, NAME);
        info.context_window = Some(CONTEXT_WINDOW);
        info.images = false;
        Self { info, token_delay }
    }
}

impl ChatModel for DemoModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: ChatRequest) -> ModelStream {
        let events = respond(&request);
        let token_delay = self.token_delay;
        Box::pin(stream::unfold(events.into_iter(), move |mut events| async move {
            let event = events.next()?;
            if !token_delay.is_zero() && matches!(event, ModelEvent::Text(_)) {
                tokio::time::sleep(token_delay).await;
            }
            Some((Ok(event), events))
        }))
    }
}

/// Returns the response to a request as the events of a stream.
fn respond(request: &ChatRequest) -> Vec<ModelEvent> {
    let ScriptedResponse { text, calls } = plan(request);
    let turn = request.messages.len();
    let mut events = vec![ModelEvent::Started {
        response_id: Some(format!("demo-{turn}")),
        model: Some(NAME.to_owned()),
    }];
    events.extend(words(&text).map(|word| ModelEvent::Text(word.to_owned())));
    let stop = if calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
    let mut output = estimate_tokens(&text);
    for (index, (name, arguments)) in (0..).zip(calls) {
        let json = arguments.to_string();
        output += estimate_tokens(&json) + 1;
        // The id is unique within a run, because the number of messages differs in each turn.
        let id = format!("demo_{turn}_{index}");
        let name = name.to_owned();
        events.push(ModelEvent::ToolCallStart { index, id, name });
        events.push(ModelEvent::ToolCallArguments { index, json });
    }
    let messages = request.messages.iter().map(|message| estimate_tokens(&message.text()));
    let system = request.system.as_deref().map_or(0, estimate_tokens);
    let input = messages.sum::<u64>() + system;
    events.push(ModelEvent::Usage(Usage::new(input, output)));
    events.push(ModelEvent::Stop(stop));
    events
}

/// Splits a text into words. Each word includes the following space, so that the words joined are the text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let word = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let space = rest[word..].find(|c: char| !c.is_whitespace());
        let (piece, remaining) = rest.split_at(space.map_or(rest.len(), |space| word + space));
        rest = remaining;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Estimates the number of tokens.
fn estimate_tokens(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

#[cfg(test)]
mod tests;
