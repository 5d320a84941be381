//! Making a history valid for every provider, whatever happened to it.
//!
//! Providers refuse a conversation in which a call has no result or a result no call. Such histories come from crashes, from
//! other programs and from hand-made messages. Invariant: nothing here performs I/O, and what it gives needs no repair.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use provost_core::{Message, Part, Role, ToolCall, ToolResult};
use provost_model::MISSING_RESULT;

/// Repairs a history and says how many things were wrong with it.
///
/// Results without a call, second results of a call, empty messages and system messages go. A call without a result gets one
/// that says so ([`MISSING_RESULT`]), in the tool message directly after it. A [`pending`](ToolResult::pending) result is a result.
/// Linear; where nothing is wrong the messages come back as they are, without a copy.
pub fn repair(messages: Vec<Arc<Message>>) -> (Vec<Arc<Message>>, usize) {
    if is_sound(&messages) {
        return (messages, 0);
    }
    let before = messages.len();
    let mut repairs = 0;
    let mut repaired = Vec::with_capacity(before + 1);
    let mut rest = messages
        .into_iter()
        .filter(|message| message.role != Role::System && !message.is_empty())
        .peekable();
    let mut taken = 0;
    while let Some(message) = rest.next() {
        taken += 1;
        if message.role == Role::Tool {
            repairs += message.tool_results().count().max(1);
            continue;
        }
        let message = strip(message, &mut repairs);
        if message.is_empty() {
            continue;
        }
        repaired.push(Arc::clone(&message));
        if message.tool_calls().next().is_none() {
            continue;
        }
        let mut answers = Vec::new();
        while let Some(answer) = rest.next_if(|next| next.role == Role::Tool) {
            taken += 1;
            answers.push(strip(answer, &mut repairs));
        }
        repaired.push(answer(&message, answers, &mut repairs));
    }
    (repaired, repairs + before - taken)
}

/// True if nothing is wrong. Allocates nothing as long as results are in call order.
fn is_sound(messages: &[Arc<Message>]) -> bool {
    let mut calls: Option<&Message> = None;
    for message in messages {
        let is_answered = match (calls.take(), message.role) {
            (Some(calls), Role::Tool) => answers_all(calls, message),
            (None, Role::Tool) | (Some(_), _) | (None, Role::System) => false,
            (None, _) => {
                !message.is_empty() && message.parts.iter().all(|part| fits(message, part))
            }
        };
        if !is_answered {
            return false;
        }
        if message.tool_calls().next().is_some() {
            calls = Some(message);
        }
    }
    calls.is_none()
}

/// True if a message of this role may have this part: only the assistant calls, and nobody but tools has results.
fn fits(message: &Message, part: &Part) -> bool {
    match part {
        Part::ToolCall(_) => message.role == Role::Assistant,
        Part::ToolResult(_) => message.role == Role::Tool,
        _ => true,
    }
}

fn answers_all(calls: &Message, answer: &Message) -> bool {
    if !answer.parts.iter().all(|part| fits(answer, part)) {
        return false;
    }
    let wanted = || calls.tool_calls().map(|call| call.id.as_str());
    let found = || answer.tool_results().map(|result| result.call_id.as_str());
    if wanted().eq(found()) {
        return true;
    }
    let (mut wanted, mut found): (Vec<_>, Vec<_>) = (wanted().collect(), found().collect());
    wanted.sort_unstable();
    found.sort_unstable();
    wanted == found
}

/// The message without parts that its role cannot have.
fn strip(message: Arc<Message>, repairs: &mut usize) -> Arc<Message> {
    let wrong = message.parts.iter().filter(|part| !fits(&message, part));
    let wrong = wrong.count();
    if wrong == 0 {
        return message;
    }
    *repairs += wrong;
    let mut stripped = Message::clone(&message);
    stripped.parts.retain(|part| fits(&message, part));
    Arc::new(stripped)
}

/// The one tool message that answers these calls, made of the tool messages that follow them.
fn answer(calls: &Message, answers: Vec<Arc<Message>>, repairs: &mut usize) -> Arc<Message> {
    if let [only] = answers.as_slice()
        && answers_all(calls, only)
    {
        return Arc::clone(only);
    }
    *repairs += answers.len().saturating_sub(1);
    let mut results: HashMap<&str, VecDeque<&ToolResult>> = HashMap::new();
    for result in answers.iter().flat_map(|message| message.tool_results()) {
        let same = results.entry(&result.call_id).or_default();
        // Of two results the real one counts, not the one that stands in for it.
        if result.pending {
            same.push_back(result);
        } else {
            let place = same.iter().take_while(|other| !other.pending).count();
            same.insert(place, result);
        }
    }
    let mut given = Vec::new();
    for call in calls.tool_calls() {
        let result = results.get_mut(call.id.as_str()).and_then(VecDeque::pop_front);
        *repairs += usize::from(result.is_none());
        given.push(result.map_or_else(|| missing(call), ToolResult::clone));
    }
    *repairs += results.values().map(VecDeque::len).sum::<usize>();
    let made_at = answers.first().map_or(calls.created_at, |answer| answer.created_at);
    Arc::new(Message::results(given).at(made_at))
}

fn missing(call: &ToolCall) -> ToolResult {
    ToolResult::error(call, MISSING_RESULT)
}

#[cfg(test)]
mod tests;
