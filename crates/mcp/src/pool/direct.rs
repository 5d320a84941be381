//! Calls by a server's own name for a tool, for whoever has authorised them already.

use provost_tool::{ToolCx, ToolOutput};
use serde_json::{Map, Value};

use super::McpTools;
use crate::Error;
use crate::tools::call;

impl McpTools {
    /// Calls a tool by the name that the server has for it. Nothing is listed or checked before: the server knows its tools.
    ///
    /// This is for runtimes behind a guard that has permitted the call; agents use the toolset.
    pub async fn invoke(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        cx: ToolCx,
    ) -> Result<ToolOutput, Error> {
        call::call(&self.link, tool, arguments, cx).await
    }
}
