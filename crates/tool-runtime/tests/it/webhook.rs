//! Answers that come later.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{get, post};
use provost_core::contract::ToolErrorCode;
use provost_core::resource::{ToolResource, ToolType};
use provost_tool::ToolRuntime as _;
use provost_tool_runtime::conformance::Scenario;
use provost_tool_runtime::{CallbackOptions, CallbackRegistry, CallbackRuntime};
use serde_json::json;

use crate::backend::Backend;
use crate::support::{attempt, call, http_client, until};

fn quick(callbacks: Option<CallbackRegistry>) -> CallbackRuntime {
    let poll = Duration::from_millis(2);
    let options = CallbackOptions { poll, poll_max: poll, callbacks, ..CallbackOptions::default() };
    CallbackRuntime::new(http_client(), options)
}

/// A server that takes everything and answers looks with a status.
async fn takes(status: StatusCode) -> (ToolResource, Arc<AtomicU32>) {
    let looks = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&looks);
    let look = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        async move { status }
    };
    let app = Router::new()
        .route("/t", post(|| async { StatusCode::ACCEPTED }))
        .route("/t/{request}", get(look));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/t", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    (ToolResource::new("t", ToolType::WebhookCallback, endpoint), looks)
}

#[tokio::test]
async fn looks_that_fail_are_counted() {
    let (tool, looks) = takes(StatusCode::BAD_GATEWAY).await;
    let fault = call(&quick(None), &tool, json!({})).await.unwrap_err();
    assert_eq!((fault.code, fault.retryable), (ToolErrorCode::ExecutionFailed, false), "{fault}");
    assert_eq!(fault.details["outcome"], "unknown");
    assert_eq!(fault.details["polls_failed"], "5");
    assert_eq!(looks.load(Ordering::SeqCst), 5, "a look may be repeated, whatever the call does");
    let (mut tool, _) = takes(StatusCode::BAD_GATEWAY).await;
    tool.effect = provost_core::recovery::EffectClass::Idempotent;
    assert!(call(&quick(None), &tool, json!({})).await.unwrap_err().retryable);
}

#[tokio::test]
async fn a_refusal_ends_it_at_once() {
    for (status, code) in [
        (StatusCode::UNAUTHORIZED, ToolErrorCode::AuthInvalid),
        (StatusCode::FORBIDDEN, ToolErrorCode::AuthForbidden),
        (StatusCode::NOT_FOUND, ToolErrorCode::ExecutionFailed),
    ] {
        let (tool, looks) = takes(status).await;
        let fault = call(&quick(None), &tool, json!({})).await.unwrap_err();
        assert_eq!((fault.code, looks.load(Ordering::SeqCst)), (code, 1), "{fault}");
    }
}

#[tokio::test]
async fn one_that_never_answers_is_a_timeout() {
    let (tool, looks) = takes(StatusCode::NO_CONTENT).await;
    let made = quick(None).invoke(attempt(&tool, json!({}), Duration::from_millis(200)));
    assert_eq!(made.await.unwrap_err().code, ToolErrorCode::Timeout);
    assert!(looks.load(Ordering::SeqCst) > 3);
}

#[tokio::test]
async fn a_callback_comes_even_where_nobody_can_look() {
    let backend = Backend::start().await;
    let base = format!("http://{}/callbacks", backend.address).parse().unwrap();
    let callbacks = CallbackRegistry::with_random_key(base).unwrap();
    *backend.acts.callbacks.lock().unwrap() = Some(callbacks.clone());
    let tool =
        ToolResource::new("t", ToolType::WebhookCallback, backend.url("later", Scenario::Echo));
    let output =
        call(&quick(Some(callbacks.clone())), &tool, json!({ "text": "hi" })).await.unwrap();
    assert_eq!(output.to_text(), "hi");
    assert_eq!(callbacks.pending_count(), 0);
    let (silent, _) = takes(StatusCode::NOT_FOUND).await;
    let runtime = quick(Some(callbacks.clone()));
    let attempt = attempt(&silent, json!({}), Duration::from_secs(30));
    let cancel = attempt.cancel.clone();
    let waiting = tokio::spawn(runtime.invoke(attempt));
    until("it waits", || callbacks.pending_count() == 1).await;
    cancel.cancel();
    assert_eq!(waiting.await.unwrap().unwrap_err().code, ToolErrorCode::Canceled);
    assert_eq!(callbacks.pending_count(), 0, "nothing is left at the callbacks");
}
