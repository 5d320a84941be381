//! Servers that mean no good, or are broken: a typed error or a bounded result, never a hang.

use std::time::{Duration, Instant};

use provost_mcp::{Error, McpPool};
use provost_tool::ToolError;
use serde_json::json;

use crate::support::{Caller, find, list, names, say, server};

/// Much less than the timeouts of the servers here.
const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_slow_hello_ends_with_its_time() {
    let pool = McpPool::new();
    let slow = server("slow_hello").connect_timeout(Duration::from_secs(2));
    let tools = pool.toolset(slow).unwrap();
    let error = tools.connect().await.unwrap_err();
    assert!(matches!(&error, Error::Timeout { .. }), "{error}");
    assert!(error.to_string().contains("starting as slow_hello"), "{error}");
    pool.close().await;
}

#[tokio::test]
async fn a_wrong_hello_is_told() {
    let pool = McpPool::new();
    let error = pool.toolset(server("wrong_hello")).unwrap().connect().await.unwrap_err();
    assert!(matches!(&error, Error::Connect { .. }), "{error}");
    pool.close().await;
}

#[tokio::test]
async fn noise_before_the_messages_is_passed_over() {
    let pool = McpPool::new();
    let tools = pool.toolset(server("noise")).unwrap();
    assert_eq!(say(&tools, "test_echo", json!({ "message": "hi" })).await, "hi");
    pool.close().await;
}

#[tokio::test]
async fn nothing_but_noise_is_an_error() {
    let pool = McpPool::new();
    let error = pool.toolset(server("only_noise")).unwrap().connect().await.unwrap_err();
    assert!(error.to_string().contains("other text than messages"), "{error}");
    pool.close().await;
}

#[tokio::test]
async fn a_huge_list_is_cut() {
    let pool = McpPool::new();
    assert_eq!(list(&pool.toolset(server("huge_list")).unwrap()).await.unwrap().len(), 1024);
    assert_eq!(list(&pool.toolset(server("endless_pages")).unwrap()).await.unwrap().len(), 64);
    assert_eq!(list(&pool.toolset(server("same_page")).unwrap()).await.unwrap().len(), 1);
    pool.close().await;
}

#[tokio::test]
async fn wrong_schemas_are_left_out_and_the_others_stay() {
    let pool = McpPool::new();
    let offered = list(&pool.toolset(server("wrong_schemas")).unwrap()).await.unwrap();
    assert_eq!(names(&offered), ["test_good", "test_with_dots"]);
    let offered = list(&pool.toolset(server("fat_schemas")).unwrap()).await.unwrap();
    assert_eq!(names(&offered), ["test_thin"]);
    pool.close().await;
}

#[tokio::test]
async fn a_list_that_is_none_is_an_error() {
    let pool = McpPool::new();
    let error = pool.toolset(server("no_list")).unwrap().connect().await.unwrap_err();
    assert!(matches!(&error, Error::Malformed { .. }), "{error}");
    let mute = server("mute_list").connect_timeout(Duration::from_millis(700));
    let error = pool.toolset(mute).unwrap().connect().await.unwrap_err();
    assert!(matches!(&error, Error::Timeout { .. }), "{error}");
    let error = pool.toolset(server("dies_listing")).unwrap().connect().await.unwrap_err();
    assert!(error.to_string().contains("code 4"), "{error}");
    pool.close().await;
}

#[tokio::test]
async fn a_large_result_is_cut_for_the_model() {
    let pool = McpPool::new();
    let tools = pool.toolset(server("good")).unwrap();
    let text = say(&tools, "test_big", json!({})).await;
    assert!(text.len() < 60 * 1024 && text.contains("bytes cut"), "{}", text.len());
    pool.close().await;
}

#[tokio::test]
async fn an_endless_result_ends() {
    let pool = McpPool::new();
    let tools = pool.toolset(server("good")).unwrap();
    let start = Instant::now();
    let outcome = Caller::default().call(&tools, "test_endless", json!({})).await;
    let Err(ToolError::Failed(text)) = outcome else { panic!("{outcome:?}") };
    assert!(text.contains("more than 33554432 bytes"), "{text}");
    assert!(start.elapsed() < SOON);
    assert_eq!(say(&tools, "test_echo", json!({ "message": "again" })).await, "again");
    pool.close().await;
}

#[tokio::test]
async fn a_server_that_asks_without_end_is_cut_off() {
    let pool = McpPool::new();
    let tools = pool.toolset(server("good")).unwrap();
    let start = Instant::now();
    let outcome = Caller::default().call(&tools, "test_talk", json!({})).await;
    // Pipes take some answers before they are full; what counts is that it ends with an error and soon.
    assert!(matches!(&outcome, Err(ToolError::Failed(_))), "{outcome:?}");
    assert!(start.elapsed() < SOON * 4);
    pool.close().await;
}

#[tokio::test]
async fn a_server_that_stops_reading_does_not_stop_us() {
    let pool = McpPool::new();
    let deaf = server("good").call_timeout(Duration::from_millis(500));
    let tools = pool.toolset(deaf).unwrap();
    let offered = list(&tools).await.unwrap();
    let (put, deaf) = (find(&offered, "test_put"), find(&offered, "test_deaf"));
    let caller = Caller::default();
    assert!(caller.call_tool(&deaf, json!({})).await.is_err());
    // More than a pipe holds.
    let outcome = caller.call_tool(&put, json!({ "x": "y".repeat(500_000) })).await;
    assert!(matches!(&outcome, Err(ToolError::Failed(text)) if text.contains("not known")));
    let start = Instant::now();
    pool.close().await;
    assert!(start.elapsed() < SOON);
}

#[tokio::test]
async fn a_program_that_ends_with_its_pipes_open_is_noticed() {
    let pool = McpPool::new();
    let tools = pool.toolset(server("good")).unwrap();
    let start = Instant::now();
    let outcome = Caller::default().call(&tools, "test_orphan", json!({})).await;
    let Err(ToolError::Failed(text)) = outcome else { panic!("{outcome:?}") };
    assert!(text.contains("code 5") && text.contains("not known whether"), "{text}");
    assert!(start.elapsed() < SOON);
    pool.close().await;
}
