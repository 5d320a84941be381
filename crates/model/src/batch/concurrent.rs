//! Batches for models without a batch API, as concurrent calls.

use futures::StreamExt;
use futures::stream;

use super::{BatchRequest, BatchResult, BatchResults, check_batch};
use crate::{ChatModel, ModelError, complete};

/// Numbers of finished and failed requests of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchProgress {
    /// Number of finished requests, including the failed ones.
    pub done: usize,
    /// Number of failed requests.
    pub failed: usize,
    /// Number of all requests.
    pub total: usize,
}

/// Sends the requests to a model, at most `concurrency` at a time, and returns their results in the order of the
/// requests. Calls `on_result` for each finished request, in the order in which they finish. A failed request is a
/// result; returns an error, and sends nothing, only if the batch is invalid.
///
/// Dropping the future cancels the calls in progress. To continue later, send only the requests that `on_result` did
/// not receive.
pub async fn run_batch(
    model: &dyn ChatModel,
    requests: Vec<BatchRequest>,
    concurrency: usize,
    mut on_result: impl FnMut(&BatchResult, BatchProgress),
) -> Result<BatchResults, ModelError> {
    check_batch(&requests)?;
    let mut progress = BatchProgress { done: 0, failed: 0, total: requests.len() };
    let calls =
        requests.into_iter().enumerate().map(|(index, BatchRequest { id, request })| async move {
            (index, BatchResult { id, outcome: complete(model, request).await })
        });
    let mut calls = stream::iter(calls).buffer_unordered(concurrency.max(1));
    let mut results: Vec<Option<BatchResult>> = vec![None; progress.total];
    while let Some((index, result)) = calls.next().await {
        progress.done += 1;
        progress.failed += usize::from(result.outcome.is_err());
        on_result(&result, progress);
        results[index] = Some(result);
    }
    Ok(BatchResults { results: results.into_iter().flatten().collect() })
}
