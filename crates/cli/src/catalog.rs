//! What callers of the API see of the tools, and the agents that were declared.

use std::sync::Arc;

use provost_api::{
    AgentChange, AgentConfig, Capabilities, Capability, Client, DeclaredTool, NewAgent, Time,
};
use provost_core::contract::ToolResponse;
use provost_core::id::name::Namespace;
use provost_core::resource::{AgentResource, IsolationMode, ToolType};
use provost_core::{Env, ErrorKind};
use provost_host::agent::DECLARED;
use provost_host::tool::ToolProvider;
use provost_resource::Declared;
use provost_server::{App, LocalTransport, ToolHouse, Undelivered};
use provost_tool::{GovernedTool, Runtimes};
use provost_tool_runtime::CallbackError;
use serde_json::{Map, Value, json};

use crate::problem::Problem;

/// The tools of this process, as the API shows them.
pub(crate) struct ToolCatalog(pub(crate) Arc<ToolProvider>);

impl ToolHouse for ToolCatalog {
    fn tools(&self, namespace: &str) -> Vec<DeclaredTool> {
        let Some(declared) = &self.0.declared else { return Vec::new() };
        declared.workshop().tools(namespace).iter().map(|tool| told(tool)).collect()
    }

    fn capabilities(&self) -> Capabilities {
        let capabilities =
            self.0.declared.as_ref().map(|set| capabilities(set.workshop().runtimes()));
        let capabilities = capabilities.unwrap_or_default();
        Capabilities { generated_at: Time(Env::system().now()), capabilities }
    }

    fn deliver(
        &self,
        request: &str,
        token: &str,
        response: ToolResponse,
    ) -> Result<(), Undelivered> {
        let desk = self.0.declared.as_ref().and_then(|declared| declared.desk.as_ref());
        let desk = desk.ok_or(Undelivered::Unknown)?;
        desk.deliver(request, token, response).map_err(|error| match error {
            CallbackError::Unknown => Undelivered::Unknown,
            CallbackError::Token => Undelivered::Token,
            CallbackError::Mismatch => Undelivered::Mismatch,
        })
    }
}

/// Which tool types and isolation modes work here, sorted by id.
fn capabilities(runtimes: &Runtimes) -> Vec<Capability> {
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

/// A declared tool as people and programs see it.
pub(crate) fn told(tool: &GovernedTool) -> DeclaredTool {
    let resource = tool.resource();
    DeclaredTool {
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

/// Makes the agents that were declared, and changes those that were declared otherwise before.
pub(crate) async fn reconcile_agents(tools: &ToolProvider, app: &App) -> Result<(), Problem> {
    match &tools.declared {
        Some(declared) => ensure_agents(declared.workshop().declared(), app).await,
        None => Ok(()),
    }
}

/// Reads the declarations again, where there are any; says in one line what came of it.
pub(crate) async fn reload(tools: &ToolProvider, app: &App) -> Result<String, Problem> {
    let Some(declared) = &tools.declared else {
        return Ok("nothing is declared in files".to_owned());
    };
    let path = declared.path.display();
    let changed = declared.reload(async |fresh| ensure_agents(fresh, app).await).await;
    let changes = changed.map_err(|problem: Problem| Problem {
        what: format!("{path} is not used, what was declared before stays: {}", problem.what),
        ..problem
    })?;
    let told: Vec<String> = changes.iter().map(ToString::to_string).collect();
    Ok(match told.is_empty() {
        true => format!("{path} was read again: nothing changed"),
        false => format!("{path} was read again: {}", told.join(", ")),
    })
}

/// Makes or changes the agents of a set.
async fn ensure_agents(declared: &Declared, app: &App) -> Result<(), Problem> {
    for agent in declared.agents() {
        let namespace: Namespace = agent
            .namespace
            .parse()
            .map_err(|error| Problem::invalid(format!("agent `{}`: {error}", agent.name)))?;
        ensure(&Client::new(LocalTransport::new(app.clone()), namespace), agent).await?;
    }
    Ok(())
}

async fn ensure(client: &Client, agent: &AgentResource) -> Result<(), Problem> {
    let wanted = config(agent);
    let title = Some(agent.title.clone()).filter(|title| !title.is_empty());
    match client.agent(&agent.name).await {
        Ok(found) => {
            let now = json!(found.config);
            let change: Map<String, Value> =
                wanted.into_iter().filter(|(key, value)| now[key.as_str()] != *value).collect();
            if change.is_empty() && found.title == title {
                return Ok(());
            }
            let change = AgentChange { title: Some(agent.title.clone()), config: change };
            client.update_agent(&agent.name, &change, None).await.map(drop).map_err(Problem::from)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let said = wanted.into_iter().filter(|(_, value)| !value.is_null()).collect();
            let config: AgentConfig = serde_json::from_value(Value::Object(said))
                .map_err(|error| Problem::new(ErrorKind::Bug, error.to_string()))?;
            let new = NewAgent { name: agent.name.clone(), title, config };
            client.create_agent(&new).await.map(drop).map_err(Problem::from)
        }
        Err(error) => Err(error.into()),
    }
}

/// What a declaration says about how an agent is configured. `null` takes away what another one said before.
fn config(agent: &AgentResource) -> Map<String, Value> {
    let timeout = agent.timeout.map(|timeout| timeout.0.as_millis().min(u128::from(u64::MAX)));
    let timeout = timeout.map(|millis| u64::try_from(millis).unwrap_or(u64::MAX));
    [
        ("model", json!(agent.model)),
        ("system_prompt", json!(agent.prompt)),
        ("policy", json!({ "interactive": agent.interactive })),
        ("max_turns", json!(agent.max_turns)),
        ("timeout_ms", json!(timeout)),
        (DECLARED, json!(true)),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect()
}
