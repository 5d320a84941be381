//! Declared tools, who did what, what can be done, and answers that come later.

use std::sync::Arc;

use provost_api::{AuditList, Capabilities, Capability, Client, DeclaredTool, Paging, Time};
use provost_core::contract::ToolResponse;
use provost_core::id::name::Namespace;
use provost_core::{AuditId, Env, RunId};
use provost_server::{App, AppOptions, LocalTransport, ToolHouse, Undelivered};
use provost_store::table::governance::audit::AuditRow;
use provost_store::table::governance::usage_record::MeterRow;
use serde_json::json;
use tower::ServiceExt;

use crate::stage::Stage;

/// A house with one tool, and one call that waits.
struct House;

impl ToolHouse for House {
    fn tools(&self, namespace: &str) -> Vec<DeclaredTool> {
        let tool = DeclaredTool {
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
        Capabilities { generated_at: Time(Env::system().now()), capabilities: vec![capability] }
    }

    fn deliver(&self, request: &str, token: &str, answer: ToolResponse) -> Result<(), Undelivered> {
        match (request, token) {
            ("eff_1", "right") if answer.request_id == request => Ok(()),
            ("eff_1", "right") => Err(Undelivered::Mismatch),
            ("eff_1", _) => Err(Undelivered::Token),
            _ => Err(Undelivered::Unknown),
        }
    }
}

fn app(stage: &Stage) -> App {
    let options = AppOptions { tools: Some(Arc::new(House)), ..AppOptions::default() };
    App::new(stage.engine.clone(), options)
}

#[tokio::test]
async fn tools_audit_and_capabilities_are_served() {
    let stage = Stage::idle(Vec::new()).await;
    let client = Client::new(LocalTransport::new(app(&stage)), Namespace::default());
    let tools = client.tools(&Paging::default()).await.unwrap();
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
    let used = MeterRow {
        id: env.id(),
        namespace: "default".to_owned(),
        at: env.now(),
        kind: "tool_call".to_owned(),
        agent: "clerk".to_owned(),
        run_id: None,
        body: json!({"tool_calls": 1}).to_string(),
    };
    let written = stage.engine.store().write(move |tx| {
        rows.iter().try_for_each(|row| row.insert(tx))?;
        used.insert(tx)
    });
    written.await.unwrap();
    let told = async |list: AuditList| {
        let page = client.audit(&list).await.unwrap();
        let told = page.items.iter().map(|item| format!("{} {}", item.resource, item.outcome));
        (told.collect::<Vec<_>>(), page.next)
    };
    let all = ["search allowed", "pay allowed", "pay denied"];
    assert_eq!(told(AuditList::default()).await, (all.map(str::to_owned).to_vec(), None));
    let pay = AuditList { resource: Some("pay".to_owned()), ..AuditList::default() };
    assert_eq!(told(pay).await.0, ["pay allowed", "pay denied"]);
    let denied = AuditList { outcome: Some("denied".to_owned()), ..AuditList::default() };
    assert_eq!(told(denied).await.0, ["pay denied"]);
    let (first, next) = told(AuditList { limit: Some(2), ..AuditList::default() }).await;
    assert_eq!(first, all[..2]);
    let rest = AuditList { cursor: next, run: Some(run), ..AuditList::default() };
    assert_eq!(told(rest).await.0, all[2..]);
    let nobodys = AuditList { run: Some(env.id()), ..AuditList::default() };
    assert!(told(nobodys).await.0.is_empty());
    let usage = client.usage(&Paging::default()).await.unwrap();
    assert_eq!(usage.items[0].record["tool_calls"], 1);
}

#[tokio::test]
async fn answers_that_come_later_need_their_own_token_and_no_other() {
    let stage = Stage::idle(Vec::new()).await;
    let router = provost_server::router(app(&stage));
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
