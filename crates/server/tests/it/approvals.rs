//! Approvals over the API.

use provost_api::{ApprovalQuery, Decision, DecisionRequest, PageQuery, StandingApprovalKey};
use provost_core::lifecycle::{ApprovalKind, ApprovalState, GrantScope};
use provost_core::{ApprovalId, RunId};
use provost_model::{self as scripted, ChatRequest, ScriptedTurn};
use serde_json::json;

use crate::test_app::TestApp;

/// Calls a tool, then answers with its result.
fn calls(tool: &'static str) -> impl Fn(&ChatRequest, usize) -> ScriptedTurn + Send + Sync + Clone {
    move |request, _| {
        let told = request.messages.iter().rev().flat_map(|message| message.tool_results()).next();
        match told {
            Some(result) => scripted::text(format!("told: {}", result.to_text())),
            None if tool == "ask_user" => {
                let question = json!({"question": "Which one?", "options": ["a", "b"]});
                scripted::call(tool, json!({"questions": [question]}))
            }
            None => scripted::call(tool, json!({"amount": 1})),
        }
    }
}

async fn asked(test_app: &TestApp, run: RunId) -> ApprovalId {
    test_app.parked(run).await;
    let list = ApprovalQuery { run: Some(run), ..ApprovalQuery::default() };
    test_app.client.approvals(&list).await.unwrap().items[0].id
}

fn request_for(decision: Decision) -> DecisionRequest {
    DecisionRequest { decision, text: None, grant: None }
}

#[tokio::test]
async fn the_first_answer_counts_and_says_whose_it_is() {
    let test_app = TestApp::with_model(calls("risky")).await;
    let accepted = test_app.submit_text("chat", "go").await;
    let id = asked(&test_app, accepted.run).await;
    let question = test_app.client.approval(id).await.unwrap();
    assert_eq!((question.kind, question.state), (ApprovalKind::Tool, ApprovalState::Pending));
    assert_eq!(question.request.call.name, "risky");
    let answered =
        test_app.client.decide_approval(id, &request_for(Decision::Approve)).await.unwrap();
    assert!(answered.accepted);
    assert_eq!(answered.approval.decided_by.as_deref(), Some("local"));
    let late = test_app.client.decide_approval(id, &request_for(Decision::Deny)).await.unwrap();
    assert_eq!((late.accepted, late.approval.state), (false, ApprovalState::Approved));
    test_app.ended(accepted.run).await;
    let run = test_app.client.run(accepted.run).await.unwrap();
    assert_eq!(run.answer.as_deref(), Some("told: risky did it"));
    assert!(test_app.client.approvals(&ApprovalQuery::default()).await.unwrap().items.is_empty());
    for list in [
        ApprovalQuery { all: Some(true), ..ApprovalQuery::default() },
        ApprovalQuery { state: Some(ApprovalState::Approved), ..ApprovalQuery::default() },
        ApprovalQuery { all: Some(true), task: Some(accepted.task), ..ApprovalQuery::default() },
    ] {
        assert_eq!(test_app.client.approvals(&list).await.unwrap().items[0].id, id, "{list:?}");
    }
    let steps = test_app.client.run_steps(accepted.run, &PageQuery::default()).await.unwrap();
    let result = steps.items.iter().find_map(|step| step.result.as_ref()).unwrap();
    assert_eq!(result.to_text(), "risky did it");
}

#[tokio::test]
async fn a_no_is_told_to_the_agent() {
    let test_app = TestApp::with_model(calls("risky")).await;
    let accepted = test_app.submit_text("chat", "go").await;
    let id = asked(&test_app, accepted.run).await;
    let answered = test_app.client.deny(id, Some("too dear")).await.unwrap();
    assert_eq!(answered.approval.state, ApprovalState::Denied);
    test_app.ended(accepted.run).await;
    let run = test_app.client.run(accepted.run).await.unwrap();
    assert!(run.answer.unwrap().contains("too dear"));
}

