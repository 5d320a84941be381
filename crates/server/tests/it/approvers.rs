//! Several people decide over the API: each is who their token says.

use std::sync::Arc;

use futures::future::BoxFuture;
use provost_agent::Agent;
use provost_api::{Approval, ApprovalList, Scope};
use provost_core::lifecycle::ApprovalState;
use provost_core::policy::{CompiledPolicy, PolicySources, PolicySubject};
use provost_core::resource::ToolPermission;
use provost_model::{self as scripted, ChatRequest, ScriptedModel};
use provost_server::Limits;
use provost_tool::{Governor, GovernorError, Origin, Oversight};
use serde_json::{Value, json};

use crate::net::{Reply, Served};
use crate::stage::{Stage, risky};

/// Two of three people must approve `risky`, and not whoever started the run.
struct House;

impl Governor for House {
    fn governance<'a>(
        &'a self,
        origin: &'a Origin,
    ) -> BoxFuture<'a, Result<Arc<CompiledPolicy>, GovernorError>> {
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
        Box::pin(std::future::ready(governance.map_err(|error| GovernorError(error.to_string()))))
    }
}

fn model() -> ScriptedModel {
    ScriptedModel::answering(|request: &ChatRequest, _| {
        let told = request.messages.iter().rev().flat_map(|message| message.tool_results()).next();
        match told {
            Some(result) => scripted::text(format!("told: {}", result.to_text())),
            None => scripted::call("risky", json!({"amount": 1})),
        }
    })
}

async fn served() -> Served {
    let mut stage = Stage::of(|| {
        let oversight = Oversight { governor: Some(Arc::new(House)), ..Oversight::default() };
        Agent::builder("default", model()).tool(risky()).oversight(oversight)
    })
    .await;
    stage.worker = Some(stage.engine.start().await.unwrap());
    Served::on(stage, Limits::default()).await
}

async fn say(served: &Served, line: &str, token: &str, body: &Value) -> Reply {
    served.call(line, token, Some(body)).await
}

#[tokio::test]
async fn each_vote_is_that_of_the_token() {
    let served = served().await;
    let mut tokens = Vec::new();
    for name in ["ada", "bob", "eve", "joe"] {
        let scopes = [Scope::Write, Scope::Read, Scope::Approve];
        tokens.push(served.token_of(name, &scopes, &["default"]).await.secret);
    }
    let [ada, bob, eve, joe] = tokens.as_slice() else { panic!("four tokens") };
    let task = json!({"message": "go", "session": "chat", "spawned_by": "joe"});
    let made = say(&served, "POST /v1/namespaces/default/tasks", ada, &task).await;
    assert_eq!(made.status, 201, "{made:?}");
    let run = serde_json::from_value(made.json()["run"].clone()).unwrap();
    served.stage.parked(run).await;
    let list = ApprovalList { run: Some(run), ..ApprovalList::default() };
    let open = served.stage.client.approvals(&list).await.unwrap().items.remove(0);
    let tally = open.tally.unwrap();
    assert_eq!((tally.needed, tally.have, tally.not.as_slice()), (2, 0, &["ada".to_owned()][..]));
    assert_eq!(
        (tally.of.len(), tally.awaited.as_slice()),
        (3, &["bob".to_owned(), "eve".to_owned()][..])
    );
    let line = format!("POST /v1/namespaces/default/approvals/{}/answer", open.id);
    let yes = json!({"decision": "approve"});
    for (token, code) in [(ada, "own_approval"), (joe, "not_an_approver")] {
        let refused = say(&served, &line, token, &yes).await;
        assert_eq!((refused.status, refused.code().as_str()), (403, code));
    }
    // Nobody speaks for somebody else.
    for field in ["by", "principal", "decided_by"] {
        let posing = say(&served, &line, joe, &json!({"decision": "approve", field: "eve"})).await;
        assert_eq!((posing.status, posing.code().as_str()), (400, "invalid"), "{field}");
    }
    for _ in 0..2 {
        let first = say(&served, &line, bob, &yes).await.json();
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
    let other = say(&served, &line, bob, &json!({"decision": "deny"})).await;
    assert_eq!((other.status, other.code().as_str()), (409, "vote_conflict"));
    let last = say(&served, &line, eve, &yes).await.json();
    let last: Approval = serde_json::from_value(last["approval"].clone()).unwrap();
    assert_eq!((last.state, last.decided_by.as_deref()), (ApprovalState::Approved, Some("eve")));
    let decision = json!({"answer": "approved_by", "by": ["bob", "eve"]});
    assert_eq!((last.decision, last.tally.unwrap().have), (Some(decision), 2));
    let ended = served.stage.ended(run).await;
    assert!(ended.result.unwrap().contains("risky did it"));
    served.stop().await;
}

#[tokio::test]
async fn whoever_sets_a_schedule_or_forks_a_run_has_started_it() {
    let served = served().await;
    let engine = &served.stage.engine;
    let ada = served.token_of("ada", &[Scope::Write, Scope::Read], &["default"]).await.secret;
    let bob = served.token_of("bob", &[Scope::Write, Scope::Read], &["default"]).await.secret;
    let change = json!({"timing": {"cron": "0 0 1 1 *"}, "task": {"message": "go"}});
    let set = say(&served, "PUT /v1/namespaces/default/schedules/nightly", &ada, &change).await;
    assert_eq!(set.status, 200, "{set:?}");
    let namespace = provost_core::id::name::Namespace::default();
    let schedule = engine.schedules().get(&namespace, "nightly").await.unwrap();
    assert_eq!(schedule.schedule.command.requested_by.as_deref(), Some("ada"));
    assert!(!set.body.contains("requested_by"), "it is not part of what was sent");
    let line = "POST /v1/namespaces/default/tasks";
    let posing = say(&served, line, &ada, &json!({"message": "go", "requested_by": "bob"})).await;
    assert_eq!((posing.status, posing.code().as_str()), (400, "invalid"));
    let made = say(&served, line, &ada, &json!({"message": "go"})).await;
    let run = serde_json::from_value(made.json()["run"].clone()).unwrap();
    served.stage.parked(run).await;
    let line = format!("POST /v1/namespaces/default/runs/{run}/fork");
    let edit = json!({"step": 1, "instead": "go again"});
    let forked = say(&served, &line, &bob, &edit).await;
    assert_eq!(forked.status, 201, "{forked:?}");
    let forked = serde_json::from_value(forked.json()["run"].clone()).unwrap();
    served.stage.parked(forked).await;
    let list = ApprovalList { run: Some(forked), ..ApprovalList::default() };
    let asked = served.stage.client.approvals(&list).await.unwrap().items.remove(0);
    assert_eq!(asked.tally.unwrap().not, ["bob"]);
    served.stop().await;
}
