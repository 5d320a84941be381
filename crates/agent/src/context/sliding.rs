//! A window of the newest messages.

use futures::future::BoxFuture;

use super::group::Selection;
use super::{CompactionInput, CompactionResult, ContextError, ContextStrategy};

/// Keeps the newest messages, whatever their size.
///
/// The last summary and the newest user message stay, even if they are older than the window. The stored session does
/// not change.
#[derive(Debug, Clone, Copy)]
pub struct SlidingWindow {
    keep_last: usize,
}

impl Default for SlidingWindow {
    fn default() -> Self {
        Self { keep_last: 10 }
    }
}

impl SlidingWindow {
    /// Keeps at most this many of the newest messages. The newest call and its results always stay.
    pub fn keep_last(messages: usize) -> Self {
        Self { keep_last: messages }
    }

    fn shorten(self, input: CompactionInput<'_>) -> Result<CompactionResult, ContextError> {
        if input.fits() {
            return Ok(CompactionResult::messages(input.messages));
        }
        let mut selection = Selection::all(input);
        let mut seen = 0;
        for group in (0..selection.groups.len()).rev() {
            seen += selection.groups[group].len();
            if seen > self.keep_last {
                selection.drop(group);
            }
        }
        selection.drop_headless();
        if selection.tokens > input.budget {
            self.check_minimum(input)?;
        }
        Ok(CompactionResult::messages(selection.into_messages()))
    }

    /// A window that exceeds the budget may still be accepted by the provider, because sizes are estimates. Fails
    /// only if not even the newest step fits.
    fn check_minimum(self, input: CompactionInput<'_>) -> Result<(), ContextError> {
        let mut least = Selection::all(input);
        for group in 0..least.groups.len() {
            least.drop(group);
        }
        least.drop_summary();
        if least.tokens > input.budget {
            return Err(ContextError::TooLarge { needed: least.tokens, budget: input.budget });
        }
        Ok(())
    }
}

impl ContextStrategy for SlidingWindow {
    fn name(&self) -> &str {
        "sliding"
    }

    fn compact<'a>(
        &'a self,
        input: CompactionInput<'a>,
    ) -> BoxFuture<'a, Result<CompactionResult, ContextError>> {
        Box::pin(async move { self.shorten(input) })
    }
}
