//! Runs over the API.

use provost_api::{
    CancelOutcome, ForkRequest, MessageInput, NewInput, NewTask, PageQuery, RunQuery,
};
use provost_core::lifecycle::{AttemptStatus, InteractionState, RunPhase, RunStatus, StepKind};
use provost_model::{self as scripted, ChatRequest, ModelErrorClass, ScriptedTurn};
use provost_store::query;
use serde_json::json;

use crate::test_app::TestApp;

fn echo(request: &ChatRequest, _: usize) -> ScriptedTurn {
    let said = request.messages.iter().rev().find(|m| m.role == provost_core::Role::User).unwrap();
    scripted::text(format!("you said {}", said.text()))
}

#[tokio::test]
async fn a_run_tells_what_it_did() {
    let test_app = TestApp::with_model(echo).await;
    let accepted = test_app.submit_text("chat", "hi").await;
    test_app.ended(accepted.run).await;
    let run = test_app.client.run(accepted.run).await.unwrap();
    assert_eq!((run.status, run.phase, run.attempt), (RunStatus::Ok, RunPhase::Done, 1));
    assert_eq!(run.answer.as_deref(), Some("you said hi"));
    assert!(run.usage.is_some() && run.started.is_some() && run.ended.is_some());
    let first = PageQuery { limit: Some(1), cursor: None };
    let mut steps = test_app.client.run_steps(accepted.run, &first).await.unwrap();
    let mut all = steps.items;
    while let Some(cursor) = steps.next {
        let next = PageQuery { limit: Some(1), cursor: Some(cursor) };
        steps = test_app.client.run_steps(accepted.run, &next).await.unwrap();
        all.extend(steps.items);
    }
    assert_eq!(all.len() as u64, run.steps);
    assert!(all.windows(2).all(|pair| pair[0].number < pair[1].number));
    let call = all.iter().find(|step| step.kind == StepKind::ModelCall).unwrap();
    assert_eq!(call.message.as_ref().unwrap().text(), "you said hi");
    let attempts = test_app.client.run_attempts(accepted.run, &PageQuery::default()).await.unwrap();
    assert_eq!(attempts.items[0].status, AttemptStatus::Ok);
    let snapshots =
        test_app.client.run_transitions(accepted.run, &PageQuery::default()).await.unwrap();
    let kinds: Vec<_> = snapshots.items.iter().map(|change| change.kind.as_str()).collect();
    assert_eq!(kinds, ["accepted", "attempt_started", "finished"]);
    let statuses: Vec<_> = snapshots.items.iter().map(|change| change.status).collect();
    assert_eq!(statuses, [RunStatus::Accepted, RunStatus::Running, RunStatus::Ok]);
    let next = PageQuery { limit: Some(2), cursor: None };
    let part = test_app.client.run_transitions(accepted.run, &next).await.unwrap();
    let next = PageQuery { cursor: part.next, ..next };
    assert_eq!(
        test_app.client.run_transitions(accepted.run, &next).await.unwrap().items[0].kind,
        "finished"
    );
    let replay = test_app.client.replay_run(accepted.run).await.unwrap();
    assert!(replay.consistent, "{replay:?}");
    assert_eq!(replay.answer, "you said hi");
    let deliveries =
        test_app.client.run_deliveries(accepted.run, &PageQuery::default()).await.unwrap();
    assert!(deliveries.items.is_empty());
}