#[tokio::test]
async fn a_question_in_words_takes_words() {
    let test_app = TestApp::with_model(calls("ask_user")).await;
    let accepted = test_app.submit_text("chat", "go").await;
    let id = asked(&test_app, accepted.run).await;
    assert_eq!(test_app.client.approval(id).await.unwrap().kind, ApprovalKind::Question);
    let yes =
        test_app.client.decide_approval(id, &request_for(Decision::Approve)).await.unwrap_err();
    assert_eq!(yes.code(), "invalid");
    let words =
        DecisionRequest { text: Some("b, please".to_owned()), ..request_for(Decision::Reply) };
    assert!(test_app.client.decide_approval(id, &words).await.unwrap().accepted);
    test_app.ended(accepted.run).await;
    let run = test_app.client.run(accepted.run).await.unwrap();
    assert!(run.answer.as_ref().unwrap().contains("b, please"), "{run:?}");
}

#[tokio::test]
async fn an_answer_that_makes_no_sense_is_refused() {
    let test_app = TestApp::with_model(calls("risky")).await;
    let accepted = test_app.submit_text("chat", "go").await;
    let id = asked(&test_app, accepted.run).await;
    let line = format!("POST approvals/{id}/answer");
    for (body, field) in [
        (json!({"decision": "perhaps"}), "decision"),
        (json!({"decision": "deny", "grant": "run"}), "grant"),
        (json!({"decision": "approve", "text": "yes"}), "text"),
        (json!({"decision": "answer"}), "text"),
        (json!({"decision": "approve", "grant": "forever"}), "grant"),
        (json!({"decision": "approve", "by": "me"}), "by"),
    ] {
        let refused = test_app.send_json(&line, &body).await;
        assert_eq!((refused.problem(), refused.field()), ((400, "invalid"), field), "{body}");
    }
    let words = test_app.send_json(&line, &json!({"decision": "answer", "text": "yes"})).await;
    assert_eq!(words.problem(), (400, "invalid"));
    let open = test_app.client.approval(id).await.unwrap();
    assert_eq!(open.state, ApprovalState::Pending);
    let both = test_app.request("GET approvals?all=true&state=pending").await;
    assert_eq!((both.problem(), both.field()), ((400, "invalid"), "all"));
}

#[tokio::test]
async fn a_yes_that_reaches_further_can_be_taken_back() {
    let test_app = TestApp::with_model(calls("risky")).await;
    let accepted = test_app.submit_text("chat", "go").await;
    let id = asked(&test_app, accepted.run).await;
    let yes = DecisionRequest { grant: Some(GrantScope::Always), ..request_for(Decision::Approve) };
    test_app.client.decide_approval(id, &yes).await.unwrap();
    test_app.ended(accepted.run).await;
    let other = test_app.submit_text("other", "go").await;
    test_app.ended(other.run).await;
    let page = test_app
        .client
        .standing_approvals(&PageQuery { limit: Some(1), cursor: None })
        .await
        .unwrap();
    let grant = &page.items[0];
    assert_eq!((grant.scope.as_str(), grant.granted_by.as_str()), ("agent:default", "local"));
    let next = PageQuery { limit: Some(1), cursor: page.next.clone() };
    assert!(test_app.client.standing_approvals(&next).await.unwrap().items.is_empty());
    let key = StandingApprovalKey { scope: grant.scope.clone(), call_key: grant.call_key.clone() };
    test_app.client.revoke_standing_approval(&key).await.unwrap();
    assert_eq!(
        test_app.client.revoke_standing_approval(&key).await.unwrap_err().code(),
        "not_found"
    );
    let asks = test_app.submit_text("third", "go").await;
    test_app.parked(asks.run).await;
    let missing = test_app.request("DELETE grants?scope=agent:default").await;
    assert_eq!(missing.problem(), (400, "invalid"));
    assert_eq!(missing.field(), "call_key");
}
