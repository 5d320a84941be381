//! Waiting for the end of a run, over connections that do not last as long.

use std::time::Duration;

use provost_core::{Backoff, RunId};
use serde::Serialize;
use tokio::time::Instant;

use super::{ApiError, Client};
use crate::Run;

/// The longest time for which the server is asked to hold one request.
const HOLD_MAX: Duration = Duration::from_secs(25);
/// How often in a row the server may be out of reach.
const FAILURES_MAX: u32 = 8;
/// The pauses after failures.
const PAUSES: Backoff = Backoff { first: Duration::from_millis(250), max: Duration::from_secs(32) };

/// How long one request waits.
#[derive(Serialize)]
pub(super) struct Patience {
    timeout_ms: u64,
}

impl Patience {
    pub(super) fn of(timeout: Duration) -> Self {
        Self { timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX) }
    }
}

impl Client {
    /// Waits until a run is over, or until this much time is: the run is as it stands then. A server that is restarted
    /// meanwhile is waited for. Whoever stops waiting leaves the run alone.
    pub async fn wait_for(&self, id: RunId, timeout: Option<Duration>) -> Result<Run, ApiError> {
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut failures = 0;
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            match self.wait_run(id, left.unwrap_or(HOLD_MAX).min(HOLD_MAX)).await {
                Ok(waited) => {
                    failures = 0;
                    let is_late = until.is_some_and(|until| Instant::now() >= until);
                    if waited.run.ended.is_some() || is_late {
                        return Ok(waited.run);
                    }
                }
                Err(error) if error.kind().retryable() && failures < FAILURES_MAX => {
                    let pause = PAUSES.wait(failures);
                    tokio::time::sleep(left.map_or(pause, |left| left.min(pause))).await;
                    if left.is_some_and(|left| left.is_zero()) {
                        return Err(error);
                    }
                    failures += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }
}
