//! The tools as the API shows them.

use std::sync::Arc;

use provost_api::{Capabilities, Capability, DateTime, ToolInfo};
use provost_core::Env;
use provost_core::contract::ToolResponse;
use provost_core::resource::{IsolationMode, ToolType};
use provost_host::tool::ToolProvider;
use provost_server::{CallbackRejection, ToolService};
use provost_tool::{DeclaredTool, RuntimeRegistry};
use provost_tool_runtime::CallbackError;

/// Tools of this process as the API shows them.
pub(crate) struct ToolCatalog(pub(crate) Arc<ToolProvider>);

impl ToolService for ToolCatalog {
    fn tools(&self, namespace: &str) -> Vec<ToolInfo> {
        let Some(declared) = &self.0.declared else { return Vec::new() };
        declared.current().tools(namespace).iter().map(|tool| declared_tool(tool)).collect()
    }

    fn capabilities(&self) -> Capabilities {
        let capabilities =
            self.0.declared.as_ref().map(|set| capabilities(set.current().runtimes()));
        let capabilities = capabilities.unwrap_or_default();
        Capabilities { generated_at: DateTime(Env::system().now()), capabilities }
    }

    fn complete_call(
        &self,
        request: &str,
        token: &str,
        response: ToolResponse,
    ) -> Result<(), CallbackRejection> {
        let callbacks = self.0.callbacks.as_ref().ok_or(CallbackRejection::UnknownRequest)?;
        callbacks.deliver(request, token, response).map_err(|error| match error {
            CallbackError::Unknown => CallbackRejection::UnknownRequest,
            CallbackError::Token => CallbackRejection::InvalidToken,
            CallbackError::Mismatch => CallbackRejection::RequestMismatch,
        })
    }
}

/// Returns the tool types and isolation modes with their availability, sorted by id.
fn capabilities(runtimes: &RuntimeRegistry) -> Vec<Capability> {
    let capability = |id: String, enabled, description| Capability {
        id,
        enabled,
        description,
        source: "runtimes".to_owned(),
    };
    let types = ToolType::ALL.iter().map(|kind| {
        let description = format!("tools of type `{kind}`");
        capability(format!("tool.{kind}"), runtimes.supports(*kind), description)
    });
    let isolations = IsolationMode::ALL.iter().map(|mode| {
        let description = format!("isolation `{mode}`");
        capability(format!("isolation.{mode}"), runtimes.supports_isolation(*mode), description)
    });
    let mut capabilities: Vec<_> = types.chain(isolations).collect();
    capabilities.sort_by(|one, two| one.id.cmp(&two.id));
    capabilities
}

/// Converts a declared tool to its API type.
pub(crate) fn declared_tool(tool: &DeclaredTool) -> ToolInfo {
    let resource = tool.resource();
    ToolInfo {
        name: resource.name.clone(),
        kind: resource.kind.to_string(),
        description: resource.description.clone(),
        operations: resource.operations().iter().map(ToString::to_string).collect(),
        risk: resource.risk_level.to_string(),
        effect: resource.effect.to_string(),
        isolation: resource.isolation().to_string(),
        problem: tool.verify().err().map(|fault| fault.message),
        input_schema: resource.input_schema.clone(),
    }
}
