//! Declared tools, audit records, capabilities and asynchronous tool results.

use std::sync::Arc;

use provost_api::{AuditQuery, Capabilities, Capability, Client, DateTime, PageQuery, ToolInfo};
use provost_core::contract::ToolResponse;
use provost_core::id::name::Namespace;
use provost_core::{AuditId, Env, RunId};
use provost_server::{App, AppOptions, CallbackRejection, LocalTransport, ToolService};
use provost_store::table::governance::audit::AuditRow;
use provost_store::table::governance::usage_record::UsageRecordRow;
use serde_json::json;
use tower::ServiceExt;

use crate::test_app::TestApp;

/// Tools with one declared tool and one waiting call.
struct FakeTools;

impl ToolService for FakeTools {
    fn tools(&self, namespace: &str) -> Vec<ToolInfo> {
        let tool = ToolInfo {
            name: format!("search-{namespace}"),
            kind: "http".to_owned(),
            description: "Finds".to_owned(),
            operations: vec!["read".to_owned()],
            risk: "low".to_owned(),
            effect: "pure".to_owned(),
            isolation: "none".to_owned(),
            problem: None,
            input_schema: json!({"type": "object"}),
        };
        vec![tool]
    }

    fn capabilities(&self) -> Capabilities {
        let capability = Capability {
            id: "tool.http".to_owned(),
            enabled: true,
            description: String::new(),
            source: "runtimes".to_owned(),
        };
        Capabilities { generated_at: DateTime(Env::system().now()), capabilities: vec![capability] }
    }

    fn complete_call(
        &self,
        request: &str,
        token: &str,
        answer: ToolResponse,
    ) -> Result<(), CallbackRejection> {
        match (request, token) {
            ("eff_1", "right") if answer.request_id == request => Ok(()),
            ("eff_1", "right") => Err(CallbackRejection::RequestMismatch),
            ("eff_1", _) => Err(CallbackRejection::InvalidToken),
            _ => Err(CallbackRejection::UnknownRequest),
        }
    }
}

fn app(test_app: &TestApp) -> App {
    let options = AppOptions { tools: Some(Arc::new(FakeTools)), ..AppOptions::default() };
    App::new(test_app.engine.clone(), options)
}

#[tokio::test]
async fn tools_audit_and_capabilities_are_served() {
    let test_app = TestApp::idle(Vec::new()).await;
    let client = Client::new(LocalTransport::new(app(&test_app)), Namespace::default());
    let tools = client.tools(&PageQuery::default()).await.unwrap();
    assert_eq!(tools.items[0].name, "search-default");
    assert_eq!(client.capabilities().await.unwrap().capabilities[0].id, "tool.http");

    let env = Env::system();
    let run: RunId = env.id();
    // Ids of one moment have no order of their own.
    let mut ids: Vec<AuditId> = (0..4).map(|_| env.id()).collect();
    ids.sort_unstable();
    ids.reverse();
    let mut row = |namespace: &str, resource: &str, outcome: &str| AuditRow {
        id: ids.pop().unwrap(),
        namespace: namespace.to_owned(),
        at: env.now(),
        action: "tool.call".to_owned(),
        outcome: outcome.to_owned(),
        resource: resource.to_owned(),
        run_id: Some(run),
        body: json!({"message": outcome}).to_string(),
    };
    let rows = [
        row("default", "pay", "denied"),
        row("default", "pay", "allowed"),
        row("default", "search", "allowed"),
        row("other", "pay", "denied"),
    ];
    let used = UsageRecordRow {
        id: env.id(),
        namespace: "default".to_owned(),
        at: env.now(),
        kind: "tool_call".to_owned(),
        agent: "clerk".to_owned(),
        run_id: None,
        body: json!({"tool_calls": 1}).to_string(),
    };
    let written = test_app.engine.store().write(move |tx| {
        rows.iter().try_for_each(|row| row.insert(tx))?;
        used.insert(tx)
    });
    written.await.unwrap();
    let told = async |list: AuditQuery| {
        let page = client.audit(&list).await.unwrap();
        let told = page.items.iter().map(|item| format!("{} {}", item.resource, item.outcome));
        (told.collect::<Vec<_>>(), page.next)
    };
    let all = ["search allowed", "pay allowed", "pay denied"];
    assert_eq!(told(AuditQuery::default()).await, (all.map(str::to_owned).to_vec(), None));
    let pay = AuditQuery { resource: Some("pay".to_owned()), ..AuditQuery::default() };
    assert_eq!(told(pay).await.0, ["pay allowed", "pay denied"]);
    let denied = AuditQuery { outcome: Some("denied".to_owned()), ..AuditQuery::default() };
    assert_eq!(told(denied).await.0, ["pay denied"]);
    let (first, next) = told(AuditQuery { limit: Some(2), ..AuditQuery::default() }).await;
    assert_eq!(first, all[..2]);
    let rest = AuditQuery { cursor: next, run: Some(run), ..AuditQuery::default() };
    assert_eq!(told(rest).await.0, all[2..]);
    let nobodys = AuditQuery { run: Some(env.id()), ..AuditQuery::default() };
    assert!(told(nobodys).await.0.is_empty());
    let usage = client.usage(&PageQuery::default()).await.unwrap();
    assert_eq!(usage.items[0].record["tool_calls"], 1);
}

#[tokio::test]
async fn answers_that_come_later_need_their_own_token_and_no_other() {
    let test_app = TestApp::idle(Vec::new()).await;
    let router = provost_server::router(app(&test_app));
    let answer = |id: &str| json!({"tool_contract_version": "v1", "request_id": id, "status": "ok", "output": {"result": "x"}});
    for (request, token, body, status) in [
        ("eff_1", "right", answer("eff_1"), 204),
        ("eff_1", "right", answer("eff_2"), 400),
        ("eff_1", "wrong", answer("eff_1"), 403),
        ("eff_1", "", answer("eff_1"), 403),
        ("eff_9", "right", answer("eff_9"), 404),
        ("eff_1", "right", json!([]), 400),
    ] {
        let sent = http::Request::post(format!("/v1/tool-callbacks/{request}"))
            .header("content-type", "application/json")
            .header("x-tool-callback-token", token)
            .body(axum::body::Body::from(body.to_string()));
        let told = router.clone().oneshot(sent.unwrap()).await.unwrap();
        assert_eq!(told.status().as_u16(), status, "{request} {token} {body}");
    }
}
