//! Leaving out what old tool calls gave.

use std::sync::Arc;

use futures::future::BoxFuture;
use provost_core::{Message, Part, ResultPart, ToolResult};

use super::group::groups;
use super::{ContextError, ContextStrategy, Estimate, FitInput, Fitted, count_message};

const SUCCEEDED: &str = "The call succeeded. Its output was left out to save space; call the tool again if you need it.";
const FAILED: &str = "The call failed. Its error message was left out to save space.";

/// Replaces large results of old tool calls by a short note, the oldest first, until the conversation fits with room to grow.
///
/// The cheapest way to shorten: no model is asked, and all that was said stays. What is stored stays stored.
#[derive(Debug, Clone, Copy)]
pub struct ShortenToolResults {
    keep_groups: usize,
    min_bytes: usize,
}

impl Default for ShortenToolResults {
    fn default() -> Self {
        Self { keep_groups: 5, min_bytes: 400 }
    }
}

impl ShortenToolResults {
    /// Keeps the results of the newest 5 steps and those of less than 400 bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Leaves the newest steps as they are; a step is a message, or calls with their results.
    ///
    /// Together with [`Summarize`](super::Summarize) this should not be less than what that keeps, as it stores again what it
    /// keeps.
    #[must_use]
    pub fn keep_groups(mut self, groups: usize) -> Self {
        self.keep_groups = groups;
        self
    }

    /// Leaves results below this size as they are. Images and files are always large.
    #[must_use]
    pub fn min_bytes(mut self, bytes: usize) -> Self {
        self.min_bytes = bytes;
        self
    }

    fn shorten(self, input: FitInput<'_>) -> Fitted {
        let mut messages = input.messages.to_vec();
        let mut total = input.total();
        if total <= input.budget {
            return Fitted::messages(messages);
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
            let tokens = count_message(&Estimate, &shorter);
            let before = input.tokens.get(index).copied().unwrap_or(0);
            let saved = before.saturating_sub(tokens);
            if saved > 0 {
                total = total.saturating_sub(saved);
                messages[index] = Arc::new(shorter);
            }
        }
        Fitted::messages(messages)
    }

    /// The message with notes in place of its large results, if it has any.
    fn shorter(self, message: &Message) -> Option<Message> {
        if !message.tool_results().any(|result| self.is_large(result)) {
            return None;
        }
        let parts = message.parts.iter().map(|part| match part {
            Part::ToolResult(result) if self.is_large(result) => Part::ToolResult(note(result)),
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
        // A pending result is replaced by the real one later, so it must stay what it is.
        if result.pending {
            return false;
        }
        let mut bytes = 0;
        for part in &result.parts {
            match part {
                ResultPart::Text { text } => bytes += text.len(),
                ResultPart::Image(_) | ResultPart::File(_) => return true,
                ResultPart::Unknown(_) => {}
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
        parts: vec![ResultPart::Text { text: text.to_owned() }],
        is_error: result.is_error,
        pending: false,
        metadata: result.metadata.clone(),
    }
}

impl ContextStrategy for ShortenToolResults {
    fn name(&self) -> &str {
        "shorten_tool_results"
    }

    fn fit<'a>(&'a self, input: FitInput<'a>) -> BoxFuture<'a, Result<Fitted, ContextError>> {
        Box::pin(async move { Ok(self.shorten(input)) })
    }
}