#[tokio::test]
async fn runs_are_listed_by_what_is_asked() {
    let test_app = TestApp::idle(Vec::new()).await;
    let (one, two) =
        (test_app.submit_text("one", "hi").await, test_app.submit_text("two", "hi").await);
    test_app.client.cancel_run(two.run).await.unwrap();
    let all = test_app.client.runs(&RunQuery::default()).await.unwrap();
    assert_eq!(all.items.iter().map(|run| run.id).collect::<Vec<_>>(), [two.run, one.run]);
    for list in [
        RunQuery { session: Some("one".to_owned()), ..RunQuery::default() },
        RunQuery { task: Some(one.task), ..RunQuery::default() },
        RunQuery { status: Some(RunStatus::Accepted), ..RunQuery::default() },
        RunQuery {
            phase: Some(RunPhase::Queued),
            agent: Some("default".to_owned()),
            ..RunQuery::default()
        },
    ] {
        let found = test_app.client.runs(&list).await.unwrap();
        assert_eq!(found.items.iter().map(|run| run.id).collect::<Vec<_>>(), [one.run], "{list:?}");
    }
    let children = RunQuery { parent: Some(one.run), ..RunQuery::default() };
    assert!(test_app.client.runs(&children).await.unwrap().items.is_empty());
    let page = RunQuery { limit: Some(1), ..RunQuery::default() };
    let first = test_app.client.runs(&page).await.unwrap();
    let second = RunQuery { cursor: first.next, ..page };
    assert_eq!(test_app.client.runs(&second).await.unwrap().items[0].id, one.run);
}

#[tokio::test]
async fn a_run_is_cancelled_once_and_not_resumed() {
    let test_app = TestApp::idle(Vec::new()).await;
    let accepted = test_app.submit_text("chat", "hi").await;
    let early = test_app.request(&format!("POST runs/{}/resume", accepted.run)).await;
    assert_eq!(early.problem(), (409, "illegal_transition"));
    let cancelled = test_app.client.cancel_run(accepted.run).await.unwrap();
    assert_eq!(cancelled.outcome, CancelOutcome::Now);
    let again = test_app.client.cancel_run(accepted.run).await.unwrap();
    assert_eq!(again.outcome, CancelOutcome::AlreadyTerminal);
    let late = test_app.request(&format!("POST runs/{}/resume", accepted.run)).await;
    assert_eq!(late.problem(), (409, "already_terminal"));
}

#[tokio::test]
async fn an_operator_lets_a_run_go_on() {
    let turns = vec![scripted::fail(ModelErrorClass::Overloaded, "busy"), scripted::text("well")];
    let test_app = TestApp::with_turns(turns).await;
    let retry = json!({"retry": {"max_attempts": 1, "delay_ms": 0, "pause_at_end": true}});
    let policy = Some(serde_json::from_value(retry).unwrap());
    let accepted =
        test_app.client.submit(&NewTask { policy, ..NewTask::text("hi") }).await.unwrap();
    test_app.parked(accepted.run).await;
    let run = test_app.client.run(accepted.run).await.unwrap();
    assert_eq!(run.parked_for.as_deref(), Some("operator"));
    let resumed = test_app.client.resume_run(accepted.run).await.unwrap();
    assert_eq!(resumed.id, accepted.run);
    assert_eq!(test_app.ended(accepted.run).await.status, RunStatus::Ok);
    let events =
        query::run::events(test_app.engine.store(), &Default::default(), accepted.run, 0, 100)
            .await
            .unwrap();
    let resumed = events.iter().find(|event| event.kind == "resumed").unwrap();
    assert!(resumed.body.as_ref().unwrap().contains("local"), "{resumed:?}");
}

#[tokio::test]
async fn a_message_is_taken_back_before_it_is_read() {
    let test_app = TestApp::idle(Vec::new()).await;
    let accepted = test_app.submit_text("chat", "hi").await;
    let other = test_app.submit_text("other", "hi").await;
    let said = NewInput { message: MessageInput::from("more"), ..NewInput::default() };
    let receipt = test_app.client.send_input_to_run(accepted.run, &said).await.unwrap();
    let waiting = test_app.client.run_inputs(receipt.run, &PageQuery::default()).await.unwrap();
    assert!(waiting.items.iter().any(|input| input.id == receipt.input));
    let interaction = test_app.client.run_interaction(accepted.run).await.unwrap();
    assert_eq!(interaction.state, InteractionState::Working);
    let elsewhere = format!("DELETE runs/{}/inputs/{}", other.run, receipt.input);
    assert_eq!(test_app.request(&elsewhere).await.problem(), (404, "not_found"));
    let line = format!("DELETE runs/{}/inputs/{}", receipt.run, receipt.input);
    let done = test_app.request(&line).await;
    assert_eq!((done.status, &done.body), (204, &json!(null)));
    assert_eq!(test_app.request(&line).await.status, 204, "twice is as good as once");
    let waiting = test_app.client.run_inputs(receipt.run, &PageQuery::default()).await.unwrap();
    assert!(!waiting.items.iter().any(|input| input.id == receipt.input));
}

