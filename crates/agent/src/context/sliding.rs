//! Keeping a window of the newest messages.

use futures::future::BoxFuture;

use super::group::Selection;
use super::{ContextError, ContextStrategy, FitInput, Fitted};

/// Keeps the newest messages, however large they are.
///
/// The last summary and the newest user message stay too, even where they are older than the window. What is stored stays
/// stored.
#[derive(Debug, Clone, Copy)]
pub struct Sliding {
    keep_last: usize,
}

impl Default for Sliding {
    fn default() -> Self {
        Self { keep_last: 10 }
    }
}

impl Sliding {
    /// Keeps at most so many of the newest messages; the newest call and its results always.
    pub fn keep_last(messages: usize) -> Self {
        Self { keep_last: messages }
    }

    fn shorten(self, input: FitInput<'_>) -> Result<Fitted, ContextError> {
        if input.fits() {
            return Ok(Fitted::messages(input.messages));
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
        Ok(Fitted::messages(selection.into_messages()))
    }

    /// A window that is too large may still be accepted by the provider, as sizes are estimates; one of which not even the
    /// newest step fits is hopeless.
    fn check_minimum(self, input: FitInput<'_>) -> Result<(), ContextError> {
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

impl ContextStrategy for Sliding {
    fn name(&self) -> &str {
        "sliding"
    }

    fn fit<'a>(&'a self, input: FitInput<'a>) -> BoxFuture<'a, Result<Fitted, ContextError>> {
        Box::pin(async move { self.shorten(input) })
    }
}
