//! Questions to people over the API.

use provost_api::{Answer, ApprovalList, Decision, GrantKey, Paging};
use provost_core::lifecycle::{ApprovalKind, ApprovalState, GrantScope};
use provost_core::{ApprovalId, RunId};
use provost_model::{self as scripted, ChatRequest, Turn};
use serde_json::json;

use crate::stage::Stage;

/// Calls a tool, then says what it was told.
fn calls(tool: &'static str) -> impl Fn(&ChatRequest, usize) -> Turn + Send + Sync + Clone {
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

async fn asked(stage: &Stage, run: RunId) -> ApprovalId {
    stage.parked(run).await;
    let list = ApprovalList { run: Some(run), ..ApprovalList::default() };
    stage.client.approvals(&list).await.unwrap().items[0].id
}

fn say(decision: Decision) -> Answer {
    Answer { decision, text: None, grant: None }
}

#[tokio::test]
async fn the_first_answer_counts_and_says_whose_it_is() {
    let stage = Stage::answering(calls("risky")).await;
    let accepted = stage.say("chat", "go").await;
    let id = asked(&stage, accepted.run).await;
    let question = stage.client.approval(id).await.unwrap();
    assert_eq!((question.kind, question.state), (ApprovalKind::Tool, ApprovalState::Pending));
    assert_eq!(question.request.call.name, "risky");
    let answered = stage.client.answer(id, &say(Decision::Approve)).await.unwrap();
    assert!(answered.counts);
    assert_eq!(answered.approval.decided_by.as_deref(), Some("local"));
    let late = stage.client.answer(id, &say(Decision::Deny)).await.unwrap();
    assert_eq!((late.counts, late.approval.state), (false, ApprovalState::Approved));
    stage.ended(accepted.run).await;
    let run = stage.client.run(accepted.run).await.unwrap();
    assert_eq!(run.answer.as_deref(), Some("told: risky did it"));
    assert!(stage.client.approvals(&ApprovalList::default()).await.unwrap().items.is_empty());
    for list in [
        ApprovalList { all: Some(true), ..ApprovalList::default() },
        ApprovalList { state: Some(ApprovalState::Approved), ..ApprovalList::default() },
        ApprovalList { all: Some(true), task: Some(accepted.task), ..ApprovalList::default() },
    ] {
        assert_eq!(stage.client.approvals(&list).await.unwrap().items[0].id, id, "{list:?}");
    }
    let steps = stage.client.steps(accepted.run, &Paging::default()).await.unwrap();
    let result = steps.items.iter().find_map(|step| step.result.as_ref()).unwrap();
    assert_eq!(result.to_text(), "risky did it");
}

#[tokio::test]
async fn a_no_is_told_to_the_agent() {
    let stage = Stage::answering(calls("risky")).await;
    let accepted = stage.say("chat", "go").await;
    let id = asked(&stage, accepted.run).await;
    let answered = stage.client.deny(id, Some("too dear")).await.unwrap();
    assert_eq!(answered.approval.state, ApprovalState::Denied);
    stage.ended(accepted.run).await;
    let run = stage.client.run(accepted.run).await.unwrap();
    assert!(run.answer.unwrap().contains("too dear"));
}

#[tokio::test]
async fn a_question_in_words_takes_words() {
    let stage = Stage::answering(calls("ask_user")).await;
    let accepted = stage.say("chat", "go").await;
    let id = asked(&stage, accepted.run).await;
    assert_eq!(stage.client.approval(id).await.unwrap().kind, ApprovalKind::Question);
    let yes = stage.client.answer(id, &say(Decision::Approve)).await.unwrap_err();
    assert_eq!(yes.code(), "invalid");
    let words = Answer { text: Some("b, please".to_owned()), ..say(Decision::Answer) };
    assert!(stage.client.answer(id, &words).await.unwrap().counts);
    stage.ended(accepted.run).await;
    let run = stage.client.run(accepted.run).await.unwrap();
    assert!(run.answer.as_ref().unwrap().contains("b, please"), "{run:?}");
}

#[tokio::test]
async fn an_answer_that_makes_no_sense_is_refused() {
    let stage = Stage::answering(calls("risky")).await;
    let accepted = stage.say("chat", "go").await;
    let id = asked(&stage, accepted.run).await;
    let line = format!("POST approvals/{id}/answer");
    for (body, field) in [
        (json!({"decision": "perhaps"}), "decision"),
        (json!({"decision": "deny", "grant": "run"}), "grant"),
        (json!({"decision": "approve", "text": "yes"}), "text"),
        (json!({"decision": "answer"}), "text"),
        (json!({"decision": "approve", "grant": "forever"}), "grant"),
        (json!({"decision": "approve", "by": "me"}), "by"),
    ] {
        let refused = stage.tell(&line, &body).await;
        assert_eq!((refused.problem(), refused.field()), ((400, "invalid"), field), "{body}");
    }
    let words = stage.tell(&line, &json!({"decision": "answer", "text": "yes"})).await;
    assert_eq!(words.problem(), (400, "invalid"));
    let open = stage.client.approval(id).await.unwrap();
    assert_eq!(open.state, ApprovalState::Pending);
    let both = stage.ask("GET approvals?all=true&state=pending").await;
    assert_eq!((both.problem(), both.field()), ((400, "invalid"), "all"));
}

#[tokio::test]
async fn a_yes_that_reaches_further_can_be_taken_back() {
    let stage = Stage::answering(calls("risky")).await;
    let accepted = stage.say("chat", "go").await;
    let id = asked(&stage, accepted.run).await;
    let yes = Answer { grant: Some(GrantScope::Always), ..say(Decision::Approve) };
    stage.client.answer(id, &yes).await.unwrap();
    stage.ended(accepted.run).await;
    let other = stage.say("other", "go").await;
    stage.ended(other.run).await;
    let page = stage.client.grants(&Paging { limit: Some(1), cursor: None }).await.unwrap();
    let grant = &page.items[0];
    assert_eq!((grant.scope.as_str(), grant.granted_by.as_str()), ("agent:default", "local"));
    let next = Paging { limit: Some(1), cursor: page.next.clone() };
    assert!(stage.client.grants(&next).await.unwrap().items.is_empty());
    let key = GrantKey { scope: grant.scope.clone(), call_key: grant.call_key.clone() };
    stage.client.revoke_grant(&key).await.unwrap();
    assert_eq!(stage.client.revoke_grant(&key).await.unwrap_err().code(), "not_found");
    let asks = stage.say("third", "go").await;
    stage.parked(asks.run).await;
    let missing = stage.ask("DELETE grants?scope=agent:default").await;
    assert_eq!(missing.problem(), (400, "invalid"));
    assert_eq!(missing.field(), "call_key");
}