#[tokio::test]
async fn what_was_read_is_not_taken_back() {
    let test_app = TestApp::with_model(echo).await;
    let accepted = test_app.submit_text("chat", "hi").await;
    test_app.ended(accepted.run).await;
    let line = format!("DELETE runs/{}/inputs/{}", accepted.run, accepted.input);
    assert_eq!(test_app.request(&line).await.problem(), (409, "already_terminal"));
    let closed = test_app.client.run_interaction(accepted.run).await.unwrap();
    assert_eq!(closed.state, InteractionState::Closed);
    let said = NewInput { message: MessageInput::from("go on"), ..NewInput::default() };
    let receipt = test_app.client.send_input_to_run(accepted.run, &said).await.unwrap();
    assert_ne!(receipt.run, accepted.run, "a new run of the task answers");
    test_app.ended(receipt.run).await;
}

#[tokio::test]
async fn a_fork_leaves_at_a_step_or_at_the_newest_one() {
    let test_app = TestApp::with_model(echo).await;
    let accepted = test_app.submit_text("chat", "hi").await;
    test_app.ended(accepted.run).await;
    let instead = ForkRequest {
        replace_last_message: Some(MessageInput::from("ho")),
        ..ForkRequest::default()
    };
    let forked = test_app.client.fork_run(accepted.run, &instead).await.unwrap();
    test_app.ended(forked.run).await;
    let run = test_app.client.run(forked.run).await.unwrap();
    assert_eq!((run.answer.as_deref(), run.task), (Some("you said ho"), forked.task));
    let say = ForkRequest { message: Some(MessageInput::from("and?")), ..ForkRequest::default() };
    let said = test_app.client.fork_run(accepted.run, &say).await.unwrap();
    test_app.ended(said.run).await;
    let run = test_app.client.run(said.run).await.unwrap();
    assert_eq!(
        (run.answer.as_deref(), run.forked_from),
        (Some("you said and?"), Some(accepted.run))
    );
    let line = format!("POST runs/{}/fork", accepted.run);
    let key = [("idempotency-key", "f")];
    let first = test_app.send_json_with_headers(&line, &json!({"say": "x"}), &key).await;
    let again = test_app.send_json_with_headers(&line, &json!({"say": "x"}), &key).await;
    assert_eq!((first.status, again.status), (201, 200));
    assert_eq!((&again.body["run"], &again.body["deduped"]), (&first.body["run"], &json!(true)));
    let other = test_app.send_json_with_headers(&line, &json!({"say": "y"}), &key).await;
    assert_eq!(other.problem(), (409, "idempotency_mismatch"));
    let both = test_app.send_json(&line, &json!({"say": "x", "instead": "y"})).await;
    assert_eq!((both.problem(), both.field()), ((400, "invalid"), "instead"));
    let nowhere = test_app.send_json(&line, &json!({"step": 10_000})).await;
    assert_eq!((nowhere.problem(), nowhere.field()), ((400, "invalid"), "step"));
}

#[tokio::test]
async fn a_run_without_a_step_cannot_be_forked() {
    let test_app = TestApp::idle(Vec::new()).await;
    let accepted = test_app.submit_text("chat", "hi").await;
    let refused = test_app.send_json(&format!("POST runs/{}/fork", accepted.run), &json!({})).await;
    assert_eq!((refused.problem(), refused.field()), ((400, "invalid"), "step"));
}
