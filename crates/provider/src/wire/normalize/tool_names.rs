//! Replaces tool names that the vendor rejects, and restores them in responses.

use std::collections::HashSet;
use std::sync::Arc;

use provost_core::ContentPart;
use provost_model::{ChatRequest, ModelEvent, ToolChoice};

use super::ToolNameRule;

/// One-to-one map between tool names and the names that are sent to the vendor. Contains only names that differ.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolNameMap {
    /// The name that is sent to the vendor, and the original name.
    pairs: Vec<(String, String)>,
}

impl ToolNameMap {
    /// Replaces the name in a tool call event by the original tool name.
    pub fn restore(&self, event: &mut ModelEvent) {
        if self.pairs.is_empty() {
            return;
        }
        if let ModelEvent::ToolCallStart { name, .. } = event
            && let Some((_, original)) = self.pairs.iter().find(|(alias, _)| alias == name)
        {
            name.clone_from(original);
        }
    }

    /// Returns the name that is sent to the vendor. `None` if the vendor receives the original name.
    pub fn alias_of(&self, name: &str) -> Option<&str> {
        let pair = self.pairs.iter().find(|(_, original)| original == name);
        pair.map(|(alias, _)| alias.as_str())
    }

    /// Replaces a name by its alias, if it has one.
    fn rename(&self, name: &mut String) {
        if let Some(alias) = self.alias_of(name) {
            alias.clone_into(name);
        }
    }
}

/// Replaces the tool names in a request that the rule rejects. Returns the map that restores them.
pub(super) fn rename_tools(request: &mut ChatRequest, rule: &ToolNameRule) -> ToolNameMap {
    let map = build_map(request, rule);
    if map.pairs.is_empty() {
        return map;
    }
    for tool in &mut request.tools {
        if map.alias_of(&tool.name).is_some() {
            map.rename(&mut Arc::make_mut(tool).name);
        }
    }
    if let ToolChoice::Tool(name) = &mut request.tool_choice {
        map.rename(name);
    }
    for message in &mut request.messages {
        if !message.parts.iter().filter_map(name_of).any(|name| map.alias_of(name).is_some()) {
            continue;
        }
        for part in &mut Arc::make_mut(message).parts {
            match part {
                ContentPart::ToolCall(call) => map.rename(&mut call.name),
                ContentPart::ToolResult(result) => map.rename(&mut result.name),
                _ => {}
            }
        }
    }
    map
}

/// Chooses a unique allowed name for each tool name that the rule rejects.
fn build_map(request: &ChatRequest, rule: &ToolNameRule) -> ToolNameMap {
    let used = request.messages.iter().flat_map(|message| &message.parts).filter_map(name_of);
    let offered = request.tools.iter().map(|tool| tool.name.as_str());
    let mut rejected: Vec<&str> = Vec::new();
    let mut taken: HashSet<String> = HashSet::new();
    if offered.clone().chain(used.clone()).all(|name| rule.allows(name)) {
        return ToolNameMap::default();
    }
    for name in offered.chain(used) {
        if rule.allows(name) {
            taken.insert(name.to_owned());
        } else if !rejected.contains(&name) {
            rejected.push(name);
        }
    }
    let mut pairs = Vec::with_capacity(rejected.len());
    for name in rejected {
        let sanitized = Some(rule.sanitize(name)).filter(|sanitized| rule.allows(sanitized));
        let suffixed = (0..).map(|round| rule.sanitize_with_suffix(name, round));
        let alias = sanitized.into_iter().chain(suffixed).find(|alias| !taken.contains(alias));
        if let Some(alias) = alias {
            taken.insert(alias.clone());
            pairs.push((alias, name.to_owned()));
        }
    }
    ToolNameMap { pairs }
}

/// Returns the tool name of a call or result. `None` for other parts.
fn name_of(part: &ContentPart) -> Option<&str> {
    match part {
        ContentPart::ToolCall(call) => Some(&call.name),
        ContentPart::ToolResult(result) => Some(&result.name),
        _ => None,
    }
}
