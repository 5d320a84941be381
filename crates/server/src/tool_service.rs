//! Interface between the server and the declared tools.

use provost_api::{Capabilities, ToolInfo};
use provost_core::contract::ToolResponse;

/// Declared tools, as the API shows them. The program that starts the server implements this trait.
pub trait ToolService: Send + Sync + 'static {
    /// Returns the declared tools of a namespace, sorted by name.
    fn tools(&self, namespace: &str) -> Vec<ToolInfo>;

    /// Returns the capabilities of the server.
    fn capabilities(&self) -> Capabilities;

    /// Completes an asynchronous tool call with its result.
    fn complete_call(
        &self,
        request: &str,
        token: &str,
        response: ToolResponse,
    ) -> Result<(), CallbackRejection>;
}

/// Reason why the result of an asynchronous tool call is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallbackRejection {
    /// No call waits for this request.
    #[error("no call waits for this request: it is unknown, completed or abandoned")]
    UnknownRequest,
    /// The callback token does not belong to the request.
    #[error("the callback token does not belong to this request")]
    InvalidToken,
    /// The body belongs to another request.
    #[error("the `request_id` of the body differs from that of the path")]
    RequestMismatch,
}
