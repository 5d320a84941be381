//! One set made of another: names, approvals, filters that change their mind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use futures::future::BoxFuture;
use provost_core::ErrorKind;
use provost_core::recovery::EffectKey;
use provost_tool::{
    Guard, GuardDecision, MutableToolset, Permit, ProbeOutcome, RequiresApproval, StaticToolset,
    Tool, ToolContext, ToolFuture, ToolOutput, ToolSpec, Toolset, ToolsetError, ToolsetExt,
};
use serde_json::{Value, json};

use super::{get, names, refusal, set, tool};
use crate::support;

/// A tool that can tell what became of its calls.
struct Ledger(ToolSpec);

impl Tool for Ledger {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn call(&self, _permit: Permit, cx: ToolContext) -> ToolFuture {
        std::future::ready(Ok(ToolOutput::text(format!("called as {}", cx.tool())))).boxed()
    }

    fn probe(&self, _key: EffectKey, arguments: Value) -> BoxFuture<'static, ProbeOutcome> {
        std::future::ready(ProbeOutcome::Completed(ToolOutput::json(&arguments))).boxed()
    }
}

fn ledger() -> StaticToolset {
    StaticToolset::new("ledger", []).with(Ledger(ToolSpec::typed::<()>("book", "Books").unwrap()))
}

#[tokio::test]
async fn a_prefix_is_before_each_name_and_the_tools_run() {
    let cx = support::toolset_cx();
    let tools = set("files", &["read", "write"]).prefix("disk_").unwrap();
    assert_eq!(tools.name(), "files");
    assert_eq!(names(&tools, &cx).await, ["disk_read", "disk_write"]);
    let write = get(&tools, &cx, "disk_write").await;
    let output = support::run(&write, support::cx(), json!({})).await;
    assert_eq!(output.unwrap().to_text(), "write ran");
    assert_eq!(write.spec().def().description, "Does it");
}

#[tokio::test]
async fn a_set_that_stays_the_same_is_renamed_once() {
    let cx = support::toolset_cx();
    let inner = MutableToolset::new("files");
    inner.add_shared(tool("read")).unwrap();
    let shared: Arc<dyn Toolset> = Arc::new(set("files", &["read", "write"]));
    let tools = shared.prefix("a_").unwrap();
    let (one, two) = (tools.tools(&cx).await.unwrap(), tools.tools(&cx).await.unwrap());
    assert!(one.iter().zip(&two).all(|(one, two)| Arc::ptr_eq(one, two)));
    // Tools that come and go get their own names, whatever was at their place before.
    let tools = inner.clone().prefix("b_").unwrap();
    assert_eq!(names(&tools, &cx).await, ["b_read"]);
    inner.remove("read");
    inner.add_shared(tool("other")).unwrap();
    assert_eq!(names(&tools, &cx).await, ["b_other"]);
}

#[tokio::test]
async fn names_that_no_tool_can_have_are_refused() {
    let cx = support::toolset_cx();
    for prefix in ["a b", "é", "a.b", &"p".repeat(64)] {
        let error = set("files", &["read"]).prefix(prefix).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{prefix}: {error}");
    }
    let fits = set("files", &["read"]).prefix("p".repeat(60)).unwrap();
    assert_eq!(names(&fits, &cx).await[0].len(), 64);
    let too_long = set("files", &["read", "write"]).prefix("p".repeat(60)).unwrap();
    let told = refusal(&too_long, &cx).await;
    assert!(told.contains("toolset `files`") && told.contains("1 to 64"), "{told}");
    let error = set("files", &["read"]).rename([("read", "to read")]).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

#[tokio::test]
async fn tools_get_the_names_they_are_given() {
    let cx = support::toolset_cx();
    let tools = set("files", &["read", "write", "list"])
        .rename([("read", "write"), ("write", "read")])
        .unwrap();
    assert_eq!(names(&tools, &cx).await, ["write", "read", "list"], "two may swap");
    let read = get(&tools, &cx, "read").await;
    let output = support::run(&read, support::cx(), json!({})).await;
    assert_eq!(output.unwrap().to_text(), "write ran");
}

#[tokio::test]
async fn renaming_what_is_not_there_or_to_what_is_there_is_refused() {
    let cx = support::toolset_cx();
    let files = || set("files", &["read", "write"]);
    let twice = files().rename([("read", "x"), ("write", "x")]).err().unwrap();
    assert_eq!(twice, ToolsetError::Duplicate { set: "files".into(), tool: "x".into() });
    assert!(files().rename([("read", "x"), ("read", "y")]).is_err());
    let taken = files().rename([("read", "write")]).unwrap();
    let told = refusal(&taken, &cx).await;
    assert_eq!(told, "toolset `files` would have two tools named `write`: rename one of them");
    let unknown = files().rename([("delete", "remove")]).unwrap();
    assert_eq!(refusal(&unknown, &cx).await, "toolset `files` has no tool `delete` to rename");
}

/// What the guard says about a call that nobody has approved.
async fn verdict(set: &dyn Toolset, tool: &str, arguments: Value) -> &'static str {
    let tool = get(set, &support::toolset_cx(), tool).await;
    match Guard::default().check(&tool, &support::call(&tool, &arguments), false) {
        GuardDecision::Allow(_) => "allow",
        GuardDecision::Ask(_) => "ask",
        other => panic!("{}", support::verdict(other)),
    }
}

