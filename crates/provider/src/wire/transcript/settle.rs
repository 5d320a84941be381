//! Calls and results in pairs, with ids that the vendor takes; what is foreign goes.

use std::collections::HashSet;
use std::sync::Arc;

use provost_core::{ContentPart, Message, Role, ToolCall, ToolResult};
use provost_model::MISSING_RESULT;

use super::Rules;

/// Makes a conversation valid. One that is already stays as it is and is not copied.
pub(super) fn settle(messages: &mut Vec<Arc<Message>>, rules: &Rules) {
    for message in messages.iter_mut() {
        if message.parts.iter().any(|part| is_foreign(part, rules)) {
            strip(Arc::make_mut(message), rules);
        }
    }
    if !is_settled(messages, rules) {
        *messages = Settling::default().run(messages, rules);
    }
}

fn is_foreign(part: &ContentPart, rules: &Rules) -> bool {
    let opaque = match part {
        ContentPart::Reasoning(reasoning) => reasoning.opaque.as_ref(),
        ContentPart::ToolCall(call) => call.opaque.as_ref(),
        _ => None,
    };
    opaque.is_some_and(|opaque| rules.reasoning.is_foreign(&opaque.provider))
}

/// Takes away what only another provider understands. A call stays without it, reasoning goes.
fn strip(message: &mut Message, rules: &Rules) {
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

/// True if each call has an id of its own that the vendor takes, and its result right behind it.
fn is_settled(messages: &[Arc<Message>], rules: &Rules) -> bool {
    let mut seen: HashSet<&str> = HashSet::new();
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        for result in message.tool_results() {
            match open.iter().position(|id| *id == result.call_id) {
                Some(place) => drop(open.swap_remove(place)),
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

/// Where a call is: its message, and its place among the calls of that message.
#[derive(Clone, Copy)]
struct CallSite {
    message: usize,
    place: usize,
}

/// A call that waits for its result.
struct Slot {
    /// The message of results and the place in it.
    message: usize,
    place: usize,
    /// What the call was called before.
    id: String,
    name: String,
}

#[derive(Default)]
struct Settling {
    settled: Vec<Message>,
    open: Vec<Slot>,
    ids: HashSet<String>,
}

impl Settling {
    fn run(mut self, messages: &[Arc<Message>], rules: &Rules) -> Vec<Arc<Message>> {
        for (index, message) in messages.iter().enumerate() {
            for result in message.tool_results() {
                self.fill(result);
            }
            let mut rest = Message::clone(message);
            rest.parts.retain(|part| !matches!(part, ContentPart::ToolResult(_)));
            if rest.parts.is_empty() {
                continue;
            }
            let mut slots = Vec::new();
            let mut results = Vec::new();
            for part in &mut rest.parts {
                if let ContentPart::ToolCall(call) = part {
                    let (id, place) = (call.id.clone(), results.len());
                    self.rename(call, CallSite { message: index, place }, rules);
                    results.push(ToolResult::error(call, MISSING_RESULT));
                    let name = call.name.clone();
                    slots.push(Slot { message: self.settled.len() + 1, place, id, name });
                }
            }
            let at = rest.created_at;
            self.settled.push(rest);
            if !results.is_empty() {
                self.settled.push(Message::results(results).at(at));
                self.open.extend(slots);
            }
        }
        self.settled.into_iter().map(Arc::new).collect()
    }

    /// Gives a call an id of its own that the vendor takes. Depends only on what stands before it, so that what was sent once
    /// is sent the same when the conversation has grown.
    fn rename(&mut self, call: &mut ToolCall, site: CallSite, rules: &Rules) {
        let CallSite { message, place } = site;
        let wanted = match call.id.as_str() {
            id if rules.call_ids.allows(id) => call.id.clone(),
            "" => rules.call_ids.instead_of(&format!("{message}/{place}")),
            id => rules.call_ids.instead_of(id),
        };
        let others = (0..).map(|round| {
            rules.call_ids.instead_of(&format!("{message}/{place}/{round}/{}", call.id))
        });
        let mut ids = std::iter::once(wanted).chain(others);
        if let Some(id) = ids.find(|id| !self.ids.contains(id)) {
            self.ids.insert(id.clone());
            call.id = id;
        }
    }

    /// Puts a result where it belongs: to the newest turn that has such a call, and there to the first one without a result.
    fn fill(&mut self, result: &ToolResult) {
        let fits = |slot: &Slot| match result.call_id.is_empty() {
            true => slot.name == result.name,
            false => slot.id == result.call_id,
        };
        let newest = self.open.iter().filter(|slot| fits(slot)).map(|slot| slot.message).max();
        let Some(place) =
            self.open.iter().position(|slot| fits(slot) && Some(slot.message) == newest)
        else {
            return;
        };
        let slot = self.open.remove(place);
        let parts = &mut self.settled[slot.message].parts;
        if let Some(ContentPart::ToolResult(missing)) = parts.get_mut(slot.place) {
            let call_id = std::mem::take(&mut missing.call_id);
            *missing = ToolResult { call_id, name: slot.name, ..result.clone() };
        }
    }
}
