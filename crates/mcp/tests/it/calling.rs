//! Calls: results, refusals, progress, cancellation, traces.

use std::sync::Arc;

use provost_core::ToolResultPart;
use provost_mcp::{ElicitationMode, Handshake, McpPool, TraceContext};
use provost_tool::{Deps, ToolError};
use serde_json::{Value, json};

use crate::support::{Caller, find, list, say, server, until};

#[tokio::test]
async fn a_tool_gives_its_text() {
    let pool = McpPool::new();
    let tools = pool.toolset(server("good")).unwrap();
    assert_eq!(say(&tools, "test_echo", json!({ "message": "hello" })).await, "hello");
    pool.close().await;
}

#[tokio::test]
async fn the_whole_schema_is_checked_before_the_server_is_asked() {
    let pool = McpPool::new();
    let tools = pool.toolset(server("good")).unwrap();
    let outcome = Caller::default().call(&tools, "test_echo", json!({ "message": "x" })).await;
    assert!(matches!(&outcome, Err(ToolError::Retry(_))), "{outcome:?}");
    let seen = say(&tools, "test_seen", json!({})).await;
    assert!(!seen.contains(r#""name": "echo""#), "{seen}");
    pool.close().await;
}

#[tokio::test]
async fn an_error_of_the_tool_and_a_refusal_of_the_server_differ() {
    let pool = McpPool::new();
    let tools = pool.toolset(server("good")).unwrap();
    let caller = Caller::default();
    let failed = caller.call(&tools, "test_fail", json!({})).await.unwrap();
    assert!(failed.is_error);
    assert_eq!(failed.to_text(), "it broke");
    let wrong = caller.call(&tools, "test_refuse", json!({})).await;
    assert!(matches!(&wrong, Err(ToolError::Retry(text)) if text.contains("not like this")));
    let broken = caller.call(&tools, "test_refuse", json!({ "code": -32603 })).await;
    assert!(matches!(&broken, Err(ToolError::Failed(text)) if text.contains("-32603")));
    pool.close().await;
}

#[tokio::test]
async fn content_that_nobody_knows_does_not_hide_the_rest() {
    let pool = McpPool::new();
    let tools = pool.toolset(server("good")).unwrap();
    let output = Caller::default().call(&tools, "test_odd", json!({})).await.unwrap();
    assert!(matches!(&output.parts[0], ToolResultPart::Text { text } if text.contains("hologram")));
    assert!(matches!(&output.parts[1], ToolResultPart::Text { text } if text == "flat"));
    pool.close().await;
}

#[tokio::test]
async fn progress_is_passed_on_in_order_and_before_the_result() {
    let pool = McpPool::new();
    let tools = pool.toolset(server("good")).unwrap();
    let caller = Caller::default();
    caller.call(&tools, "test_progress", json!({})).await.unwrap();
    let told = caller.watcher.0.lock().unwrap().clone();
    assert_eq!(told, ["1/3 step", "2/3 step", "3/3 step"]);
    pool.close().await;
}

#[tokio::test]
async fn a_flood_of_progress_is_bounded() {
    let pool = McpPool::new();
    let tools = pool.toolset(server("good")).unwrap();
    let caller = Caller::default();
    caller.call(&tools, "test_progress", json!({ "steps": 3000 })).await.unwrap();
    assert_eq!(caller.watcher.0.lock().unwrap().len(), 1000);
    pool.close().await;
}

#[tokio::test]
async fn a_stopped_run_takes_its_call_back() {
    let pool = McpPool::new();
    let tools = pool.toolset(server("good")).unwrap();
    let caller = Caller::default();
    let slow = find(&list(&tools).await.unwrap(), "test_slow");
    let running = tokio::spawn({
        let caller = caller.clone();
        async move { caller.call_tool(&slow, json!({})).await }
    });
    // The server has the call before it is stopped.
    while !say(&tools, "test_seen", json!({})).await.contains(r#""name": "slow""#) {}
    caller.cancel.cancel();
    let outcome = running.await.unwrap();
    assert!(matches!(&outcome, Err(ToolError::Failed(text)) if text.contains("stopped")));
    let seen = say(&tools, "test_seen", json!({})).await;
    assert!(seen.contains("notifications/cancelled"), "{seen}");
    pool.close().await;
}

#[tokio::test]
async fn a_call_that_is_dropped_is_taken_back() {
    let pool = McpPool::new();
    let tools = pool.toolset(server("good")).unwrap();
    let slow = find(&list(&tools).await.unwrap(), "test_slow");
    let running = tokio::spawn(async move { Caller::default().call_tool(&slow, json!({})).await });
    while !say(&tools, "test_seen", json!({})).await.contains(r#""name": "slow""#) {}
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    while !say(&tools, "test_seen", json!({})).await.contains("notifications/cancelled") {}
    pool.close().await;
}

#[tokio::test]
async fn a_call_has_its_time_and_nobody_knows_what_became_of_it() {
    let pool = McpPool::new();
    let tools = pool.toolset(server("good").call_timeout(std::time::Duration::from_secs(1)));
    let tools = tools.unwrap();
    let outcome = Caller::default().call(&tools, "test_slow", json!({})).await;
    let Err(ToolError::Failed(text)) = outcome else { panic!("{outcome:?}") };
    assert!(text.contains("not known whether") && text.contains("within 1 s"), "{text}");
    let seen = say(&tools, "test_seen", json!({})).await;
    assert!(seen.contains("notifications/cancelled"), "the connection goes on: {seen}");
    pool.close().await;
}

#[tokio::test]
async fn the_trace_of_the_run_goes_with_the_call() {
    let pool = McpPool::new();
    let tools = pool.toolset(server("good")).unwrap();
    let parent = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
    let deps = Deps::default().with(TraceContext {
        traceparent: parent.to_owned(),
        tracestate: Some("vendor=1".to_owned()),
    });
    let traced = Caller { deps, ..Caller::default() };
    let meta = traced.call(&tools, "test_meta", json!({})).await.unwrap().to_text();
    let meta: Value = serde_json::from_str(&meta).unwrap();
    assert_eq!(meta["traceparent"], parent);
    assert_eq!(meta["tracestate"], "vendor=1");
    let plain = say(&tools, "test_meta", json!({})).await;
    assert!(!plain.contains("traceparent"), "{plain}");
    pool.close().await;
}

#[tokio::test]
async fn both_generations_of_the_protocol_are_spoken() {
    let pool = McpPool::new();
    for (mode, era, method) in [
        ("good", Handshake::Auto, "initialize"),
        ("good", Handshake::Initialize, "initialize"),
        ("modern", Handshake::Auto, "server/discover"),
        ("modern", Handshake::Discover, "server/discover"),
        ("touchy", Handshake::Auto, "initialize"),
    ] {
        let tools = pool.toolset(server(mode).handshake(era)).unwrap();
        assert_eq!(say(&tools, "test_echo", json!({ "message": "hi" })).await, "hi");
        let seen = say(&tools, "test_seen", json!({})).await;
        let seen: Vec<Value> = serde_json::from_str(&seen).unwrap();
        let greeted = seen.iter().find(|message| {
            ["initialize", "server/discover"].contains(&message["method"].as_str().unwrap_or(""))
                && (message["method"] != "server/discover" || mode == "modern")
        });
        assert_eq!(greeted.unwrap()["method"], method, "{mode} {era:?}");
        let call = seen.iter().find(|message| message["method"] == "tools/call").unwrap();
        let says_version =
            call["params"]["_meta"].get("io.modelcontextprotocol/protocolVersion").is_some();
        assert_eq!(says_version, method == "server/discover", "{call}");
    }
    pool.close().await;
}

#[tokio::test]
async fn a_server_that_wants_the_other_generation_is_refused_with_the_reason() {
    let pool = McpPool::new();
    let tools = pool.toolset(server("good").handshake(Handshake::Discover)).unwrap();
    let error = tools.connect().await.unwrap_err().to_string();
    assert!(error.contains("unknown method"), "{error}");
    pool.close().await;
}

#[tokio::test]
async fn a_server_may_ask_and_gets_an_answer() {
    let pool = McpPool::new();
    let tools = pool.toolset(server("good").elicitation(ElicitationMode::Defaults)).unwrap();
    assert_eq!(say(&tools, "test_ask", json!({})).await, "asked");
    while !say(&tools, "test_seen", json!({})).await.contains(r#""id": "roots""#) {}
    pool.close().await;
}

#[tokio::test]
async fn many_calls_share_one_connection() {
    let pool = McpPool::new();
    let tools = pool.toolset(server("good")).unwrap();
    let echo = find(&list(&tools).await.unwrap(), "test_echo");
    let calls = (0..200).map(|at| {
        let (echo, caller) = (Arc::clone(&echo), Caller::default());
        tokio::spawn(async move {
            let message = format!("number {at}");
            let output = caller.call_tool(&echo, json!({ "message": message })).await.unwrap();
            assert_eq!(output.to_text(), message);
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    assert_eq!(pool.connected(), 1);
    pool.close().await;
    until("closed", || pool.connected() == 0).await;
}
