//! Makes a history valid for every provider.
//!
//! Providers reject a conversation in which a call has no result or a result has no call. Crashes, other programs and
//! hand-made messages cause such histories. Invariant: repair performs no I/O, and its result needs no repair.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use provost_core::{ContentPart, Message, Role, ToolCall, ToolResult};
use provost_model::MISSING_RESULT;

/// Repairs a history and returns it with the number of repairs.
///
/// Removes results without a call, second results of a call, empty messages and system messages. A call without a
/// result gets an error result ([`MISSING_RESULT`]) in the tool message directly after it. A
/// [`pending`](ToolResult::pending) result is a result. Linear time; a valid history is returned without a copy.
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

/// Returns true if the history is valid. Allocates nothing if all results are in call order.
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

/// Returns true if a message of this role may have this part: only the assistant calls tools, and only tool messages
/// have results.
fn fits(message: &Message, part: &ContentPart) -> bool {
    match part {
        ContentPart::ToolCall(_) => message.role == Role::Assistant,
        ContentPart::ToolResult(_) => message.role == Role::Tool,
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

/// Removes the parts that the message's role cannot have.
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

/// Merges the tool messages that follow these calls into one message with one result per call.
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
        // A final result takes precedence over a pending one.
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
