//! Connections: shared, made again, closed; programs that are really gone.

use std::time::Duration;

use futures::StreamExt;
use provost_agent::Agent;
use provost_core::EventKind;
use provost_mcp::{Error, McpPool};
use provost_model::{ScriptedModel, call, text};
use provost_tool::ToolError;
use serde_json::{Value, json};

use crate::support::{Caller, find, list, runs, say, server, until};

async fn pids(tools: &provost_mcp::McpToolset) -> Vec<u64> {
    serde_json::from_str(&say(tools, "test_pids", json!({})).await).unwrap()
}

#[tokio::test]
async fn nothing_starts_before_it_is_needed() {
    let pool = McpPool::new();
    let tools = pool.toolset(server("good")).unwrap();
    assert_eq!(pool.connected(), 0);
    tools.connect().await.unwrap();
    assert_eq!(pool.connected(), 1);
    pool.close().await;
}

#[tokio::test]
async fn equal_definitions_share_a_program_and_others_do_not() {
    let pool = McpPool::new();
    let one = pids(&pool.toolset(server("good")).unwrap()).await[0];
    let same = pids(&pool.toolset(server("good")).unwrap()).await[0];
    let other = pids(&pool.toolset(server("good").env("A", "b")).unwrap()).await[0];
    assert_eq!(one, same);
    assert!(one != other);
    assert_eq!(pool.connected(), 2);
    pool.close().await;
}

#[tokio::test]
async fn the_environment_is_clean() {
    let pool = McpPool::new();
    let dir = tempfile::tempdir().unwrap();
    let server = server("good").env("TOKEN", "s3cret").dir(dir.path());
    let tools = pool.toolset(server).unwrap();
    let seen: Value = serde_json::from_str(&say(&tools, "test_environ", json!({})).await).unwrap();
    let mut variables: Vec<&str> =
        seen["env"].as_object().unwrap().keys().map(String::as_str).collect();
    // Python adds this one to itself.
    variables.retain(|name| !["LC_CTYPE", "HOME", "LANG"].contains(name));
    variables.sort_unstable();
    assert_eq!(variables, ["PATH", "TOKEN"]);
    assert_eq!(seen["env"]["TOKEN"], "s3cret");
    assert_eq!(seen["dir"], dir.path().canonicalize().unwrap().to_str().unwrap());
    pool.close().await;
}

#[tokio::test]
async fn closing_ends_the_program_and_what_it_started() {
    let pool = McpPool::new();
    let tools = pool.toolset(server("good")).unwrap();
    let pids = pids(&tools).await;
    assert!(pids.iter().all(|pid| runs(*pid)));
    pool.close().await;
    for pid in pids {
        until("it is gone", || !runs(pid)).await;
    }
    assert_eq!(tools.connect().await.unwrap_err(), Error::Closed);
    assert_eq!(pool.toolset(server("good")).unwrap_err(), Error::Closed);
}

#[tokio::test]
async fn closing_ends_a_program_that_does_not_want_to_end() {
    let pool = McpPool::new();
    let tools = pool.toolset(server("lingers")).unwrap();
    let pids = pids(&tools).await;
    pool.close().await;
    assert!(!runs(pids[0]));
    until("its child is gone", || !runs(pids[1])).await;
}

#[tokio::test]
async fn dropping_kills() {
    let pool = McpPool::new();
    let tools = pool.toolset(server("lingers")).unwrap();
    let pids = pids(&tools).await;
    drop(pool);
    assert!(runs(pids[0]), "a toolset keeps its server");
    drop(tools);
    for pid in pids {
        until("it is gone", || !runs(pid)).await;
    }
}

