//! Runs over the API.

use provost_api::{CancelOutcome, Fork, NewInput, NewTask, Paging, RunList, Said};
use provost_core::lifecycle::{AttemptStatus, InteractionState, RunPhase, RunStatus, StepKind};
use provost_model::{self as scripted, ChatRequest, ModelErrorClass, Turn};
use provost_store::query;
use serde_json::json;

use crate::stage::Stage;

fn echo(request: &ChatRequest, _: usize) -> Turn {
    let said = request.messages.iter().rev().find(|m| m.role == provost_core::Role::User).unwrap();
    scripted::text(format!("you said {}", said.text()))
}

#[tokio::test]
async fn a_run_tells_what_it_did() {
    let stage = Stage::answering(echo).await;
    let accepted = stage.say("chat", "hi").await;
    stage.ended(accepted.run).await;
    let run = stage.client.run(accepted.run).await.unwrap();
    assert_eq!((run.status, run.phase, run.attempt), (RunStatus::Ok, RunPhase::Done, 1));
    assert_eq!(run.answer.as_deref(), Some("you said hi"));
    assert!(run.usage.is_some() && run.started.is_some() && run.ended.is_some());
    let first = Paging { limit: Some(1), cursor: None };
    let mut steps = stage.client.steps(accepted.run, &first).await.unwrap();
    let mut all = steps.items;
    while let Some(cursor) = steps.next {
        let next = Paging { limit: Some(1), cursor: Some(cursor) };
        steps = stage.client.steps(accepted.run, &next).await.unwrap();
        all.extend(steps.items);
    }
    assert_eq!(all.len() as u64, run.steps);
    assert!(all.windows(2).all(|pair| pair[0].number < pair[1].number));
    let call = all.iter().find(|step| step.kind == StepKind::ModelCall).unwrap();
    assert_eq!(call.message.as_ref().unwrap().text(), "you said hi");
    let attempts = stage.client.attempts(accepted.run, &Paging::default()).await.unwrap();
    assert_eq!(attempts.items[0].status, AttemptStatus::Ok);
    let snapshots = stage.client.snapshots(accepted.run, &Paging::default()).await.unwrap();
    let kinds: Vec<_> = snapshots.items.iter().map(|change| change.kind.as_str()).collect();
    assert_eq!(kinds, ["accepted", "attempt_started", "finished"]);
    let statuses: Vec<_> = snapshots.items.iter().map(|change| change.status).collect();
    assert_eq!(statuses, [RunStatus::Accepted, RunStatus::Running, RunStatus::Ok]);
    let next = Paging { limit: Some(2), cursor: None };
    let part = stage.client.snapshots(accepted.run, &next).await.unwrap();
    let next = Paging { cursor: part.next, ..next };
    assert_eq!(
        stage.client.snapshots(accepted.run, &next).await.unwrap().items[0].kind,
        "finished"
    );
    let replay = stage.client.replay(accepted.run).await.unwrap();
    assert!(replay.consistent, "{replay:?}");
    assert_eq!(replay.answer, "you said hi");
    let deliveries = stage.client.run_deliveries(accepted.run, &Paging::default()).await.unwrap();
    assert!(deliveries.items.is_empty());
}

#[tokio::test]
async fn runs_are_listed_by_what_is_asked() {
    let stage = Stage::idle(Vec::new()).await;
    let (one, two) = (stage.say("one", "hi").await, stage.say("two", "hi").await);
    stage.client.cancel_run(two.run).await.unwrap();
    let all = stage.client.runs(&RunList::default()).await.unwrap();
    assert_eq!(all.items.iter().map(|run| run.id).collect::<Vec<_>>(), [two.run, one.run]);
    for list in [
        RunList { session: Some("one".to_owned()), ..RunList::default() },
        RunList { task: Some(one.task), ..RunList::default() },
        RunList { status: Some(RunStatus::Accepted), ..RunList::default() },
        RunList {
            phase: Some(RunPhase::Queued),
            agent: Some("default".to_owned()),
            ..RunList::default()
        },
    ] {
        let found = stage.client.runs(&list).await.unwrap();
        assert_eq!(found.items.iter().map(|run| run.id).collect::<Vec<_>>(), [one.run], "{list:?}");
    }
    let children = RunList { parent: Some(one.run), ..RunList::default() };
    assert!(stage.client.runs(&children).await.unwrap().items.is_empty());
    let page = RunList { limit: Some(1), ..RunList::default() };
    let first = stage.client.runs(&page).await.unwrap();
    let second = RunList { cursor: first.next, ..page };
    assert_eq!(stage.client.runs(&second).await.unwrap().items[0].id, one.run);
}

#[tokio::test]
async fn a_run_is_cancelled_once_and_not_resumed() {
    let stage = Stage::idle(Vec::new()).await;
    let accepted = stage.say("chat", "hi").await;
    let early = stage.ask(&format!("POST runs/{}/resume", accepted.run)).await;
    assert_eq!(early.problem(), (409, "illegal_transition"));
    let cancelled = stage.client.cancel_run(accepted.run).await.unwrap();
    assert_eq!(cancelled.outcome, CancelOutcome::Now);
    let again = stage.client.cancel_run(accepted.run).await.unwrap();
    assert_eq!(again.outcome, CancelOutcome::AlreadyTerminal);
    let late = stage.ask(&format!("POST runs/{}/resume", accepted.run)).await;
    assert_eq!(late.problem(), (409, "already_terminal"));
}

