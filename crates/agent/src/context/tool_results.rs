//! Removal of old tool results.

use std::sync::Arc;

use futures::future::BoxFuture;
use provost_core::{ContentPart, Message, ToolResult, ToolResultPart};

use super::group::groups;
use super::{
    CompactionInput, CompactionResult, ContextError, ContextStrategy, HeuristicCounter,
    count_message,
};

const SUCCEEDED: &str = "The call succeeded. Its output was left out to save space; call the tool again if you need it.";
const FAILED: &str = "The call failed. Its error message was left out to save space.";

/// Replaces large results of old tool calls with a short note, oldest first, until the conversation fits with room to
/// grow.
///
/// The cheapest strategy: it calls no model and keeps every message. The stored session does not change.
#[derive(Debug, Clone, Copy)]
pub struct ClearToolResults {
    keep_groups: usize,
    min_bytes: usize,
}

impl Default for ClearToolResults {
    fn default() -> Self {
        Self { keep_groups: 5, min_bytes: 400 }
    }
}

impl ClearToolResults {
    /// Keeps the results of the newest 5 steps and results of less than 400 bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps the newest steps unchanged. A step is a message, or calls with their results.
    ///
    /// In combination with [`Summarize`](super::Summarize), keep at least as many as that strategy, because it stores
    /// the messages that it keeps again.
    #[must_use]
    pub fn keep_groups(mut self, groups: usize) -> Self {
        self.keep_groups = groups;
        self
    }

    /// Keeps results below this size. Images and files always count as large.
    #[must_use]
    pub fn min_bytes(mut self, bytes: usize) -> Self {
        self.min_bytes = bytes;
        self
    }

    fn shorten(self, input: CompactionInput<'_>) -> CompactionResult {
        let mut messages = input.messages.to_vec();
        let mut total = input.total();
        if total <= input.budget {
            return CompactionResult::messages(messages);
        }
        let mut groups = groups(input.messages, input.tokens);
        groups.truncate(groups.len().saturating_sub(self.keep_groups));
        for index in groups.into_iter().flat_map(|group| group.range) {
            if total <= input.target() {
                break;
            }
            let Some(shorter) = self.shorter(&messages[index]) else {
                continue;
            };
            let tokens = count_message(&HeuristicCounter, &shorter);
            let before = input.tokens.get(index).copied().unwrap_or(0);
            let saved = before.saturating_sub(tokens);
            if saved > 0 {
                total = total.saturating_sub(saved);
                messages[index] = Arc::new(shorter);
            }
        }
        CompactionResult::messages(messages)
    }

    /// Returns the message with notes in place of its large results, or `None` if it has none.
    fn shorter(self, message: &Message) -> Option<Message> {
        if !message.tool_results().any(|result| self.is_large(result)) {
            return None;
        }
        let parts = message.parts.iter().map(|part| match part {
            ContentPart::ToolResult(result) if self.is_large(result) => {
                ContentPart::ToolResult(note(result))
            }
            other => other.clone(),
        });
        Some(Message {
            role: message.role,
            parts: parts.collect(),
            model: message.model.clone(),
            created_at: message.created_at,
            interrupted: message.interrupted,
        })
    }

    fn is_large(self, result: &ToolResult) -> bool {
        // A pending result is replaced by the real one later, so it must not change.
        if result.pending {
            return false;
        }
        let mut bytes = 0;
        for part in &result.parts {
            match part {
                ToolResultPart::Text { text } => bytes += text.len(),
                ToolResultPart::Image(_) | ToolResultPart::File(_) => return true,
                ToolResultPart::Unknown(_) => {}
            }
        }
        bytes >= self.min_bytes && bytes > SUCCEEDED.len()
    }
}

fn note(result: &ToolResult) -> ToolResult {
    let text = if result.is_error { FAILED } else { SUCCEEDED };
    ToolResult {
        call_id: result.call_id.clone(),
        name: result.name.clone(),
        parts: vec![ToolResultPart::Text { text: text.to_owned() }],
        is_error: result.is_error,
        pending: false,
        metadata: result.metadata.clone(),
    }
}

impl ContextStrategy for ClearToolResults {
    fn name(&self) -> &str {
        "shorten_tool_results"
    }

    fn compact<'a>(
        &'a self,
        input: CompactionInput<'a>,
    ) -> BoxFuture<'a, Result<CompactionResult, ContextError>> {
        Box::pin(async move { Ok(self.shorten(input)) })
    }
}
