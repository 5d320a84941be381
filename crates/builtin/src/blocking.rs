//! File work off the async runtime, which ends when the call is dropped.

use provost_tool::ToolError;
use provost_workspace::{Error, Result};
use tokio_util::sync::CancellationToken;

/// Runs blocking work on a thread that may block. The token is cancelled when the call is dropped, also at its timeout: long
/// work asks it between its pieces.
pub(crate) async fn run<T: Send + 'static>(
    work: impl FnOnce(&CancellationToken) -> Result<T> + Send + 'static,
) -> std::result::Result<T, ToolError> {
    let stop = CancellationToken::new();
    let _cancel = stop.clone().drop_guard();
    match tokio::task::spawn_blocking(move || work(&stop)).await {
        Ok(result) => result.map_err(tool_error),
        Err(error) => Err(ToolError::failed(error)),
    }
}

/// The error for the model: only wrong arguments are worth another try with others.
fn tool_error(error: Error) -> ToolError {
    match error {
        Error::Argument(text) => ToolError::Retry(text),
        other => ToolError::Failed(other.to_string()),
    }
}
