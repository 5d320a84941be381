use std::fs;
use std::sync::Arc;

use provost_core::Env;
use provost_engine::Records;
use provost_net::NetPolicy;
use provost_redact::Redactor;
use provost_resource::ResourceSet;
use provost_secret::{ChainResolver, EnvResolver, SecretService};
use provost_store::{Store, StoreOptions};
use provost_tool::{AuditOutcome, AuditRecord, RecordSink as _};
use provost_tool_runtime::CommandAllowList;

use super::*;

const MANIFESTS: &str = "\
kind: Tool
metadata: {name: search}
spec: {endpoint: 'https://example.com/search', effect: pure}
---
kind: Tool
metadata: {name: pay}
spec: {endpoint: 'https://example.com/pay'}
---
kind: AgentRole
metadata: {name: payer}
spec: {permissions: ['pay:invoke']}
---
kind: ToolPermission
metadata: {name: pay}
spec:
  required_permissions: ['pay:invoke']
  operation_rules:
  - {operation_class: write, verdict: approval_required}
---
kind: Agent
metadata: {name: clerk}
spec: {tools: ['*'], roles: [payer]}
---
kind: Agent
metadata: {name: guest}
spec: {tools: [search]}
";

fn options(network: NetPolicy) -> ToolRegistryOptions {
    let redactor = Redactor::new();
    let secrets = SecretService::new(Arc::new(ChainResolver::new()), redactor.clone());
    ToolRegistryOptions {
        network,
        allow_private_tools: false,
        commands: CommandAllowList::default(),
        launcher: None,
        modules: ModuleDirs::default(),
        container: None,
        workspaces: None,
        audit: None,
        callbacks: None,
        secrets,
        redactor,
        env: Env::system(),
    }
}

#[tokio::test]
async fn agents_get_the_tools_that_they_name() {
    let declared = Arc::new(ResourceSet::parse(MANIFESTS).unwrap());
    let registry = ToolRegistry::open(Arc::clone(&declared), options(NetPolicy::default())).await;
    let registry = registry.unwrap();
    let names = |agent: &str| -> Vec<String> {
        let agent = declared.agent("default", agent).unwrap();
        let tools = registry.tools_of("default", &agent.spec.declared_tools);
        tools.iter().map(|tool| tool.spec().name().to_owned()).collect()
    };
    assert_eq!(names("clerk"), ["pay", "search"]);
    assert_eq!(names("guest"), ["search"]);
    assert!(registry.tool("other", "pay").is_none());
    registry.close().await;
}

#[tokio::test]
async fn programs_start_only_if_the_operator_allows_them_and_secrets_must_be_there() {
    let text = "kind: McpServer\nmetadata: {name: time}\nspec: {transport: stdio, command: /bin/time-server}\n";
    let declared = Arc::new(ResourceSet::parse(text).unwrap());
    let opened = ToolRegistry::open(Arc::clone(&declared), options(NetPolicy::default())).await;
    let message = opened.err().unwrap().to_string();
    assert!(
        message.contains("line 1: MCP server `time`") && message.contains("is not allowed"),
        "{message}"
    );
    let mut allowed = options(NetPolicy::default());
    allowed.commands = CommandAllowList::of(["/bin/time-server"]);
    ToolRegistry::open(declared, allowed).await.unwrap();

    let text = text.replace("command:", "env: [{name: KEY, secretRef: mail}], command:");
    let declared = Arc::new(ResourceSet::parse(&text).unwrap());
    let with = |variables: Vec<(&'static str, &'static str)>| {
        let redactor = Redactor::new();
        let found = move |name: &str| {
            let found = variables.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| (*value).to_owned()).ok_or(std::env::VarError::NotPresent)
        };
        let resolver = ChainResolver::new().then(EnvResolver::with_reader(found));
        let mut options = options(NetPolicy::default());
        options.commands = CommandAllowList::of(["/bin/time-server"]);
        options.secrets = SecretService::new(Arc::new(resolver), redactor.clone());
        (options, redactor)
    };
    let (none, _) = with(Vec::new());
    let message = ToolRegistry::open(Arc::clone(&declared), none).await.err().unwrap().to_string();
    assert!(message.contains("mail"), "{message}");
    let (some, redactor) = with(vec![("PROVOST_SECRET_MAIL", "hunter2hunter2")]);
    ToolRegistry::open(declared, some).await.unwrap();
    assert_eq!(redactor.redact("it is hunter2hunter2"), "it is [REDACTED]");
}

