//! Calls by a tool's name at the server, for callers that have already authorized them.

use provost_tool::{ToolContext, ToolOutput};
use serde_json::{Map, Value};

use super::McpToolset;
use crate::Error;
use crate::tools::call;

impl McpToolset {
    /// Calls a tool by its name at the server, without listing the tools first.
    ///
    /// Tool runtimes behind a guard use this. Agents use the toolset.
    pub async fn invoke(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        cx: ToolContext,
    ) -> Result<ToolOutput, Error> {
        call::call_tool(&self.connection, tool, arguments, cx).await
    }
}