#[tokio::test]
async fn s216_an_approval_set_asks_for_the_calls_its_predicate_names() {
    let files = set("files", &["read", "write"]);
    let tools = files.clone().require_approval_if(|cx, spec, arguments| {
        cx.agent.starts_with("lead/") && spec.name() == "write" && arguments["path"] != "/tmp/x"
    });
    assert_eq!(tools.name(), "files");
    assert_eq!(verdict(&tools, "read", json!({})).await, "allow");
    assert_eq!(verdict(&tools, "write", json!({"path": "/etc"})).await, "ask");
    assert_eq!(verdict(&tools, "write", json!({"path": "/tmp/x"})).await, "allow");
    assert_eq!(verdict(&files, "write", json!({})).await, "allow", "the original stays");
}

#[tokio::test]
async fn an_approval_set_only_makes_stricter() {
    let own = |approval: RequiresApproval| {
        let spec = ToolSpec::typed::<()>("book", "Books").unwrap().approval(approval);
        StaticToolset::new("ledger", []).with(Ledger(spec))
    };
    let never = |set: StaticToolset| set.require_approval_if(|_, _, _| false);
    assert_eq!(verdict(&never(own(RequiresApproval::Always)), "book", json!({})).await, "ask");
    let when = || own(RequiresApproval::when(|arguments| arguments["sum"] == 1));
    assert_eq!(verdict(&never(when()), "book", json!({"sum": 1})).await, "ask");
    assert_eq!(verdict(&never(when()), "book", json!({"sum": 2})).await, "allow");
    let also = when().require_approval_if(|_, _, arguments| arguments["sum"] == 2);
    assert_eq!(verdict(&also, "book", json!({"sum": 2})).await, "ask");
    let broken = own(RequiresApproval::Never).require_approval_if(|_, _, _| panic!("no idea"));
    assert_eq!(verdict(&broken, "book", json!({})).await, "ask");
    assert_eq!(verdict(&ledger().require_approval(), "book", json!({})).await, "ask");
}

#[tokio::test]
async fn every_wrapper_passes_a_probe_on() {
    let cx = support::toolset_cx();
    let dynamic = MutableToolset::new("ledger");
    dynamic.add(Ledger(ToolSpec::typed::<()>("book", "Books").unwrap())).unwrap();
    let sets: [(&str, Box<dyn Toolset>); 8] = [
        ("filter", Box::new(ledger().filter(|_, _| true))),
        ("prefix", Box::new(ledger().prefix("p_").unwrap())),
        ("rename", Box::new(ledger().rename([("book", "note")]).unwrap())),
        ("approve", Box::new(ledger().require_approval_if(|_, _, _| true))),
        ("confirm", Box::new(ledger().require_approval())),
        ("and", Box::new(ledger().and(set("none", &[])))),
        ("search", Box::new(ledger().searchable().always_offer(["book"]))),
        ("dynamic", Box::new(dynamic)),
    ];
    for (what, set) in sets {
        let tools = set.tools(&cx).await.unwrap();
        let key = EffectKey::new(support::run_id(), 1, 0);
        let probe = tools.last().unwrap().probe(key, json!({"sum": 3})).await;
        assert_eq!(probe, ProbeOutcome::Completed(ToolOutput::text(r#"{"sum":3}"#)), "{what}");
    }
}

#[tokio::test]
async fn what_a_filter_hides_between_the_offer_and_the_call_does_not_run() {
    let cx = support::toolset_cx();
    let open = Arc::new(AtomicBool::new(true));
    let seen = Arc::clone(&open);
    let tools = set("files", &["write"]).filter(move |_, _| seen.load(Ordering::SeqCst));
    let write = get(&tools, &cx, "write").await;
    let output = support::run(&write, support::cx(), json!({})).await;
    assert_eq!(output.unwrap().to_text(), "write ran");
    open.store(false, Ordering::SeqCst);
    let refused = support::run(&write, support::cx(), json!({})).await.unwrap_err();
    assert_eq!(refused.to_string(), "tool `write` is no longer available; it did not run");
    assert!(names(&tools, &cx).await.is_empty());
}

#[tokio::test]
async fn steps_see_what_the_step_before_them_gives() {
    let cx = support::toolset_cx();
    let tools = set("files", &["read", "write"])
        .filter(|_, spec| spec.name() != "read")
        .prefix("disk_")
        .unwrap()
        .rename([("disk_write", "save")])
        .unwrap()
        .and(set("mail", &["send"]).prefix("mail_").unwrap())
        .filter(|_, spec| spec.name() != "read");
    assert_eq!(tools.name(), "files");
    assert_eq!(names(&tools, &cx).await, ["save", "mail_send"]);
}
