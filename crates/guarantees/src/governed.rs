//! Tools of the effect server as declared tools: with rules, a credential, redaction and records.

use std::env::VarError;
use std::sync::Arc;

use provost_agent::AgentBuilder;
use provost_core::Env;
use provost_engine::Records;
use provost_host::{ModuleDirs, ToolRegistry, ToolRegistryOptions};
use provost_net::NetPolicy;
use provost_redact::Redactor;
use provost_resource::{ManifestPolicy, ResourceSet};
use provost_secret::{EnvResolver, SecretService};
use provost_store::Store;
use provost_tool::{GuardServices, Tool};
use provost_tool_runtime::CommandAllowList;

/// Effect classes that a declared HTTP tool can have.
const CLASSES: [&str; 5] = ["pure", "idempotent", "keyed", "provable", "opaque"];
/// Credential of the tools.
const CREDENTIAL: &str = "canary-of-the-ledger";

/// Declared tools and the guard services around them.
pub(crate) struct GovernedTools {
    registry: ToolRegistry,
    guard_services: GuardServices,
}

impl GovernedTools {
    /// Opens the tools of this effect server. Records are written to this database.
    pub(crate) async fn open(effect_server_url: &str, store: &Store) -> Result<Self, String> {
        let declared =
            ResourceSet::parse(&manifests(effect_server_url)).map_err(|error| error.to_string())?;
        let declared = Arc::new(declared);
        let redactor = Redactor::new();
        let secret = |name: &str| match name {
            "PROVOST_SECRET_LEDGER" => Ok(CREDENTIAL.to_owned()),
            _ => Err(VarError::NotPresent),
        };
        let options = ToolRegistryOptions {
            network: NetPolicy::open(),
            allow_private_tools: true,
            commands: CommandAllowList::default(),
            launcher: None,
            modules: ModuleDirs::default(),
            container: None,
            workspaces: None,
            audit: None,
            callbacks: None,
            secrets: SecretService::new(
                Arc::new(EnvResolver::with_reader(secret)),
                redactor.clone(),
            ),
            redactor: redactor.clone(),
            env: Env::system(),
        };
        let registry = ToolRegistry::open(Arc::clone(&declared), options).await;
        let registry = registry.map_err(|error| error.to_string())?;
        let records = Arc::new(Records::new(store.clone()));
        let guard_services = GuardServices {
            policies: Some(Arc::new(ManifestPolicy::new(declared))),
            redact: Some(Arc::new(redactor)),
            audit: Some(Arc::clone(&records) as _),
            usage: Some(records),
            ..GuardServices::default()
        };
        Ok(Self { registry, guard_services })
    }

    /// Returns the guard services.
    pub(crate) fn guard_services(&self) -> GuardServices {
        self.guard_services.clone()
    }

    /// Adds the tools to an agent.
    pub(crate) fn add_tools(&self, builder: AgentBuilder) -> AgentBuilder {
        let tools = self.registry.tools("default").into_iter().map(|tool| tool as Arc<dyn Tool>);
        builder.tools(tools)
    }
}

fn manifests(effect_server_url: &str) -> String {
    let tool = |class: &str| {
        format!(
            "kind: Tool
metadata: {{name: {class}}}
spec:
  type: http
  endpoint: {effect_server_url}/{class}
  effect: {class}
  operation_classes: [write]
  input_schema: {{type: object, properties: {{key: {{type: string}}}}, required: [key]}}
  runtime: {{retry: {{max_attempts: 3}}}}
  auth: {{profile: bearer, secretRef: ledger}}
  http: {{idempotency_header: Idempotency-Key}}
---
kind: ToolPermission
metadata: {{name: {class}}}
spec: {{operation_rules: [{{operation_class: write, verdict: allow}}]}}
---
"
        )
    };
    CLASSES.iter().map(|class| tool(class)).collect()
}
