//! Sets that change while a program runs.

use std::sync::Arc;

use provost_core::ErrorKind;
use provost_tool::{MutableToolset, RunContext, Tool, ToolError, Toolset, toolset_fn};
use serde_json::json;

use super::{get, names, refusal, tool};
use crate::support;

#[tokio::test]
async fn tools_come_and_go() {
    let cx = support::toolset_cx();
    let (kept, given) = {
        let set = MutableToolset::new("plugins");
        (set.clone(), set)
    };
    assert!(names(&given, &cx).await.is_empty());
    kept.add_shared(tool("one")).unwrap();
    kept.add_shared(tool("two")).unwrap();
    assert_eq!(names(&given, &cx).await, ["one", "two"]);
    assert!(kept.remove("one"));
    assert!(!kept.remove("one"));
    assert_eq!((names(&given, &cx).await, kept.names()), (vec!["two".into()], vec!["two".into()]));
}

#[tokio::test]
async fn a_second_tool_of_a_name_and_too_many_are_refused() {
    let set = MutableToolset::new("plugins");
    set.add_shared(tool("one")).unwrap();
    let error = set.add_shared(tool("one")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let mut added = 1;
    let error = loop {
        match set.add_shared(tool(&format!("t{added}"))) {
            Ok(()) => added += 1,
            Err(error) => break error,
        }
        assert!(added <= 10_000, "no bound");
    };
    assert_eq!((added, error.kind()), (10_000, ErrorKind::Exhausted));
}

#[tokio::test]
async fn a_removed_tool_does_not_run_even_if_it_was_offered() {
    let cx = support::toolset_cx();
    let set = MutableToolset::new("plugins");
    set.add_shared(tool("one")).unwrap();
    let offered = get(&set, &cx, "one").await;
    assert_eq!(
        support::run(&offered, support::cx(), json!({})).await.unwrap().to_text(),
        "one ran"
    );
    set.remove("one");
    let refused = support::run(&offered, support::cx(), json!({})).await.unwrap_err();
    assert!(refused.to_string().contains("no longer available"), "{refused}");
    // Another tool of that name is not what was offered.
    set.add_shared(tool("one")).unwrap();
    assert!(support::run(&offered, support::cx(), json!({})).await.is_err());
}

#[tokio::test]
async fn a_function_gives_the_tools_of_each_turn() {
    let set = toolset_fn("levels", |cx: RunContext| async move {
        match cx.turn {
            1..=2 => Ok((0..cx.turn).map(|n| tool(&format!("level_{n}"))).collect()),
            _ => Err(ToolError::failed("no such level")),
        }
    });
    let cx = support::toolset_cx();
    assert_eq!(set.name(), "levels");
    assert_eq!(names(&set, &cx).await, ["level_0"]);
    let cx = RunContext { turn: 2, ..cx };
    assert_eq!(names(&set, &cx).await, ["level_0", "level_1"]);
    assert_eq!(refusal(&set, &RunContext { turn: 3, ..cx }).await, "no such level");
}

#[tokio::test]
async fn one_set_can_be_shared() {
    let cx = support::toolset_cx();
    let set = MutableToolset::new("plugins");
    set.add_shared(tool("one")).unwrap();
    let shared: Arc<dyn Toolset> = Arc::new(set);
    let again: Arc<dyn Toolset> = Arc::new(Arc::clone(&shared));
    assert_eq!((again.name(), names(&again, &cx).await), ("plugins", vec!["one".to_owned()]));
    let offered: Vec<Arc<dyn Tool>> = again.tools(&cx).await.unwrap();
    assert_eq!(offered.len(), 1);
}
