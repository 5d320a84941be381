//! Sets that are too large to show at once.

use std::sync::Arc;

use provost_core::ErrorKind;
use provost_tool::{
    MutableToolset, RunContext, State, StaticToolset, Tool, ToolContext, ToolError, ToolsetExt,
    tool_fn,
};
use serde_json::{Value, json};

use super::{get, names, refusal, set};
use crate::support;

fn described(name: &str, description: &str) -> Arc<dyn Tool> {
    let tool = tool_fn(name, description, |_, ()| async { Ok::<_, ToolError>("ran") });
    Arc::new(tool.unwrap())
}

/// A set of so many tools that each have a word of their own.
fn large(tools: usize) -> StaticToolset {
    let one = |number| described(&format!("tool_{number}"), &format!("Handles subject{number}x"));
    StaticToolset::new("large", (0..tools).map(one))
}

/// The context of a tool call that has these notes.
fn noting(state: &State) -> ToolContext {
    support::cx_with_state(state.clone())
}

async fn search(
    tools: &impl ToolsetExt,
    cx: &RunContext,
    arguments: Value,
) -> Result<Value, ToolError> {
    let search = get(tools, cx, "search_tools").await;
    let output = support::run(&search, noting(&cx.state), arguments).await?;
    Ok(serde_json::from_str(&output.to_text()).unwrap())
}

