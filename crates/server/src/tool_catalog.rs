//! What the server knows of tools: those that were declared, what it can run, and answers that come later.

use provost_api::{Capabilities, DeclaredTool};
use provost_core::contract::ToolResponse;

/// Tools, as far as callers of the API see them. Whoever puts the server together gives it one.
pub trait ToolHouse: Send + Sync + 'static {
    /// The declared tools of a namespace, by name.
    fn tools(&self, namespace: &str) -> Vec<DeclaredTool>;

    /// What can be done here.
    fn capabilities(&self) -> Capabilities;

    /// Takes an answer to a call that waits for it.
    fn deliver(
        &self,
        request: &str,
        token: &str,
        response: ToolResponse,
    ) -> Result<(), Undelivered>;
}

/// Why an answer of a tool is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Undelivered {
    /// Nobody waits for it.
    #[error("nobody waits for this request: it was answered, given up, or never asked")]
    Unknown,
    /// The token is not the one of the request.
    #[error("the token is not the one that came with this request")]
    Token,
    /// The envelope answers another request.
    #[error("the envelope's `request_id` is not the one of the address")]
    Mismatch,
}
