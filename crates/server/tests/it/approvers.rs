//! Approvals with several approvers. The token identifies the approver.

use std::sync::Arc;

use futures::future::BoxFuture;
use provost_agent::Agent;
use provost_api::{Approval, ApprovalQuery, Scope};
use provost_core::lifecycle::ApprovalState;
use provost_core::policy::{CompiledPolicy, PolicySources, PolicySubject};
use provost_core::resource::ToolPermission;
use provost_engine::EngineDeps;
use provost_model::{self as scripted, ChatRequest, ScriptedModel};
use provost_server::Limits;
use provost_tool::{CallOrigin, GuardServices, PolicyProvider, PolicyProviderError};
use serde_json::{Value, json};

use crate::tcp_server::{Reply, TcpServer};
use crate::test_app::{TestApp, risky};

/// Requires two of three approvers for `risky` and excludes the requester of the run.
struct TwoApproversPolicy;

impl PolicyProvider for TwoApproversPolicy {
    fn policy<'a>(
        &'a self,
        origin: &'a CallOrigin,
    ) -> BoxFuture<'a, Result<Arc<CompiledPolicy>, PolicyProviderError>> {
        let subject = PolicySubject::new(&origin.namespace, &origin.agent);
        let mut parts = PolicySources::new("1", subject);
        let rule: ToolPermission = serde_json::from_value(json!({
            "name": "risky", "namespace": origin.namespace,
            "operation_rules": [{"operation_class": "*", "verdict": "approval_required"}],
            "approvers": {"required": 2, "of": ["ada", "bob", "eve"], "not_requester": true},
        }))
        .unwrap();
        parts.permissions = vec![rule];
        let governance = CompiledPolicy::compile(parts).map(Arc::new);
        Box::pin(std::future::ready(
            governance.map_err(|error| PolicyProviderError(error.to_string())),
        ))
    }
}

fn model() -> ScriptedModel {
    ScriptedModel::from_fn(|request: &ChatRequest, _| {
        let told = request.messages.iter().rev().flat_map(|message| message.tool_results()).next();
        match told {
            Some(result) => scripted::text(format!("told: {}", result.to_text())),
            None => scripted::call("risky", json!({"amount": 1})),
        }
    })
}

async fn tcp_server() -> TcpServer {
    let guard =
        GuardServices { policies: Some(Arc::new(TwoApproversPolicy)), ..GuardServices::default() };
    let agent = || Agent::builder("default", model()).tool(risky());
    let mut test_app = TestApp::with(agent, |deps| EngineDeps { guard, ..deps }).await;
    test_app.worker = Some(test_app.engine.start().await.unwrap());
    TcpServer::on(test_app, Limits::default()).await
}

async fn post(tcp_server: &TcpServer, line: &str, token: &str, body: &Value) -> Reply {
    tcp_server.call(line, token, Some(body)).await
}

