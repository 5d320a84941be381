//! Groups of tools.

mod dynamic;
mod search;
mod wrapped;

use std::sync::Arc;

use futures::FutureExt;
use provost_tool::{
    ApprovalRequiredToolset, CombinedToolset, FilteredToolset, Guard, GuardDecision,
    RequiresApproval, RunContext, StaticToolset, Tool, ToolError, Toolset, ToolsetFuture, tool_fn,
};
use serde_json::json;

use crate::support;

fn tool(name: &str) -> Arc<dyn Tool> {
    let text = format!("{name} ran");
    let tool = tool_fn(name, "Does it", move |_, ()| {
        let text = text.clone();
        async move { Ok::<_, ToolError>(text) }
    });
    Arc::new(tool.unwrap())
}

fn set(name: &str, tools: &[&str]) -> StaticToolset {
    StaticToolset::new(name, tools.iter().map(|name| tool(name)))
}

async fn names(set: &dyn Toolset, cx: &RunContext) -> Vec<String> {
    let tools = set.tools(cx).await.unwrap();
    tools.iter().map(|tool| tool.spec().name().to_owned()).collect()
}

#[tokio::test]
async fn s217_a_static_set_gives_all_and_an_empty_one_nothing() {
    let cx = support::toolset_cx();
    let files = set("files", &["read", "write"]);
    assert_eq!(files.name(), "files");
    assert_eq!(names(&files, &cx).await, ["read", "write"]);
    assert!(names(&set("empty", &[]), &cx).await.is_empty());
    let none: [Arc<dyn Toolset>; 0] = [];
    assert!(names(&CombinedToolset::new("none", none), &cx).await.is_empty());
}

#[tokio::test]
async fn s217_a_filter_keeps_what_matches_and_sees_the_turn() {
    let cx = support::toolset_cx();
    let all = set("files", &["read", "write"]);
    let readers = FilteredToolset::new("readers", all.clone(), |_, spec| spec.name() == "read");
    assert_eq!(readers.name(), "readers");
    assert_eq!(names(&readers, &cx).await, ["read"]);
    let nothing = FilteredToolset::new("nothing", all.clone(), |_, _| false);
    assert!(names(&nothing, &cx).await.is_empty());
    let trusted = FilteredToolset::new("trusted", all, |cx, _| {
        cx.turn > 1 && cx.agent.starts_with("lead/") && cx.state.get("trusted") == Some(true)
    });
    assert!(names(&trusted, &cx).await.is_empty());
    let later = RunContext { turn: 2, ..cx };
    later.state.set("trusted", true).unwrap();
    assert_eq!(names(&trusted, &later).await, ["read", "write"]);
}

#[tokio::test]
async fn s217_a_composite_joins_in_order_filtered_sets_too() {
    let cx = support::toolset_cx();
    let filtered =
        FilteredToolset::new("some", set("all", &["a", "b"]), |_, spec| spec.name() != "a");
    let both = CombinedToolset::new(
        "both",
        [
            Arc::new(set("first", &["x", "y"])) as Arc<dyn Toolset>,
            Arc::new(filtered),
            Arc::new(set("empty", &[])),
        ],
    );
    assert_eq!(both.name(), "both");
    assert_eq!(names(&both, &cx).await, ["x", "y", "b"]);
}

#[tokio::test]
async fn s216_a_confirmed_set_asks_and_leaves_the_original_alone() {
    let cx = support::toolset_cx();
    let original = set("files", &["write"]);
    let confirmed = ApprovalRequiredToolset::new(original.clone());
    assert_eq!(confirmed.name(), "files");
    let tools = confirmed.tools(&cx).await.unwrap();
    assert!(matches!(tools[0].spec().approval, RequiresApproval::Always));
    let call = support::call(&tools[0], &json!({}));
    assert!(matches!(Guard::default().check(&tools[0], &call, false), GuardDecision::Ask(_)));
    let GuardDecision::Allow(permit) = Guard::default().check(&tools[0], &call, true) else {
        panic!("approved but not allowed");
    };
    let output = Guard::default().run(permit, support::cx()).await;
    assert_eq!(output.unwrap().to_text(), "write ran");
    let untouched = original.tools(&cx).await.unwrap();
    assert!(matches!(untouched[0].spec().approval, RequiresApproval::Never));
}

struct Broken;

impl Toolset for Broken {
    fn name(&self) -> &str {
        "broken"
    }

    fn tools<'a>(&'a self, _cx: &'a RunContext) -> ToolsetFuture<'a> {
        std::future::ready(Err(ToolError::failed("no connection"))).boxed()
    }
}

#[tokio::test]
async fn a_set_that_fails_fails_every_set_around_it() {
    let cx = support::toolset_cx();
    let composite = CombinedToolset::new("all", [Arc::new(Broken) as Arc<dyn Toolset>]);
    let filtered = FilteredToolset::new("some", composite, |_, _| true);
    let confirmed = ApprovalRequiredToolset::new(filtered);
    let Err(error) = confirmed.tools(&cx).await else {
        panic!("it worked");
    };
    assert_eq!(error, ToolError::failed("no connection"));
}

#[tokio::test]
async fn s212_a_tool_of_a_set_is_found_by_name_and_runs() {
    let tools = set("files", &["read", "write"]).tools(&support::toolset_cx()).await.unwrap();
    let found = tools.iter().find(|tool| tool.spec().name() == "write").unwrap();
    let output = support::run(found, support::cx(), json!({})).await;
    assert_eq!(output.unwrap().to_text(), "write ran");
    assert!(!tools.iter().any(|tool| tool.spec().name() == "delete"));
}

/// The first of a set's tools with this name.
async fn get(set: &dyn Toolset, cx: &RunContext, name: &str) -> Arc<dyn Tool> {
    let tools = set.tools(cx).await.unwrap();
    tools.into_iter().find(|tool| tool.spec().name() == name).unwrap()
}

/// Why a set does not give its tools.
async fn refusal(set: &dyn Toolset, cx: &RunContext) -> String {
    match set.tools(cx).await {
        Ok(_) => panic!("it worked"),
        Err(error) => error.to_string(),
    }
}