#[tokio::test]
async fn a_call_under_way_hears_that_the_pool_was_closed() {
    let pool = McpPool::new();
    let tools = pool.toolset(server("good")).unwrap();
    let slow = find(&list(&tools).await.unwrap(), "test_slow");
    let running = tokio::spawn(async move { Caller::default().call_tool(&slow, json!({})).await });
    while !say(&tools, "test_seen", json!({})).await.contains(r#""name": "slow""#) {}
    pool.close().await;
    let outcome = running.await.unwrap();
    assert!(matches!(&outcome, Err(ToolError::Failed(text)) if text.contains("not known whether")));
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_made_again() {
    let pool = McpPool::new();
    let server = server("good").idle_timeout(Some(Duration::from_millis(200)));
    let tools = pool.toolset(server).unwrap();
    let first = pids(&tools).await;
    until("closed as idle", || pool.connected() == 0 && !runs(first[0])).await;
    let second = pids(&tools).await;
    assert!(first[0] != second[0]);
    pool.close().await;
}

#[tokio::test]
async fn a_connection_in_use_is_not_idle() {
    let pool = McpPool::new();
    let server = server("good")
        .idle_timeout(Some(Duration::from_millis(50)))
        .call_timeout(Duration::from_millis(600));
    let tools = pool.toolset(server).unwrap();
    let outcome = Caller::default().call(&tools, "test_slow", json!({})).await;
    assert!(
        matches!(&outcome, Err(ToolError::Failed(text)) if text.contains("0.6 s")),
        "{outcome:?}"
    );
    pool.close().await;
}

#[tokio::test]
async fn a_server_that_died_is_started_again_and_the_call_is_not_repeated() {
    let pool = McpPool::new();
    let tools = pool.toolset(server("good")).unwrap();
    let first = pids(&tools).await[0];
    let outcome = Caller::default().call(&tools, "test_die", json!({})).await;
    let Err(ToolError::Failed(text)) = outcome else { panic!("{outcome:?}") };
    assert!(text.contains("not known whether"), "{text}");
    assert!(text.contains("code 3") && text.contains("the roof is on fire"), "{text}");
    assert!(text.len() < 4096, "what it wrote is bounded: {}", text.len());
    let seen = say(&tools, "test_seen", json!({})).await;
    assert!(!seen.contains(r#""name": "die""#), "{seen}");
    assert!(pids(&tools).await[0] != first);
    pool.close().await;
}

#[tokio::test]
async fn a_server_that_keeps_dying_is_left_alone_for_longer_and_longer() {
    let pool = McpPool::new();
    let tools = pool.toolset(server("exits")).unwrap();
    let mut errors = Vec::new();
    for _ in 0..3 {
        errors.push(tools.connect().await.unwrap_err());
    }
    assert!(matches!(&errors[0], Error::Connect { reason, .. } if reason.contains("no config")));
    assert!(matches!(&errors[1], Error::Connect { .. }), "the second try is free");
    assert!(
        matches!(&errors[2], Error::CoolingDown { reason, .. } if reason.contains("no config"))
    );
    pool.close().await;
}

#[tokio::test]
async fn a_run_goes_on_without_a_server_that_fails() {
    let pool = McpPool::new();
    let model = ScriptedModel::new()
        .turn(call("test_echo", json!({ "message": "still here" })))
        .turn(text("done"));
    let broken = provost_mcp::McpServer::stdio("broken", "/no/such/program");
    let agent = Agent::builder("clerk", model)
        .toolset(pool.toolset(broken).unwrap())
        .toolset(pool.toolset(server("good")).unwrap())
        .build()
        .unwrap();
    let (mut warnings, mut said) = (Vec::new(), Vec::new());
    let mut run = agent.run("go").stream();
    while let Some(event) = run.next().await {
        match event.kind {
            EventKind::Warning { message } => warnings.push(message),
            EventKind::ToolFinished { result, .. } => said.push(result.to_text()),
            _ => {}
        }
    }
    assert_eq!(said, ["still here"]);
    assert!(warnings.iter().any(|text| text.contains("`broken` is not available")), "{warnings:?}");
    pool.close().await;
}

#[tokio::test]
async fn a_program_that_does_not_exist_is_named() {
    let pool = McpPool::new();
    let server = provost_mcp::McpServer::stdio("gone", "/no/such/program");
    let error = pool.toolset(server).unwrap().connect().await.unwrap_err().to_string();
    assert!(error.contains("/no/such/program"), "{error}");
    pool.close().await;
}
