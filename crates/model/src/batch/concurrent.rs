//! Batches for models whose vendors have none: so many calls at a time.

use futures::StreamExt;
use futures::stream;

use super::{BatchItem, BatchOutcome, BatchRequest, check_batch};
use crate::{ChatModel, ModelError, complete};

/// How far a batch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchProgress {
    /// Requests that are over, those that failed included.
    pub done: usize,
    /// Requests that failed.
    pub failed: usize,
    /// All of them.
    pub total: usize,
}

/// Asks a model many things, at most `at_once` at a time. `told` hears of every request that is over, as it is over.
///
/// Dropping it ends the calls that are under way. To go on later, ask only what `told` has not heard of.
pub async fn run_batch(
    model: &dyn ChatModel,
    requests: Vec<BatchRequest>,
    at_once: usize,
    mut told: impl FnMut(&BatchItem, BatchProgress),
) -> Result<BatchOutcome, ModelError> {
    check_batch(&requests)?;
    let mut progress = BatchProgress { done: 0, failed: 0, total: requests.len() };
    let calls =
        requests.into_iter().enumerate().map(|(place, BatchRequest { id, request })| async move {
            (place, BatchItem { id, outcome: complete(model, request).await })
        });
    let mut calls = stream::iter(calls).buffer_unordered(at_once.max(1));
    let mut items: Vec<Option<BatchItem>> = vec![None; progress.total];
    while let Some((place, item)) = calls.next().await {
        progress.done += 1;
        progress.failed += usize::from(item.outcome.is_err());
        told(&item, progress);
        items[place] = Some(item);
    }
    Ok(BatchOutcome { items: items.into_iter().flatten().collect() })
}