#[tokio::test]
async fn records_are_in_the_database_when_the_sink_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(StoreOptions::for_test(dir.path())).unwrap();
    let records = Records::new(store.clone());
    let run: provost_core::RunId = Env::system().id();
    let event = |outcome| AuditRecord {
        timestamp: Env::system().now(),
        component: String::new(),
        action: "tool.call".to_owned(),
        outcome,
        namespace: "default".to_owned(),
        resource_kind: "Tool".to_owned(),
        resource_name: "pay".to_owned(),
        principal: "clerk".to_owned(),
        message: String::new(),
        metadata: [("run".to_owned(), run.to_string())].into(),
    };
    records.record(event(AuditOutcome::Allowed)).await.unwrap();
    records.record(event(AuditOutcome::Failed)).await.unwrap();
    let filter = provost_store::table::governance::audit::AuditFilter {
        run: Some(run),
        ..Default::default()
    };
    let rows = store
        .read(move |tx| provost_store::table::governance::audit::list(tx, "default", &filter, 10))
        .await
        .unwrap();
    let outcomes: Vec<&str> = rows.iter().map(|row| row.outcome.as_str()).collect();
    assert_eq!(outcomes, ["failed", "allowed"]);
    assert!(rows[0].body.contains("\"resource_name\":\"pay\""));
    store.close().await;
}

#[tokio::test]
async fn a_declared_module_runs_and_one_that_wants_too_much_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let answer = r#"{\"contract_version\":\"v1\",\"status\":\"ok\",\"output\":\"hi\"}"#;
    let module = format!(
        r#"(module (import "wasi_snapshot_preview1" "fd_write" (func $w (param i32 i32 i32 i32) (result i32)))
            (memory (export "memory") 1) (data (i32.const 0) "\10\00\00\00\32\00\00\00") (data (i32.const 16) "{answer}")
            (func (export "run") (drop (call $w (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#
    );
    fs::write(dir.path().join("hi.wasm"), wat::parse_str(module).unwrap()).unwrap();
    let wants =
        wat::parse_str(r#"(module (import "provost" "kv_get" (func)) (func (export "run")))"#);
    fs::write(dir.path().join("wants.wasm"), wants.unwrap()).unwrap();
    let open = async |module: &str| {
        let text = format!(
            "kind: Tool\nmetadata: {{name: hi}}\nspec: {{type: wasm, effect: pure, wasm: {{module: {module}}}}}\n"
        );
        let mut options = options(NetPolicy::default());
        let data = Some(dir.path().join("kept"));
        options.modules = ModuleDirs { files: Some(dir.path().to_owned()), data };
        ToolRegistry::open(Arc::new(ResourceSet::parse(&text).unwrap()), options).await
    };
    let registry = open("hi.wasm").await.unwrap();
    let tool = registry.tool("default", "hi").unwrap();
    assert_eq!(tool.resource().isolation().as_str(), "wasm");
    assert!(tool.verify().is_ok());
    let manifest_error = open("wants.wasm").await.map(drop).unwrap_err().to_string();
    assert!(manifest_error.contains("declare `kv: true`"), "{manifest_error}");
    let manifest_error = open("../hi.wasm").await.map(drop).unwrap_err().to_string();
    assert!(manifest_error.contains("without `..`"), "{manifest_error}");
}
