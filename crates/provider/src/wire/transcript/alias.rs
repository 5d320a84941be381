//! Names of tools in a form that the vendor takes, and back.

use std::collections::HashSet;
use std::sync::Arc;

use provost_core::ContentPart;
use provost_model::{ChatRequest, ModelEvent, ToolChoice};

use super::NameRule;

/// What tools are called on the wire, where that is not their name. Both ways it is one to one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Aliases {
    /// What the vendor is told, and the real name.
    pairs: Vec<(String, String)>,
}

impl Aliases {
    /// Gives an event back the real name of its tool.
    pub fn restore(&self, event: &mut ModelEvent) {
        if self.pairs.is_empty() {
            return;
        }
        if let ModelEvent::ToolCallStart { name, .. } = event
            && let Some((_, real)) = self.pairs.iter().find(|(alias, _)| alias == name)
        {
            name.clone_from(real);
        }
    }

    /// What the vendor is told instead of a name.
    pub fn of(&self, name: &str) -> Option<&str> {
        let pair = self.pairs.iter().find(|(_, real)| real == name);
        pair.map(|(alias, _)| alias.as_str())
    }

    fn rename(&self, name: &mut String) {
        if let Some(alias) = self.of(name) {
            alias.clone_into(name);
        }
    }
}

/// Renames all tools of a request that the rule does not allow.
pub(super) fn apply(request: &mut ChatRequest, rule: &NameRule) -> Aliases {
    let aliases = aliases(request, rule);
    if aliases.pairs.is_empty() {
        return aliases;
    }
    for tool in &mut request.tools {
        if aliases.of(&tool.name).is_some() {
            aliases.rename(&mut Arc::make_mut(tool).name);
        }
    }
    if let ToolChoice::Tool(name) = &mut request.tool_choice {
        aliases.rename(name);
    }
    for message in &mut request.messages {
        if !message.parts.iter().filter_map(name_of).any(|name| aliases.of(name).is_some()) {
            continue;
        }
        for part in &mut Arc::make_mut(message).parts {
            match part {
                ContentPart::ToolCall(call) => aliases.rename(&mut call.name),
                ContentPart::ToolResult(result) => aliases.rename(&mut result.name),
                _ => {}
            }
        }
    }
    aliases
}

fn aliases(request: &ChatRequest, rule: &NameRule) -> Aliases {
    let used = request.messages.iter().flat_map(|message| &message.parts).filter_map(name_of);
    let offered = request.tools.iter().map(|tool| tool.name.as_str());
    let mut refused: Vec<&str> = Vec::new();
    let mut taken: HashSet<String> = HashSet::new();
    if offered.clone().chain(used.clone()).all(|name| rule.allows(name)) {
        return Aliases::default();
    }
    for name in offered.chain(used) {
        if rule.allows(name) {
            taken.insert(name.to_owned());
        } else if !refused.contains(&name) {
            refused.push(name);
        }
    }
    let mut pairs = Vec::with_capacity(refused.len());
    for name in refused {
        let near = Some(rule.nearest(name)).filter(|near| rule.allows(near));
        let marked = (0..).map(|round| rule.marked(name, round));
        let alias = near.into_iter().chain(marked).find(|alias| !taken.contains(alias));
        if let Some(alias) = alias {
            taken.insert(alias.clone());
            pairs.push((alias, name.to_owned()));
        }
    }
    Aliases { pairs }
}

fn name_of(part: &ContentPart) -> Option<&str> {
    match part {
        ContentPart::ToolCall(call) => Some(&call.name),
        ContentPart::ToolResult(result) => Some(&result.name),
        _ => None,
    }
}
