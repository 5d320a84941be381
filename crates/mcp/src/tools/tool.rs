//! A tool of a server as a tool of an agent.

use std::sync::Arc;

use provost_tool::{Permit, Tool, ToolCx, ToolError, ToolFuture, ToolSpec};
use rmcp::model::ErrorCode;
use serde_json::Value;

use crate::Error;
use crate::connection::Link;
use crate::tools::call;

/// What a server offers. It does not know the connection, which keeps a list of these.
pub(crate) struct Offer {
    pub(crate) spec: ToolSpec,
    /// What the server calls it.
    pub(crate) name: String,
}

pub(crate) struct McpTool {
    offer: Arc<Offer>,
    link: Arc<Link>,
}

impl McpTool {
    pub(crate) fn new(offer: &Arc<Offer>, link: &Arc<Link>) -> Self {
        Self { offer: Arc::clone(offer), link: Arc::clone(link) }
    }
}

impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.offer.spec
    }

    fn call(&self, permit: Permit, cx: ToolCx) -> ToolFuture {
        let (link, offer) = (Arc::clone(&self.link), Arc::clone(&self.offer));
        Box::pin(async move {
            let Value::Object(arguments) = permit.arguments().clone() else {
                return Err(ToolError::retry("the arguments must be an object"));
            };
            call::call(&link, &offer.name, arguments, cx).await.map_err(|error| match error {
                // The model can do something about its arguments.
                Error::Refused { code, .. } if code == ErrorCode::INVALID_PARAMS.0 => {
                    ToolError::retry(error)
                }
                error => ToolError::failed(error),
            })
        })
    }
}
