//! Other agents: ours that misbehave, and a real one where it is installed.

use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use provost_core::ToolResultPart;
use provost_core::contract::ToolErrorCode;
use provost_core::resource::{A2aSpec, HumanDuration, ToolResource, ToolType};
use provost_tool::ToolRuntime as _;
use provost_tool_runtime::A2aRuntime;
use provost_tool_runtime::conformance::Scenario;
use serde_json::{Value, json};

use crate::backend::Backend;
use crate::support::{MAX_WAIT, attempt, call, http_client, python_server, until};

fn tool(endpoint: String) -> ToolResource {
    let mut tool = ToolResource::new("agent", ToolType::A2a, endpoint);
    let poll_interval = Some(HumanDuration(Duration::from_millis(5)));
    tool.a2a = Some(A2aSpec { poll_interval, ..A2aSpec::default() });
    tool
}

/// An agent whose card and whose answer to everything are these.
async fn says(card: Value, answer: Value) -> ToolResource {
    let answer = move |body: axum::Json<Value>| async move {
        let mut reply = answer.clone();
        reply["id"] = body["id"].clone();
        axum::Json(reply)
    };
    let app = Router::new()
        .route("/.well-known/agent-card.json", get(move || async move { axum::Json(card) }))
        .route("/rpc", post(answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    tool(endpoint)
}

fn card() -> Value {
    json!({ "supportedInterfaces": [
        { "url": "grpc://x", "protocolBinding": "GRPC", "protocolVersion": "1.0" },
        { "url": "/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" },
    ] })
}

fn task(state: &str, message: &str) -> Value {
    let status = json!({ "state": state, "message": { "parts": [{ "text": message }] } });
    json!({ "jsonrpc": "2.0", "result": { "task": { "id": "t", "contextId": "c", "status": status } } })
}

#[tokio::test]
async fn states_become_faults_that_say_what_is_asked() {
    let runtime = A2aRuntime::new(http_client());
    for (state, code) in [
        ("TASK_STATE_INPUT_REQUIRED", ToolErrorCode::InvalidInput),
        ("TASK_STATE_AUTH_REQUIRED", ToolErrorCode::AuthInvalid),
        ("TASK_STATE_FAILED", ToolErrorCode::ExecutionFailed),
        ("TASK_STATE_REJECTED", ToolErrorCode::ExecutionFailed),
        ("TASK_STATE_CANCELED", ToolErrorCode::ExecutionFailed),
        ("TASK_STATE_NONSENSE", ToolErrorCode::ExecutionFailed),
    ] {
        let tool = says(card(), task(state, "which year?")).await;
        let fault = call(&runtime, &tool, json!({ "message": "hi" })).await.unwrap_err();
        assert_eq!((fault.code, fault.retryable), (code, false), "{state}: {fault}");
        if state != "TASK_STATE_NONSENSE" {
            assert!(fault.message.contains("which year?"), "{fault}");
            assert_eq!(fault.details["task_state"], state);
        }
    }
    let tool = says(card(), task("TASK_STATE_COMPLETED", "2026")).await;
    let output = call(&runtime, &tool, json!({ "message": "hi" })).await.unwrap();
    assert_eq!(output.to_text(), "2026");
}

#[tokio::test]
async fn credentials_follow_no_card_to_another_host() {
    let elsewhere = json!({ "supportedInterfaces": [
        { "url": "http://127.0.0.2:1/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" },
    ] });
    let runtime = A2aRuntime::new(http_client());
    let tool = says(elsewhere, Value::Null).await;
    let fault = call(&runtime, &tool, json!({})).await.unwrap_err();
    assert_eq!(fault.code, ToolErrorCode::PermissionDenied, "{fault}");
    for none in
        [json!({}), json!({ "supportedInterfaces": [{ "url": "/", "protocolBinding": "GRPC" }] })]
    {
        let tool = says(none, Value::Null).await;
        let fault = call(&runtime, &tool, json!({})).await.unwrap_err();
        assert!(!fault.retryable && fault.message.contains("card"), "{fault}");
    }
}

#[tokio::test]
async fn a_task_that_nobody_waits_for_is_cancelled() {
    let backend = Backend::start().await;
    let tool = tool(backend.url("a2a", Scenario::Hang));
    let runtime = A2aRuntime::new(http_client());
    let attempt = attempt(&tool, json!({ "message": "hi" }), MAX_WAIT);
    let cancel = attempt.cancel.clone();
    let waiting = tokio::spawn(runtime.invoke(attempt));
    until("it works", || backend.acts.busy.load(Ordering::SeqCst) == 1).await;
    cancel.cancel();
    assert_eq!(waiting.await.unwrap().unwrap_err().code, ToolErrorCode::Canceled);
    until("it is told", || backend.acts.cancelled.lock().unwrap().len() == 1).await;
}

/// A server of the reference library.
#[tokio::test]
async fn the_reference_library() {
    let Some((_server, mut lines, endpoint)) = python_server("agent.py").await else { return };

    let runtime = A2aRuntime::new(http_client());
    let tool = tool(endpoint);
    let output = call(&runtime, &tool, json!({ "message": "echo grüezi" })).await.unwrap();
    assert!(output.to_text().contains("echo grüezi"), "{}", output.to_text());
    let parts = call(&runtime, &tool, json!({ "message": "parts" })).await.unwrap();
    assert!(parts.parts.iter().any(|part| matches!(part, ToolResultPart::File(_))), "{parts:?}");
    assert!(parts.to_text().contains("\"n\""), "{parts:?}");
    let fault = call(&runtime, &tool, json!({ "message": "fail" })).await.unwrap_err();
    assert_eq!((fault.code, fault.retryable), (ToolErrorCode::ExecutionFailed, false), "{fault}");
    let fault = call(&runtime, &tool, json!({ "message": "ask" })).await.unwrap_err();
    assert_eq!(fault.code, ToolErrorCode::InvalidInput, "{fault}");
    assert!(fault.details["asks"].contains("which year"), "{fault:?}");
    let made = runtime.invoke(attempt(&tool, json!({ "message": "hang" }), Duration::from_secs(2)));
    assert_eq!(made.await.unwrap_err().code, ToolErrorCode::Timeout);
    let cancelled = async {
        while let Ok(Some(line)) = lines.next_line().await {
            if line == "cancelled" {
                return;
            }
        }
        panic!("the agent was not told");
    };
    tokio::time::timeout(MAX_WAIT, cancelled).await.expect("the agent is never told");
}
