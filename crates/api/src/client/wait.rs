//! Waits for the end of a run across several requests.

use std::time::Duration;

use provost_core::{Backoff, RunId};
use serde::Serialize;
use tokio::time::Instant;

use super::{ApiError, Client};
use crate::Run;

/// Maximum time that the server holds one request.
const REQUEST_TIMEOUT_MAX: Duration = Duration::from_secs(25);
/// Maximum number of consecutive failures.
const FAILURES_MAX: u32 = 8;
/// Delays after failures.
const RETRY_BACKOFF: Backoff =
    Backoff { first: Duration::from_millis(250), max: Duration::from_secs(32) };

/// Query of a request that waits.
#[derive(Serialize)]
pub(super) struct WaitQuery {
    timeout_ms: u64,
}

impl WaitQuery {
    /// Creates a query with a timeout in milliseconds.
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX) }
    }
}

impl Client {
    /// Waits until a run ends or the timeout elapses, and returns the run. Without a timeout it waits until the run ends.
    /// Requests that fail because the server restarts are repeated. Dropping the future does not affect the run.
    pub async fn wait_for_run(
        &self,
        id: RunId,
        timeout: Option<Duration>,
    ) -> Result<Run, ApiError> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut failures = 0;
        loop {
            let remaining =
                deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let timeout = remaining.unwrap_or(REQUEST_TIMEOUT_MAX).min(REQUEST_TIMEOUT_MAX);
            match self.poll_run(id, timeout).await {
                Ok(result) => {
                    failures = 0;
                    let is_late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
                    if result.run.ended.is_some() || is_late {
                        return Ok(result.run);
                    }
                }
                Err(error) if error.kind().retryable() && failures < FAILURES_MAX => {
                    let delay = RETRY_BACKOFF.wait(failures);
                    tokio::time::sleep(remaining.map_or(delay, |left| left.min(delay))).await;
                    if remaining.is_some_and(|remaining| remaining.is_zero()) {
                        return Err(error);
                    }
                    failures += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }
}
