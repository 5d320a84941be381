//! Blocking file operations outside of the async runtime.

use provost_tool::ToolError;
use provost_workspace::{Error, Result};
use tokio_util::sync::CancellationToken;

/// Runs blocking work on a blocking thread. The token is cancelled when the call is dropped, for example at its
/// timeout; long work checks it regularly.
pub(crate) async fn run<T: Send + 'static>(
    work: impl FnOnce(&CancellationToken) -> Result<T> + Send + 'static,
) -> std::result::Result<T, ToolError> {
    let cancel = CancellationToken::new();
    let _cancel = cancel.clone().drop_guard();
    match tokio::task::spawn_blocking(move || work(&cancel)).await {
        Ok(result) => result.map_err(to_tool_error),
        Err(error) => Err(ToolError::failed(error)),
    }
}

/// Converts an error for the model. Only an invalid argument lets the model retry.
fn to_tool_error(error: Error) -> ToolError {
    match error {
        Error::Argument(text) => ToolError::Retry(text),
        other => ToolError::Failed(other.to_string()),
    }
}
