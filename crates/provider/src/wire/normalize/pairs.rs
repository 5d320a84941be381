//! Pairs tool calls with their results, replaces ids that the vendor rejects, and removes data of other vendors.

use std::collections::HashSet;
use std::sync::Arc;

use provost_core::{ContentPart, Message, Role, ToolCall, ToolResult};
use provost_model::MISSING_RESULT;

use super::MessageRules;

/// Makes a conversation valid for a vendor: removes data of other providers, gives each call an accepted unique id, and
/// places its result directly after it. A call without a result gets an error result. A valid conversation is not
/// copied.
pub(super) fn pair_tool_results(messages: &mut Vec<Arc<Message>>, rules: &MessageRules) {
    for message in messages.iter_mut() {
        if message.parts.iter().any(|part| is_foreign(part, rules)) {
            remove_foreign(Arc::make_mut(message), rules);
        }
    }
    if !is_paired(messages, rules) {
        *messages = ToolPairing::default().convert(messages, rules);
    }
}

/// Returns true if the part has data of another provider that must not be sent.
fn is_foreign(part: &ContentPart, rules: &MessageRules) -> bool {
    let opaque = match part {
        ContentPart::Reasoning(reasoning) => reasoning.opaque.as_ref(),
        ContentPart::ToolCall(call) => call.opaque.as_ref(),
        _ => None,
    };
    opaque.is_some_and(|opaque| rules.reasoning.is_foreign(&opaque.provider))
}

/// Removes data that only another provider understands. Tool calls stay without the data; reasoning is removed.
fn remove_foreign(message: &mut Message, rules: &MessageRules) {
    message.parts.retain_mut(|part| {
        let foreign = is_foreign(part, rules);
        match part {
            ContentPart::ToolCall(call) if foreign => {
                call.opaque = None;
                true
            }
            _ => !foreign,
        }
    });
}

/// Returns true if each call has a unique and accepted id and its result follows directly.
fn is_paired(messages: &[Arc<Message>], rules: &MessageRules) -> bool {
    let mut seen: HashSet<&str> = HashSet::new();
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        for result in message.tool_results() {
            match open.iter().position(|id| *id == result.call_id) {
                Some(position) => drop(open.swap_remove(position)),
                None => return false,
            }
        }
        if message.role != Role::Tool && !open.is_empty() && !message.is_empty() {
            return false;
        }
        for call in message.tool_calls() {
            if !rules.call_ids.allows(&call.id) || !seen.insert(&call.id) {
                return false;
            }
            open.push(&call.id);
        }
    }
    open.is_empty()
}

/// Position of a call: its message, and its position among the calls of that message.
#[derive(Clone, Copy)]
struct CallSite {
    message: usize,
    position: usize,
}

/// A call without a result.
struct PendingCall {
    /// Position of the message with the results, and of the result in that message.
    message: usize,
    position: usize,
    /// Original id of the call.
    id: String,
    name: String,
}

/// Messages converted so far, with the calls that have no result yet.
#[derive(Default)]
struct ToolPairing {
    messages: Vec<Message>,
    open: Vec<PendingCall>,
    ids: HashSet<String>,
}

impl ToolPairing {
    /// Returns the conversation with paired calls and results.
    fn convert(mut self, messages: &[Arc<Message>], rules: &MessageRules) -> Vec<Arc<Message>> {
        for (index, message) in messages.iter().enumerate() {
            for result in message.tool_results() {
                self.add_result(result);
            }
            let mut rest = Message::clone(message);
            rest.parts.retain(|part| !matches!(part, ContentPart::ToolResult(_)));
            if rest.parts.is_empty() {
                continue;
            }
            let mut pending = Vec::new();
            let mut results = Vec::new();
            for part in &mut rest.parts {
                if let ContentPart::ToolCall(call) = part {
                    let (id, position) = (call.id.clone(), results.len());
                    self.assign_id(call, CallSite { message: index, position }, rules);
                    results.push(ToolResult::error(call, MISSING_RESULT));
                    let name = call.name.clone();
                    pending.push(PendingCall {
                        message: self.messages.len() + 1,
                        position,
                        id,
                        name,
                    });
                }
            }
            let at = rest.created_at;
            self.messages.push(rest);
            if !results.is_empty() {
                self.messages.push(Message::results(results).at(at));
                self.open.extend(pending);
            }
        }
        self.messages.into_iter().map(Arc::new).collect()
    }

    /// Assigns a unique id that the vendor accepts. It depends only on the messages before the call, so the same prefix
    /// of a conversation always gets the same ids.
    fn assign_id(&mut self, call: &mut ToolCall, site: CallSite, rules: &MessageRules) {
        let CallSite { message, position } = site;
        let preferred = match call.id.as_str() {
            id if rules.call_ids.allows(id) => call.id.clone(),
            "" => rules.call_ids.replacement_for(&format!("{message}/{position}")),
            id => rules.call_ids.replacement_for(id),
        };
        let alternatives = (0..).map(|round| {
            rules.call_ids.replacement_for(&format!("{message}/{position}/{round}/{}", call.id))
        });
        let mut ids = std::iter::once(preferred).chain(alternatives);
        if let Some(id) = ids.find(|id| !self.ids.contains(id)) {
            self.ids.insert(id.clone());
            call.id = id;
        }
    }

    /// Replaces the placeholder of the first call without a result in the newest message with a matching call. Drops
    /// the result if no call matches.
    fn add_result(&mut self, result: &ToolResult) {
        let matches = |call: &PendingCall| match result.call_id.is_empty() {
            true => call.name == result.name,
            false => call.id == result.call_id,
        };
        let newest = self.open.iter().filter(|call| matches(call)).map(|call| call.message).max();
        let Some(position) =
            self.open.iter().position(|call| matches(call) && Some(call.message) == newest)
        else {
            return;
        };
        let call = self.open.remove(position);
        let parts = &mut self.messages[call.message].parts;
        if let Some(ContentPart::ToolResult(missing)) = parts.get_mut(call.position) {
            let call_id = std::mem::take(&mut missing.call_id);
            *missing = ToolResult { call_id, name: call.name, ..result.clone() };
        }
    }
}