fn found(findings: &Value) -> Vec<&str> {
    findings["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_search_finds_and_what_is_found_is_offered_for_the_rest_of_the_run() {
    let cx = support::toolset_cx();
    let tools = large(500).searchable();
    assert_eq!(names(&tools, &cx).await, ["search_tools"]);
    let findings = search(&tools, &cx, json!({"query": "subject217x"})).await.unwrap();
    assert_eq!(found(&findings), ["tool_217"]);
    assert_eq!(findings["tools"][0]["description"], "Handles subject217x");
    assert_eq!(names(&tools, &cx).await, ["search_tools", "tool_217"]);
    search(&tools, &cx, json!({"query": "tool_3"})).await.unwrap();
    let offered = names(&tools, &cx).await;
    assert_eq!(offered[..3], ["search_tools", "tool_217", "tool_3"], "the end grows");
    let tool = get(&tools, &cx, "tool_217").await;
    assert_eq!(support::run(&tool, support::cx(), json!({})).await.unwrap().to_text(), "ran");
    let other = RunContext { state: State::default(), ..cx };
    assert_eq!(names(&tools, &other).await, ["search_tools"], "notes belong to one run");
}

#[tokio::test]
async fn what_was_found_survives_with_the_notes() {
    let cx = support::toolset_cx();
    search(&large(50).searchable(), &cx, json!({"query": "subject7x"})).await.unwrap();
    let bytes = serde_json::to_vec(&cx.state.snapshot()).unwrap();
    let state = State::new(serde_json::from_slice(&bytes).unwrap());
    let later = RunContext { state, ..cx };
    assert_eq!(names(&large(50).searchable(), &later).await, ["search_tools", "tool_7"]);
    // Notes that somebody else wrote over are no reason to fail.
    later.state.set("search_tools.found", 7).unwrap();
    assert_eq!(names(&large(50).searchable(), &later).await, ["search_tools"]);
}

#[tokio::test]
async fn a_search_is_bounded() {
    let cx = support::toolset_cx();
    let tools = large(500).searchable();
    let findings = search(&tools, &cx, json!({"query": "tool"})).await.unwrap();
    assert_eq!(found(&findings).len(), 5);
    let findings = search(&tools, &cx, json!({"query": "tool", "limit": 10_000})).await.unwrap();
    assert_eq!(found(&findings).len(), 20);
    let findings = search(&tools, &cx, json!({"query": "tool", "limit": 0})).await.unwrap();
    assert_eq!(found(&findings).len(), 1);
    let refused = search(&tools, &cx, json!({"query": "x".repeat(1025)})).await.unwrap_err();
    assert!(matches!(&refused, ToolError::Retry(text) if text.contains("1025")), "{refused}");
    let findings = search(&tools, &cx, json!({"query": "zebra"})).await.unwrap();
    assert!(found(&findings).is_empty());
    assert_eq!(findings["note"], "no match among 500 tools; try other words");
    let long = StaticToolset::new("long", [described("long", &"é".repeat(5000))]).searchable();
    let findings = search(&long, &cx, json!({"query": "long"})).await.unwrap();
    assert!(findings["tools"][0]["description"].as_str().unwrap().len() < 310);
}

#[tokio::test]
async fn of_too_many_found_tools_the_oldest_go() {
    let cx = support::toolset_cx();
    let tools = large(100).searchable().max_offered(3);
    for number in [10, 20, 30] {
        search(&tools, &cx, json!({"query": format!("subject{number}x")})).await.unwrap();
    }
    // Found again, so it stays while a newer one goes.
    search(&tools, &cx, json!({"query": "subject10x subject40x"})).await.unwrap();
    assert_eq!(names(&tools, &cx).await, ["search_tools", "tool_10", "tool_30", "tool_40"]);
    let findings = search(&tools, &cx, json!({"query": "tool", "limit": 20})).await.unwrap();
    assert_eq!(found(&findings).len(), 3, "no more than can be offered");
    assert_eq!(names(&tools, &cx).await[1..], found(&findings));
}

#[tokio::test]
async fn pins_are_always_offered_and_once() {
    let cx = support::toolset_cx();
    let tools = large(100).searchable().always_offer(["tool_5", "missing", "tool_5"]);
    assert_eq!(names(&tools, &cx).await, ["search_tools", "tool_5"]);
    search(&tools, &cx, json!({"query": "subject5x"})).await.unwrap();
    assert_eq!(names(&tools, &cx).await, ["search_tools", "tool_5"]);
}

#[tokio::test]
async fn a_found_tool_that_is_gone_is_not_offered_and_a_new_one_is_found() {
    let cx = support::toolset_cx();
    let inner = MutableToolset::new("plugins");
    inner.add_shared(described("moon", "Tells the phase of the moon")).unwrap();
    let tools = inner.clone().searchable();
    search(&tools, &cx, json!({"query": "moon"})).await.unwrap();
    assert_eq!(names(&tools, &cx).await, ["search_tools", "moon"]);
    inner.remove("moon");
    inner.add_shared(described("sun", "Tells when the sun rises")).unwrap();
    assert_eq!(names(&tools, &cx).await, ["search_tools"]);
    let findings = search(&tools, &cx, json!({"query": "tells sun"})).await.unwrap();
    assert_eq!(found(&findings), ["sun"]);
}

#[tokio::test]
async fn searches_at_the_same_time_lose_nothing() {
    let cx = support::toolset_cx();
    let tools = large(64).searchable();
    let tool = get(&tools, &cx, "search_tools").await;
    let searches = (0..32).map(|number| {
        let (tool, state) = (Arc::clone(&tool), cx.state.clone());
        let arguments = json!({"query": format!("subject{number}x")});
        tokio::spawn(async move { support::run(&tool, noting(&state), arguments).await })
    });
    for search in searches.collect::<Vec<_>>() {
        search.await.unwrap().unwrap();
    }
    assert_eq!(names(&tools, &cx).await.len(), 33);
}

#[tokio::test]
async fn names_that_collide_and_sets_that_are_too_large_are_refused() {
    let cx = support::toolset_cx();
    let taken = set("files", &["read", "search_tools"]).searchable();
    assert!(refusal(&taken, &cx).await.contains("two tools named `search_tools`"));
    let other = taken.search_name("find_files").unwrap();
    assert_eq!(names(&other, &cx).await, ["find_files"]);
    let error = set("files", &[]).searchable().search_name("find files").err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let huge = large(10_001).searchable();
    assert!(refusal(&huge, &cx).await.contains("more than 10000 tools"));
}
