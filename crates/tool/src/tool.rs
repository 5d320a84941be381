//! The trait every tool implements.

use futures::future::BoxFuture;

use crate::{Permit, ToolCx, ToolError, ToolOutput, ToolSpec};

/// What a running tool is.
pub type ToolFuture = BoxFuture<'static, Result<ToolOutput, ToolError>>;

/// Something an agent can do.
///
/// Most tools are made by `#[tool]` or [`tool_fn`](crate::tool_fn); implement this by hand for tools whose shape is known only
/// at run time.
pub trait Tool: Send + Sync + 'static {
    /// What it is and how it may be called.
    fn spec(&self) -> &ToolSpec;

    /// Starts it. The permit holds the checked arguments and proves that the call was allowed.
    fn call(&self, permit: Permit, cx: ToolCx) -> ToolFuture;
}
