//! The tools as the API shows them, and the reconciliation of declared agents.

use std::sync::Arc;

use provost_api::{
    AgentChange, AgentConfig, Capabilities, Capability, Client, DateTime, NewAgent, ToolInfo,
};
use provost_core::contract::ToolResponse;
use provost_core::id::name::Namespace;
use provost_core::resource::{AgentResource, IsolationMode, ToolType};
use provost_core::{Env, ErrorKind};
use provost_host::agent::MANAGED_BY_MANIFEST;
use provost_host::tool::ToolProvider;
use provost_resource::ResourceSet;
use provost_server::{App, CallbackRejection, LocalTransport, ToolService};
use provost_tool::{DeclaredTool, RuntimeRegistry};
use provost_tool_runtime::CallbackError;
use serde_json::{Map, Value, json};

use crate::error::CliError;

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
        let callbacks = self.0.declared.as_ref();
        let callbacks = callbacks.and_then(|declared| declared.callbacks.as_ref());
        let callbacks = callbacks.ok_or(CallbackRejection::UnknownRequest)?;
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
        capability(format!("isolation.{mode}"), runtimes.isolates(*mode), description)
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

/// Creates the declared agents, and updates those whose declaration changed.
pub(crate) async fn reconcile_agents(tools: &ToolProvider, app: &App) -> Result<(), CliError> {
    match &tools.declared {
        Some(declared) => upsert_agents(declared.current().declared(), app).await,
        None => Ok(()),
    }
}

/// Reads the manifests again and returns the changes as one line of text. The old manifests stay active after an error.
pub(crate) async fn reload(tools: &ToolProvider, app: &App) -> Result<String, CliError> {
    let Some(declared) = &tools.declared else {
        return Ok("no manifests are configured".to_owned());
    };
    let path = declared.path.display();
    let changed = declared.reload(async |new| upsert_agents(new, app).await).await;
    let changes = changed.map_err(|problem: CliError| CliError {
        message: format!(
            "cannot load {path}, the previous manifests stay active: {}",
            problem.message
        ),
        ..problem
    })?;
    let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
    Ok(match changes.is_empty() {
        true => format!("reloaded {path}: no changes"),
        false => format!("reloaded {path}: {}", changes.join(", ")),
    })
}

/// Creates or updates the agents of a manifest set.
async fn upsert_agents(declared: &ResourceSet, app: &App) -> Result<(), CliError> {
    for agent in declared.agents() {
        let namespace: Namespace = agent
            .namespace
            .parse()
            .map_err(|error| CliError::invalid(format!("agent `{}`: {error}", agent.name)))?;
        upsert_agent(&Client::new(LocalTransport::new(app.clone()), namespace), agent).await?;
    }
    Ok(())
}

async fn upsert_agent(client: &Client, agent: &AgentResource) -> Result<(), CliError> {
    let declared = config(agent);
    let title = Some(agent.title.clone()).filter(|title| !title.is_empty());
    match client.agent(&agent.name).await {
        Ok(found) => {
            let current = json!(found.config);
            let change: Map<String, Value> = declared
                .into_iter()
                .filter(|(key, value)| current[key.as_str()] != *value)
                .collect();
            if change.is_empty() && found.title == title {
                return Ok(());
            }
            let change = AgentChange { title: Some(agent.title.clone()), config: change };
            client.update_agent(&agent.name, &change, None).await.map(drop).map_err(CliError::from)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let fields = declared.into_iter().filter(|(_, value)| !value.is_null()).collect();
            let config: AgentConfig = serde_json::from_value(Value::Object(fields))
                .map_err(|error| CliError::new(ErrorKind::Bug, error.to_string()))?;
            let new = NewAgent { name: agent.name.clone(), title, config };
            client.create_agent(&new).await.map(drop).map_err(CliError::from)
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the configuration of a declared agent. `null` removes the value of an earlier declaration.
fn config(agent: &AgentResource) -> Map<String, Value> {
    let timeout = agent.timeout.map(|timeout| timeout.0.as_millis().min(u128::from(u64::MAX)));
    let timeout = timeout.map(|millis| u64::try_from(millis).unwrap_or(u64::MAX));
    [
        ("model", json!(agent.model)),
        ("system_prompt", json!(agent.prompt)),
        ("policy", json!({ "interactive": agent.interactive })),
        ("max_turns", json!(agent.max_turns)),
        ("timeout_ms", json!(timeout)),
        (MANAGED_BY_MANIFEST, json!(true)),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect()
}