#[tokio::test]
async fn each_vote_is_that_of_the_token() {
    let tcp_server = tcp_server().await;
    let mut tokens = Vec::new();
    for name in ["ada", "bob", "eve", "joe"] {
        let scopes = [Scope::Write, Scope::Read, Scope::Approve];
        tokens.push(tcp_server.token_named(name, &scopes, &["default"]).await.secret);
    }
    let [ada, bob, eve, joe] = tokens.as_slice() else { panic!("four tokens") };
    let task = json!({"message": "go", "session": "chat", "spawned_by": "joe"});
    let made = post(&tcp_server, "POST /v1/namespaces/default/tasks", ada, &task).await;
    assert_eq!(made.status, 201, "{made:?}");
    let run = serde_json::from_value(made.json()["run"].clone()).unwrap();
    tcp_server.test_app.parked(run).await;
    let list = ApprovalQuery { run: Some(run), ..ApprovalQuery::default() };
    let open = tcp_server.test_app.client.approvals(&list).await.unwrap().items.remove(0);
    let tally = open.vote_count.unwrap();
    assert_eq!(
        (tally.required, tally.approved, tally.excluded.as_slice()),
        (2, 0, &["ada".to_owned()][..])
    );
    assert_eq!(
        (tally.approvers.len(), tally.missing_approvers.as_slice()),
        (3, &["bob".to_owned(), "eve".to_owned()][..])
    );
    let line = format!("POST /v1/namespaces/default/approvals/{}/answer", open.id);
    let yes = json!({"decision": "approve"});
    for (token, code) in [(ada, "own_approval"), (joe, "not_an_approver")] {
        let refused = post(&tcp_server, &line, token, &yes).await;
        assert_eq!((refused.status, refused.code().as_str()), (403, code));
    }
    // Nobody speaks for somebody else.
    for field in ["by", "principal", "decided_by"] {
        let posing =
            post(&tcp_server, &line, joe, &json!({"decision": "approve", field: "eve"})).await;
        assert_eq!((posing.status, posing.code().as_str()), (400, "invalid"), "{field}");
    }
    for _ in 0..2 {
        let first = post(&tcp_server, &line, bob, &yes).await.json();
        assert_eq!(
            (&first["counts"], &first["approval"]["state"]),
            (&json!(true), &json!("pending"))
        );
        let tally = &first["approval"]["tally"];
        assert_eq!((&tally["have"], &tally["awaited"]), (&json!(1), &json!(["eve"])));
        assert_eq!(
            (&tally["votes"][0]["by"], tally["votes"].as_array().unwrap().len()),
            (&json!("bob"), 1)
        );
    }
    let other = post(&tcp_server, &line, bob, &json!({"decision": "deny"})).await;
    assert_eq!((other.status, other.code().as_str()), (409, "vote_conflict"));
    let last = post(&tcp_server, &line, eve, &yes).await.json();
    let last: Approval = serde_json::from_value(last["approval"].clone()).unwrap();
    assert_eq!((last.state, last.decided_by.as_deref()), (ApprovalState::Approved, Some("eve")));
    let decision = json!({"answer": "approved_by", "by": ["bob", "eve"]});
    assert_eq!((last.decision, last.vote_count.unwrap().approved), (Some(decision), 2));
    let ended = tcp_server.test_app.ended(run).await;
    assert!(ended.result.unwrap().contains("risky did it"));
    tcp_server.stop().await;
}

#[tokio::test]
async fn whoever_sets_a_schedule_or_forks_a_run_has_started_it() {
    let tcp_server = tcp_server().await;
    let engine = &tcp_server.test_app.engine;
    let ada =
        tcp_server.token_named("ada", &[Scope::Write, Scope::Read], &["default"]).await.secret;
    let bob =
        tcp_server.token_named("bob", &[Scope::Write, Scope::Read], &["default"]).await.secret;
    let change = json!({"timing": {"cron": "0 0 1 1 *"}, "task": {"message": "go"}});
    let set =
        post(&tcp_server, "PUT /v1/namespaces/default/schedules/nightly", &ada, &change).await;
    assert_eq!(set.status, 200, "{set:?}");
    let namespace = provost_core::id::name::Namespace::default();
    let schedule = engine.schedules().get(&namespace, "nightly").await.unwrap();
    assert_eq!(schedule.schedule.command.requested_by.as_deref(), Some("ada"));
    assert!(!set.body.contains("requested_by"), "it is not part of what was sent");
    let line = "POST /v1/namespaces/default/tasks";
    let posing =
        post(&tcp_server, line, &ada, &json!({"message": "go", "requested_by": "bob"})).await;
    assert_eq!((posing.status, posing.code().as_str()), (400, "invalid"));
    let made = post(&tcp_server, line, &ada, &json!({"message": "go"})).await;
    let run = serde_json::from_value(made.json()["run"].clone()).unwrap();
    tcp_server.test_app.parked(run).await;
    let line = format!("POST /v1/namespaces/default/runs/{run}/fork");
    let edit = json!({"step": 1, "instead": "go again"});
    let forked = post(&tcp_server, &line, &bob, &edit).await;
    assert_eq!(forked.status, 201, "{forked:?}");
    let forked = serde_json::from_value(forked.json()["run"].clone()).unwrap();
    tcp_server.test_app.parked(forked).await;
    let list = ApprovalQuery { run: Some(forked), ..ApprovalQuery::default() };
    let asked = tcp_server.test_app.client.approvals(&list).await.unwrap().items.remove(0);
    assert_eq!(asked.vote_count.unwrap().excluded, ["bob"]);
    tcp_server.stop().await;
}
