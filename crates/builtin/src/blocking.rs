//! File work off the async runtime, which ends when nobody waits for it any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use provost_tool::ToolError;

use crate::error::{Error, Result};

/// Says whether anybody still waits. Long work asks it between its pieces.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Ends the work if nobody waits.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_set() { Err(Error::Stopped) } else { Ok(()) }
    }

    /// Has everybody gone?
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Nobody waits from now on.
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sets the stop when the call goes, also at its timeout.
struct SetOnDrop(Stop);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// Runs blocking work on a thread that may block.
pub(crate) async fn run<T: Send + 'static>(
    work: impl FnOnce(&Stop) -> Result<T> + Send + 'static,
) -> std::result::Result<T, ToolError> {
    let stop = Stop::default();
    let _set = SetOnDrop(stop.clone());
    match tokio::task::spawn_blocking(move || work(&stop)).await {
        Ok(result) => result.map_err(Error::into_tool),
        Err(error) => Err(ToolError::failed(error)),
    }
}
