//! Tasks over the API.

use provost_api::{CancelOutcome, MessageInput, NewInput, NewTask, PageQuery, TaskQuery};
use provost_core::id::name::Namespace;
use provost_core::lifecycle::{InputOutcome, RunStatus, TaskState};
use provost_core::scheduling::InputMode;
use provost_model as scripted;
use serde_json::json;

use crate::test_app::TestApp;

#[tokio::test]
async fn a_task_is_taken_in_once_and_answered() {
    let test_app = TestApp::with_turns(vec![scripted::text("hello")]).await;
    let task = NewTask { idempotency_key: Some("k".to_owned()), ..NewTask::text("hi") };
    let accepted = test_app.client.submit(&task).await.unwrap();
    let again = test_app.client.submit(&task).await.unwrap();
    assert_eq!((again.task, again.deduped, accepted.deduped), (accepted.task, true, false));
    let other = NewTask { idempotency_key: Some("k".to_owned()), ..NewTask::text("ho") };
    let refused = test_app.client.submit(&other).await.unwrap_err();
    assert_eq!(refused.code(), "idempotency_mismatch");
    let row = test_app.engine.runs().wait(&Namespace::default(), accepted.run).await.unwrap();
    assert_eq!(row.status, RunStatus::Ok);
    let task = test_app.client.task(accepted.task).await.unwrap();
    assert_eq!((task.message.as_str(), task.run), ("hi", Some(accepted.run)));
}

#[tokio::test]
async fn the_key_in_the_header_is_the_key_in_the_body() {
    let test_app = TestApp::idle(Vec::new()).await;
    let header = [("idempotency-key", "k")];
    let first =
        test_app.send_json_with_headers("POST tasks", &json!({"message": "hi"}), &header).await;
    assert_eq!(first.status, 201, "{first:?}");
    let keyed = json!({"message": "hi", "idempotency_key": "k"});
    let again = test_app.send_json("POST tasks", &keyed).await;
    assert_eq!((again.status, &again.body["task"]), (200, &first.body["task"]));
    let both = test_app.send_json_with_headers("POST tasks", &keyed, &header).await;
    assert_eq!(both.status, 200);
    let other = test_app
        .send_json_with_headers("POST tasks", &keyed, &[("idempotency-key", "other")])
        .await;
    assert_eq!((other.problem(), other.field()), ((400, "invalid"), "idempotency_key"));
    let mismatch =
        test_app.send_json_with_headers("POST tasks", &json!({"message": "ho"}), &header).await;
    assert_eq!(mismatch.problem(), (409, "idempotency_mismatch"));
}

#[tokio::test]
async fn everything_a_command_can_say_arrives() {
    let test_app = TestApp::idle(Vec::new()).await;
    let run: provost_core::RunId = provost_core::Env::system().id();
    let body = json!({
        "message": [{"type": "text", "text": "look"}], "agent": "default", "hook_id": "h",
        "session": "chat", "timeout_ms": 5000, "policy": {"interactive": false}, "lane": "slow",
        "extra_system_prompt": "be brief", "input_provenance": {"kind": "external_user"},
        "routing": {"channel": "mail", "to": "me"}, "deliver": true, "best_effort_deliver": true,
        "attachments": [{"type": "text", "text": "more"}], "idempotency_key": "k", "run": run,
        "label": "a label", "spawned_by": "me", "queue_mode": "queue", "priority": 3,
        "budget": {"amount": "1.5", "currency": "USD"}, "deadline": "2099-01-01T00:00:00Z",
        "new_task": true, "delay_ms": 10, "queue_timeout_ms": 60000,
    });
    let accepted = test_app.send_json("POST tasks", &body).await.success();
    assert_eq!((&accepted["run"], &accepted["session"]), (&json!(run), &json!("chat")));
    let task = test_app
        .request(&format!("GET tasks/{}", accepted["task"].as_str().unwrap()))
        .await
        .success();
    assert_eq!(task["label"], "a label");
    assert_eq!((&task["priority"], &task["queue_mode"]), (&json!(3), &json!("queue")));
    assert_eq!(task["deadline"], "2099-01-01T00:00:00.000Z");
    let run = test_app.request(&format!("GET runs/{run}")).await.success();
    assert_eq!((&run["timeout_ms"], &run["phase"]), (&json!(5000), &json!("queued")));
    assert_eq!(run["policy"]["interactive"], false);
}

