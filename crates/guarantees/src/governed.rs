//! The tools of the ledger as an operator declares them: behind rules, a credential, redaction and records.

use std::env::VarError;
use std::sync::Arc;

use provost_agent::AgentBuilder;
use provost_core::Env;
use provost_host::{ModulePlaces, Records, Workshop, WorkshopOptions};
use provost_net::NetPolicy;
use provost_redact::Redactor;
use provost_resource::{Declared, DeclaredGovernor};
use provost_secret::{EnvResolver, Secrets};
use provost_store::Store;
use provost_tool::{Oversight, Tool};
use provost_tool_runtime::CommandAllowList;

/// The effect classes that a declared HTTP tool can have.
const CLASSES: [&str; 5] = ["pure", "idempotent", "keyed", "provable", "opaque"];
/// What the tools authenticate with.
const CREDENTIAL: &str = "canary-of-the-ledger";

/// The declared tools and what stands around them.
pub(crate) struct Governed {
    workshop: Workshop,
    oversight: Oversight,
}

impl Governed {
    /// Tools at this ledger; records go into this database.
    pub(crate) async fn open(ledger_url: &str, store: &Store) -> Result<Self, String> {
        let declared =
            Declared::parse(&manifests(ledger_url)).map_err(|error| error.to_string())?;
        let declared = Arc::new(declared);
        let redactor = Redactor::new();
        let secret = |name: &str| match name {
            "PROVOST_SECRET_LEDGER" => Ok(CREDENTIAL.to_owned()),
            _ => Err(VarError::NotPresent),
        };
        let options = WorkshopOptions {
            network: NetPolicy::open(),
            allow_private_tools: true,
            commands: CommandAllowList::default(),
            launcher: None,
            modules: ModulePlaces::default(),
            container: None,
            workspaces: None,
            audit: None,
            desk: None,
            secrets: Secrets::new(Arc::new(EnvResolver::reading(secret)), redactor.clone()),
            redactor: redactor.clone(),
            env: Env::system(),
        };
        let workshop = Workshop::open(Arc::clone(&declared), options).await;
        let workshop = workshop.map_err(|error| error.to_string())?;
        let records = Arc::new(Records::new(store.clone(), Env::system()));
        let oversight = Oversight {
            governor: Some(Arc::new(DeclaredGovernor::new(declared))),
            redact: Some(Arc::new(redactor)),
            audit: Some(Arc::clone(&records) as _),
            meter: Some(records),
            ..Oversight::default()
        };
        Ok(Self { workshop, oversight })
    }

    /// Gives an agent these tools and puts its calls under the rules.
    pub(crate) fn outfit(&self, builder: AgentBuilder) -> AgentBuilder {
        let tools = self.workshop.tools("default").into_iter().map(|tool| tool as Arc<dyn Tool>);
        builder.tools(tools).oversight(self.oversight.clone())
    }
}

fn manifests(ledger_url: &str) -> String {
    let tool = |class: &str| {
        format!(
            "kind: Tool
metadata: {{name: {class}}}
spec:
  type: http
  endpoint: {ledger_url}/{class}
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
