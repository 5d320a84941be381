//! Removal of the oldest part of a conversation.

use futures::future::BoxFuture;

use super::group::Selection;
use super::{CompactionInput, CompactionResult, ContextError, ContextStrategy};

/// Removes the oldest groups until the conversation fits, with some room to grow.
///
/// The last summary, the newest user message and the newest step stay. The summary is removed only if the rest would
/// not fit otherwise. The stored session does not change.
#[derive(Debug, Clone, Copy)]
pub struct Truncate {
    min_messages: usize,
}

impl Default for Truncate {
    fn default() -> Self {
        Self { min_messages: 1 }
    }
}

impl Truncate {
    /// Removes as many messages as necessary.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps at least this many messages.
    #[must_use]
    pub fn min_messages(mut self, messages: usize) -> Self {
        self.min_messages = messages;
        self
    }

    fn shorten(self, input: CompactionInput<'_>) -> Result<CompactionResult, ContextError> {
        if input.fits() {
            return Ok(CompactionResult::messages(input.messages));
        }
        let mut selection = Selection::all(input);
        for group in 0..selection.groups.len() {
            let after = selection.messages.saturating_sub(selection.groups[group].len());
            if selection.tokens <= input.target() || after < self.min_messages {
                break;
            }
            selection.drop(group);
        }
        selection.drop_headless();
        if selection.tokens > input.budget && selection.messages > self.min_messages {
            selection.drop_summary();
        }
        if selection.tokens > input.budget {
            return Err(ContextError::TooLarge { needed: selection.tokens, budget: input.budget });
        }
        Ok(CompactionResult::messages(selection.into_messages()))
    }
}

impl ContextStrategy for Truncate {
    fn name(&self) -> &str {
        "truncate"
    }

    fn compact<'a>(
        &'a self,
        input: CompactionInput<'a>,
    ) -> BoxFuture<'a, Result<CompactionResult, ContextError>> {
        Box::pin(async move { self.shorten(input) })
    }
}
