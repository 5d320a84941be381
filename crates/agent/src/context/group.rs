//! Groups of messages that must stay together, and the selection of groups.

use std::ops::Range;
use std::sync::Arc;

use provost_core::{Message, Role};

use super::CompactionInput;

/// An assistant message with tool calls and the results after it, or any other single message. A group is kept or
/// removed as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) range: Range<usize>,
    pub(super) tokens: u64,
}

impl Group {
    pub(super) fn len(&self) -> usize {
        self.range.len()
    }
}

/// Splits a conversation into groups, in linear time.
pub(super) fn groups(messages: &[Arc<Message>], tokens: &[u64]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut open = false;
    for (index, message) in messages.iter().enumerate() {
        let tokens = tokens.get(index).copied().unwrap_or(0);
        match groups.last_mut() {
            Some(group) if open && message.role == Role::Tool => {
                group.range.end = index + 1;
                group.tokens = group.tokens.saturating_add(tokens);
            }
            _ => {
                open = message.tool_calls().next().is_some();
                groups.push(Group { range: index..index + 1, tokens });
            }
        }
    }
    groups
}

/// The groups of a conversation that are kept.
///
/// [`Selection::drop`] never removes three groups: the last summary, the newest user message, and the newest group,
/// without which an agent would repeat its last step.
#[derive(Debug)]
pub(super) struct Selection<'a> {
    input: CompactionInput<'a>,
    pub(super) groups: Vec<Group>,
    kept: Vec<bool>,
    summary: Option<usize>,
    user: Option<usize>,
    pub(super) tokens: u64,
    pub(super) messages: usize,
}

impl<'a> Selection<'a> {
    /// Selects all groups.
    pub(super) fn all(input: CompactionInput<'a>) -> Self {
        let groups = groups(input.messages, input.tokens);
        let newest =
            |role| groups.iter().rposition(|group| input.messages[group.range.start].role == role);
        Self {
            kept: vec![true; groups.len()],
            summary: newest(Role::Summary),
            user: newest(Role::User),
            tokens: input.total(),
            messages: input.messages.len(),
            input,
            groups,
        }
    }

    /// Removes a group unless it must stay.
    pub(super) fn drop(&mut self, group: usize) {
        let is_pinned =
            [self.summary, self.user].contains(&Some(group)) || group + 1 == self.groups.len();
        if !is_pinned {
            self.remove_group(group);
        }
    }

    /// Removes the groups before the first user message or summary, because a conversation must start with one of
    /// them.
    pub(super) fn drop_headless(&mut self) {
        if self.summary.is_none() && self.user.is_none() {
            return;
        }
        for group in 0..self.groups.len() {
            let first = &self.input.messages[self.groups[group].range.start];
            if self.kept[group] && matches!(first.role, Role::User | Role::Summary) {
                return;
            }
            self.drop(group);
        }
    }

    /// Removes the summary as a last resort, if a user message can come first instead.
    pub(super) fn drop_summary(&mut self) {
        if let (Some(summary), Some(user)) = (self.summary, self.user)
            && summary < user
            && self.kept[summary]
        {
            self.remove_group(summary);
            self.summary = None;
            self.drop_headless();
        }
    }

    /// Returns the kept messages, in order.
    pub(super) fn into_messages(self) -> Vec<Arc<Message>> {
        let kept = self.groups.iter().zip(&self.kept);
        kept.filter(|(_, kept)| **kept)
            .flat_map(|(group, _)| self.input.messages[group.range.clone()].iter().cloned())
            .collect()
    }

    fn remove_group(&mut self, group: usize) {
        if std::mem::replace(&mut self.kept[group], false) {
            self.tokens = self.tokens.saturating_sub(self.groups[group].tokens);
            self.messages -= self.groups[group].len();
        }
    }
}

#[cfg(test)]
mod tests {
    use provost_core::{ToolCall, ToolResult};
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_and_results_are_one_group_and_others_stand_alone() {
        let call = ToolCall::new("c1", "add", &json!({}));
        let messages = [
            Message::user("hi"),
            Message::calls([call.clone()]),
            Message::results([ToolResult::text(&call, "1")]),
            Message::assistant("one"),
            Message::calls([call.clone()]),
            Message::results([ToolResult::placeholder(&call)]),
        ]
        .map(Arc::new);
        let found = groups(&messages, &[1, 2, 3, 4, 5, 6]);
        let found: Vec<_> = found.into_iter().map(|group| (group.range, group.tokens)).collect();
        assert_eq!(found, [(0..1, 1), (1..3, 5), (3..4, 4), (4..6, 11)]);
    }
}
