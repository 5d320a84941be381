//! A tool of a server.

use std::sync::Arc;

use provost_tool::{Permit, Tool, ToolContext, ToolError, ToolFuture, ToolSpec};
use rmcp::model::ErrorCode;
use serde_json::Value;

use crate::Error;
use crate::connection::ServerConnection;
use crate::tools::call;

/// A listed tool without its connection, because the connection caches the list.
pub(crate) struct ServerTool {
    pub(crate) spec: ToolSpec,
    /// Name of the tool at the server.
    pub(crate) name: String,
}

/// A tool of an MCP server, as the agent calls it.
pub(crate) struct McpTool {
    server_tool: Arc<ServerTool>,
    connection: Arc<ServerConnection>,
}

impl McpTool {
    pub(crate) fn new(server_tool: &Arc<ServerTool>, connection: &Arc<ServerConnection>) -> Self {
        Self { server_tool: Arc::clone(server_tool), connection: Arc::clone(connection) }
    }
}

impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.server_tool.spec
    }

    fn call(&self, permit: Permit, cx: ToolContext) -> ToolFuture {
        let (connection, server_tool) =
            (Arc::clone(&self.connection), Arc::clone(&self.server_tool));
        Box::pin(async move {
            let Value::Object(arguments) = permit.arguments().clone() else {
                return Err(ToolError::retry("the arguments must be an object"));
            };
            call::call_tool(&connection, &server_tool.name, arguments, cx).await.map_err(|error| {
                match error {
                    // The model can correct its arguments.
                    Error::Refused { code, .. } if code == ErrorCode::INVALID_PARAMS.0 => {
                        ToolError::retry(error)
                    }
                    error => ToolError::failed(error),
                }
            })
        })
    }
}
