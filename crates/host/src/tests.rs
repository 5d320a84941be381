use std::fs;
use std::sync::Arc;

use provost_core::Env;
use provost_net::NetPolicy;
use provost_redact::Redactor;
use provost_resource::Declared;
use provost_secret::{ChainResolver, EnvResolver, Secrets};
use provost_store::{Store, StoreOptions};
use provost_tool::{AuditEvent, AuditOutcome, Sink as _};
use provost_tool_runtime::CommandAllowList;

use super::*;

const HOUSE: &str = "\
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

fn options(network: NetPolicy) -> WorkshopOptions {
    let redactor = Redactor::new();
    let secrets = Secrets::new(Arc::new(ChainResolver::new()), redactor.clone());
    WorkshopOptions {
        network,
        allow_private_tools: false,
        commands: CommandAllowList::default(),
        launcher: None,
        modules: ModulePlaces::default(),
        container: None,
        workspaces: None,
        audit: None,
        desk: None,
        secrets,
        redactor,
        env: Env::system(),
    }
}

#[tokio::test]
async fn agents_get_the_tools_that_they_name() {
    let declared = Arc::new(Declared::parse(HOUSE).unwrap());
    let workshop = Workshop::open(Arc::clone(&declared), options(NetPolicy::default())).await;
    let workshop = workshop.unwrap();
    let names = |agent: &str| -> Vec<String> {
        let tools = workshop.tools_of(declared.agent("default", agent).unwrap());
        tools.iter().map(|tool| tool.spec().name().to_owned()).collect()
    };
    assert_eq!(names("clerk"), ["pay", "search"]);
    assert_eq!(names("guest"), ["search"]);
    assert!(workshop.tool("other", "pay").is_none());
    workshop.close().await;
}

#[tokio::test]
async fn programs_start_only_if_the_operator_allows_them_and_secrets_must_be_there() {
    let text = "kind: McpServer\nmetadata: {name: time}\nspec: {transport: stdio, command: /bin/time-server}\n";
    let declared = Arc::new(Declared::parse(text).unwrap());
    let opened = Workshop::open(Arc::clone(&declared), options(NetPolicy::default())).await;
    let said = opened.err().unwrap().to_string();
    assert!(
        said.contains("line 1: MCP server `time`") && said.contains("may not be started"),
        "{said}"
    );
    let mut allowed = options(NetPolicy::default());
    allowed.commands = CommandAllowList::of(["/bin/time-server"]);
    Workshop::open(declared, allowed).await.unwrap();

    let text = text.replace("command:", "env: [{name: KEY, secretRef: mail}], command:");
    let declared = Arc::new(Declared::parse(&text).unwrap());
    let with = |variables: Vec<(&'static str, &'static str)>| {
        let redactor = Redactor::new();
        let found = move |name: &str| {
            let found = variables.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| (*value).to_owned()).ok_or(std::env::VarError::NotPresent)
        };
        let resolver = ChainResolver::new().then(EnvResolver::reading(found));
        let mut options = options(NetPolicy::default());
        options.commands = CommandAllowList::of(["/bin/time-server"]);
        options.secrets = Secrets::new(Arc::new(resolver), redactor.clone());
        (options, redactor)
    };
    let (none, _) = with(Vec::new());
    let said = Workshop::open(Arc::clone(&declared), none).await.err().unwrap().to_string();
    assert!(said.contains("mail"), "{said}");
    let (some, redactor) = with(vec![("PROVOST_SECRET_MAIL", "hunter2hunter2")]);
    Workshop::open(declared, some).await.unwrap();
    assert_eq!(redactor.redact("it is hunter2hunter2"), "it is [REDACTED]");
}

#[tokio::test]
async fn records_are_in_the_database_when_the_sink_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(StoreOptions::for_test(dir.path())).unwrap();
    let records = Records::new(store.clone(), Env::system());
    let run: provost_core::RunId = Env::system().id();
    let event = |outcome| AuditEvent {
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
        let kept = Some(dir.path().join("kept"));
        options.modules = ModulePlaces { files: Some(dir.path().to_owned()), kept };
        Workshop::open(Arc::new(Declared::parse(&text).unwrap()), options).await
    };
    let workshop = open("hi.wasm").await.unwrap();
    let tool = workshop.tool("default", "hi").unwrap();
    assert_eq!(tool.resource().isolation().as_str(), "wasm");
    assert!(tool.verify().is_ok());
    let refused = open("wants.wasm").await.map(drop).unwrap_err().to_string();
    assert!(refused.contains("declare `kv: true`"), "{refused}");
    let refused = open("../hi.wasm").await.map(drop).unwrap_err().to_string();
    assert!(refused.contains("without `..`"), "{refused}");
}