#[tokio::test]
async fn tasks_are_listed_by_what_is_asked_and_page_by_page() {
    let test_app = TestApp::idle(Vec::new()).await;
    let mut made = Vec::new();
    for n in 0..5 {
        let label = Some(if n % 2 == 0 { "even" } else { "odd" }.to_owned());
        let task = NewTask { label, new_task: true, ..NewTask::text(format!("task {n}")) };
        made.push(test_app.client.submit(&task).await.unwrap());
    }
    made.reverse();
    let mut list = TaskQuery { limit: Some(2), ..TaskQuery::default() };
    let mut seen = Vec::new();
    loop {
        let page = test_app.client.tasks(&list).await.unwrap();
        assert!(page.items.len() <= 2);
        seen.extend(page.items.iter().map(|task| task.id));
        list.cursor = page.next;
        if list.cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, made.iter().map(|accepted| accepted.task).collect::<Vec<_>>());
    let odd = TaskQuery { label: Some("odd".to_owned()), ..TaskQuery::default() };
    assert_eq!(test_app.client.tasks(&odd).await.unwrap().items.len(), 2);
    let session = TaskQuery { session: Some(made[0].session.clone()), ..TaskQuery::default() };
    assert_eq!(test_app.client.tasks(&session).await.unwrap().items[0].id, made[0].task);
    let none = TaskQuery { agent: Some("nobody".to_owned()), ..TaskQuery::default() };
    assert!(test_app.client.tasks(&none).await.unwrap().items.is_empty());
    test_app.client.cancel_task(made[0].task).await.unwrap();
    let cancelled = TaskQuery { state: Some(TaskState::Cancelled), ..TaskQuery::default() };
    assert_eq!(test_app.client.tasks(&cancelled).await.unwrap().items[0].id, made[0].task);
}

#[tokio::test]
async fn a_task_is_cancelled_put_away_and_tried_again() {
    let test_app = TestApp::idle(Vec::new()).await;
    let accepted = test_app.submit_text("chat", "hi").await;
    let early = test_app.request(&format!("POST tasks/{}/archive", accepted.task)).await;
    assert_eq!(early.problem(), (409, "illegal_transition"));
    let early = test_app.request(&format!("POST tasks/{}/retry", accepted.task)).await;
    assert_eq!(early.problem(), (409, "illegal_transition"));
    let cancelled = test_app.client.cancel_task(accepted.task).await.unwrap();
    assert_eq!(cancelled.outcome, CancelOutcome::Now);
    let again = test_app.client.cancel_task(accepted.task).await.unwrap();
    assert_eq!(again.outcome, CancelOutcome::AlreadyTerminal);
    let put_away = test_app.client.archive_task(accepted.task).await.unwrap();
    assert!(put_away.archived.is_some());
    assert!(test_app.client.tasks(&TaskQuery::default()).await.unwrap().items.is_empty());
    let all = TaskQuery { archived: Some(true), ..TaskQuery::default() };
    assert_eq!(test_app.client.tasks(&all).await.unwrap().items.len(), 1);
    let runs = test_app.client.task_runs(accepted.task, &PageQuery::default()).await.unwrap();
    assert_eq!((runs.items.len(), runs.items[0].id), (1, accepted.run));
}

#[tokio::test]
async fn a_failed_task_is_told_the_same_again() {
    let refused = provost_model::ModelErrorClass::InvalidRequest;
    let turns = vec![scripted::fail(refused, "no"), scripted::text("now it works")];
    let test_app = TestApp::with_turns(turns).await;
    let accepted = test_app.submit_text("chat", "hi").await;
    let failed = test_app.ended(accepted.run).await;
    assert_eq!(failed.status, RunStatus::Error);
    let started = test_app.client.retry_task(accepted.task).await.unwrap();
    assert_eq!(test_app.ended(started.run).await.status, RunStatus::Ok);
    let paging = PageQuery { limit: Some(1), cursor: None };
    let newest = test_app.client.task_runs(accepted.task, &paging).await.unwrap();
    assert_eq!((newest.items[0].id, newest.items[0].ordinal), (started.run, 2));
    let paging = PageQuery { cursor: newest.next, ..paging };
    let oldest = test_app.client.task_runs(accepted.task, &paging).await.unwrap();
    assert_eq!(oldest.items[0].id, accepted.run);
}

#[tokio::test]
async fn what_is_said_to_a_task_waits_until_it_is_read() {
    let test_app = TestApp::idle(Vec::new()).await;
    let accepted = test_app.submit_text("chat", "hi").await;
    let input = NewInput {
        message: MessageInput::from("and this"),
        mode: Some(InputMode::Followup),
        idempotency_key: Some("k".to_owned()),
        ..NewInput::default()
    };
    let receipt = test_app.client.send_input_to_task(accepted.task, &input).await.unwrap();
    assert_eq!((receipt.task, receipt.outcome), (accepted.task, InputOutcome::Queued));
    let again = test_app.client.send_input_to_task(accepted.task, &input).await.unwrap();
    assert_eq!((again.input, again.deduped), (receipt.input, true));
    let paging = PageQuery { limit: Some(1), cursor: None };
    let first = test_app.client.task_inputs(accepted.task, &paging).await.unwrap();
    assert_eq!(first.items[0].message.text(), "hi");
    let paging = PageQuery { cursor: first.next, ..paging };
    let second = test_app.client.task_inputs(accepted.task, &paging).await.unwrap();
    assert_eq!((second.items[0].id, second.next), (receipt.input, None));
    assert_eq!(second.items[0].message.text(), "and this");
    let line = format!("POST tasks/{}/inputs", accepted.task);
    let refused = test_app.send_json(&line, &json!({"message": "now?", "mode": "reject"})).await;
    assert_eq!(refused.problem(), (409, "busy"));
    let empty = test_app.send_json(&line, &json!({"message": ""})).await;
    assert_eq!((empty.problem(), empty.field()), ((400, "invalid"), "message"));
}