#[tokio::test]
async fn an_operator_lets_a_run_go_on() {
    let turns = vec![scripted::fail(ModelErrorClass::Overloaded, "busy"), scripted::text("well")];
    let stage = Stage::saying(turns).await;
    let retry = json!({"retry": {"max_attempts": 1, "delay_ms": 0, "pause_at_end": true}});
    let policy = Some(serde_json::from_value(retry).unwrap());
    let accepted = stage.client.submit(&NewTask { policy, ..NewTask::text("hi") }).await.unwrap();
    stage.parked(accepted.run).await;
    let run = stage.client.run(accepted.run).await.unwrap();
    assert_eq!(run.parked_for.as_deref(), Some("operator"));
    let resumed = stage.client.resume_run(accepted.run).await.unwrap();
    assert_eq!(resumed.id, accepted.run);
    assert_eq!(stage.ended(accepted.run).await.status, "ok");
    let events =
        query::run::events(stage.engine.store(), &Default::default(), accepted.run, 0, 100)
            .await
            .unwrap();
    let resumed = events.iter().find(|event| event.kind == "resumed").unwrap();
    assert!(resumed.body.as_ref().unwrap().contains("local"), "{resumed:?}");
}

#[tokio::test]
async fn a_message_is_taken_back_before_it_is_read() {
    let stage = Stage::idle(Vec::new()).await;
    let accepted = stage.say("chat", "hi").await;
    let other = stage.say("other", "hi").await;
    let said = NewInput { message: Said::from("more"), ..NewInput::default() };
    let receipt = stage.client.tell_run(accepted.run, &said).await.unwrap();
    let waiting = stage.client.run_inputs(receipt.run, &Paging::default()).await.unwrap();
    assert!(waiting.items.iter().any(|input| input.id == receipt.input));
    let interaction = stage.client.interaction(accepted.run).await.unwrap();
    assert_eq!(interaction.state, InteractionState::Working);
    let elsewhere = format!("DELETE runs/{}/inputs/{}", other.run, receipt.input);
    assert_eq!(stage.ask(&elsewhere).await.problem(), (404, "not_found"));
    let line = format!("DELETE runs/{}/inputs/{}", receipt.run, receipt.input);
    let done = stage.ask(&line).await;
    assert_eq!((done.status, &done.body), (204, &json!(null)));
    assert_eq!(stage.ask(&line).await.status, 204, "twice is as good as once");
    let waiting = stage.client.run_inputs(receipt.run, &Paging::default()).await.unwrap();
    assert!(!waiting.items.iter().any(|input| input.id == receipt.input));
}

#[tokio::test]
async fn what_was_read_is_not_taken_back() {
    let stage = Stage::answering(echo).await;
    let accepted = stage.say("chat", "hi").await;
    stage.ended(accepted.run).await;
    let line = format!("DELETE runs/{}/inputs/{}", accepted.run, accepted.input);
    assert_eq!(stage.ask(&line).await.problem(), (409, "already_terminal"));
    let closed = stage.client.interaction(accepted.run).await.unwrap();
    assert_eq!(closed.state, InteractionState::Closed);
    let said = NewInput { message: Said::from("go on"), ..NewInput::default() };
    let receipt = stage.client.tell_run(accepted.run, &said).await.unwrap();
    assert_ne!(receipt.run, accepted.run, "a new run of the task answers");
    stage.ended(receipt.run).await;
}

#[tokio::test]
async fn a_fork_leaves_at_a_step_or_at_the_newest_one() {
    let stage = Stage::answering(echo).await;
    let accepted = stage.say("chat", "hi").await;
    stage.ended(accepted.run).await;
    let instead = Fork { instead: Some(Said::from("ho")), ..Fork::default() };
    let forked = stage.client.fork(accepted.run, &instead).await.unwrap();
    stage.ended(forked.run).await;
    let run = stage.client.run(forked.run).await.unwrap();
    assert_eq!((run.answer.as_deref(), run.task), (Some("you said ho"), forked.task));
    let say = Fork { say: Some(Said::from("and?")), ..Fork::default() };
    let said = stage.client.fork(accepted.run, &say).await.unwrap();
    stage.ended(said.run).await;
    let run = stage.client.run(said.run).await.unwrap();
    assert_eq!(
        (run.answer.as_deref(), run.forked_from),
        (Some("you said and?"), Some(accepted.run))
    );
    let line = format!("POST runs/{}/fork", accepted.run);
    let key = [("idempotency-key", "f")];
    let first = stage.tell_with(&line, &json!({"say": "x"}), &key).await;
    let again = stage.tell_with(&line, &json!({"say": "x"}), &key).await;
    assert_eq!((first.status, again.status), (201, 200));
    assert_eq!((&again.body["run"], &again.body["deduped"]), (&first.body["run"], &json!(true)));
    let other = stage.tell_with(&line, &json!({"say": "y"}), &key).await;
    assert_eq!(other.problem(), (409, "idempotency_mismatch"));
    let both = stage.tell(&line, &json!({"say": "x", "instead": "y"})).await;
    assert_eq!((both.problem(), both.field()), ((400, "invalid"), "instead"));
    let nowhere = stage.tell(&line, &json!({"step": 10_000})).await;
    assert_eq!((nowhere.problem(), nowhere.field()), ((400, "invalid"), "step"));
}

#[tokio::test]
async fn a_run_without_a_step_cannot_be_forked() {
    let stage = Stage::idle(Vec::new()).await;
    let accepted = stage.say("chat", "hi").await;
    let refused = stage.tell(&format!("POST runs/{}/fork", accepted.run), &json!({})).await;
    assert_eq!((refused.problem(), refused.field()), ((400, "invalid"), "step"));
}
