//! Groups of tools that may change from turn to turn.

mod made;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::FutureExt;
use provost_agent::hook::{Hook, HookDecision, HookError};
use provost_agent::{Agent, BuildError, Error};
use provost_core::{Event, EventKind, ToolCall};
use provost_model::{ChatRequest, ScriptedModel, call, text};
use provost_redact::{Redact, RedactChunks};
use provost_tool::{
    CombinedToolset, FilteredToolset, FnTool, GuardServices, RunContext, StaticToolset, Tool,
    ToolError, Toolset, ToolsetFuture, tool_fn,
};
use serde_json::json;

use crate::support::{Say, echo, events, final_text};

/// A tool that does nothing but answer.
fn plain(name: &str) -> FnTool {
    tool_fn(name, "Answers", |cx, _args: Say| async move {
        Ok::<_, ToolError>(format!("{} ran", cx.tool()))
    })
    .unwrap()
}

/// A tool that writes down in the run's notes that the vault is open.
fn unlock() -> FnTool {
    tool_fn("unlock", "Opens the vault", |cx, _args: Say| async move {
        cx.state().set("open", true)?;
        Ok("open")
    })
    .unwrap()
}

fn set(name: &str, tools: impl IntoIterator<Item = FnTool>) -> StaticToolset {
    StaticToolset::new(name, tools.into_iter().map(|tool| Arc::new(tool) as Arc<dyn Tool>))
}

/// Shows the vault only once it is open.
fn guarded() -> FilteredToolset {
    let all = set("all", [unlock(), plain("vault")]);
    FilteredToolset::new("guarded", all, |cx, spec| {
        spec.name() != "vault" || cx.state.get::<bool>("open").unwrap_or(false)
    })
}

/// A toolset that cannot be reached.
struct Unreachable;

impl Toolset for Unreachable {
    fn name(&self) -> &str {
        "far_away"
    }

    fn tools<'a>(&'a self, _cx: &'a RunContext) -> ToolsetFuture<'a> {
        std::future::ready(Err(ToolError::failed("no route to host"))).boxed()
    }
}

/// A toolset that counts how often it is asked, and for which turns.
#[derive(Clone, Default)]
struct Counted(Arc<std::sync::Mutex<Vec<u32>>>);

impl Toolset for Counted {
    fn name(&self) -> &str {
        "counted"
    }

    fn tools<'a>(&'a self, cx: &'a RunContext) -> ToolsetFuture<'a> {
        self.0.lock().unwrap().push(cx.turn);
        let tool: Arc<dyn Tool> = Arc::new(plain("alpha"));
        std::future::ready(Ok(vec![tool])).boxed()
    }
}

fn offered(request: &ChatRequest) -> Vec<&str> {
    request.tools.iter().map(|tool| tool.name.as_str()).collect()
}

fn warnings(events: &[Event]) -> Vec<&str> {
    let warning = |event| match event {
        &Event { kind: EventKind::Warning { ref message }, .. } => Some(message.as_str()),
        _ => None,
    };
    events.iter().filter_map(warning).collect()
}

#[tokio::test]
async fn s152_a_static_toolset_is_offered() {
    let model = ScriptedModel::new().turn(text("hi"));
    let tools = set("two", [plain("alpha"), plain("beta")]);
    let agent = Agent::builder("tester", model.clone()).toolset(tools).build().unwrap();
    agent.run("go").await.unwrap();
    assert_eq!(offered(&model.request(0)), ["alpha", "beta"]);
}

#[tokio::test]
async fn s153_toolsets_and_plain_tools_are_offered_together() {
    let model = ScriptedModel::new().turn(text("hi"));
    let agent = Agent::builder("tester", model.clone())
        .toolset(set("one", [plain("beta")]))
        .tool(plain("alpha"))
        .toolset(set("two", [plain("gamma")]));
    agent.build().unwrap().run("go").tool(plain("own")).await.unwrap();
    assert_eq!(offered(&model.request(0)), ["alpha", "own", "beta", "gamma"]);
}

/// The caller's part of a run that a filter looks at.
struct Phase(&'static str);

#[tokio::test]
async fn s154_a_filter_sees_what_the_program_gave_the_run() {
    let model = ScriptedModel::new().turn(text("a")).turn(text("b"));
    let all = set("all", [plain("plan"), plain("deploy")]);
    let tools = FilteredToolset::new("by_phase", all, |cx, spec| {
        spec.name() != "deploy" || cx.deps.get::<Phase>().is_some_and(|phase| phase.0 == "release")
    });
    let agent = Agent::builder("tester", model.clone()).toolset(tools).build().unwrap();
    agent.run("go").dep(Phase("design")).await.unwrap();
    agent.run("go").dep(Phase("release")).await.unwrap();
    assert_eq!(offered(&model.request(0)), ["plan"]);
    assert_eq!(offered(&model.request(1)), ["plan", "deploy"]);
}

#[tokio::test]
async fn s155_a_tool_call_can_unlock_another_tool() {
    let model = ScriptedModel::new()
        .turn(call("vault", json!({})))
        .turn(call("unlock", json!({})))
        .turn(call("vault", json!({})))
        .turn(text("done"));
    let agent = Agent::builder("tester", model.clone()).toolset(guarded()).build().unwrap();
    let result = agent.run("go").await.unwrap();
    assert_eq!(offered(&model.request(0)), ["unlock"]);
    assert_eq!(offered(&model.request(1)), ["unlock"]);
    assert_eq!(offered(&model.request(2)), ["unlock", "vault"]);
    let results: Vec<_> = result.tool_results.iter().map(|r| (r.is_error, r.to_text())).collect();
    assert!(results[0].0, "what is not offered cannot run: {results:?}");
    assert_eq!(results[2], (false, "vault ran".to_owned()));
}

/// The source asks a toolset twice in a turn, for the offer and for the run; here once.
#[tokio::test]
async fn s155_a_toolset_is_asked_once_per_turn() {
    let counted = Counted::default();
    let model = ScriptedModel::new().turn(call("alpha", json!({}))).turn(text("done"));
    let agent = Agent::builder("tester", model).toolset(counted.clone()).build().unwrap();
    agent.run("go").await.unwrap();
    assert_eq!(*counted.0.lock().unwrap(), [1, 2]);
}

#[tokio::test]
async fn s156_a_filter_is_asked_again_in_the_next_run() {
    let model = ScriptedModel::new()
        .turn(call("unlock", json!({})))
        .turn(text("open"))
        .turn(text("closed again"))
        .turn(text("open from the start"));
    let agent = Agent::builder("tester", model.clone()).toolset(guarded()).build().unwrap();
    agent.run("one").await.unwrap();
    agent.run("two").await.unwrap();
    agent.run("three").state("open", true).await.unwrap();
    assert_eq!(offered(&model.request(1)), ["unlock", "vault"]);
    assert_eq!(offered(&model.request(2)), ["unlock"], "notes belong to one run");
    assert_eq!(offered(&model.request(3)), ["unlock", "vault"]);
}

#[tokio::test]
async fn s157_a_composite_offers_all_of_its_sets() {
    let model = ScriptedModel::new().turn(text("hi"));
    let sets: [Arc<dyn Toolset>; 3] =
        [Arc::new(set("a", [plain("alpha")])), Arc::new(guarded()), Arc::new(set("c", []))];
    let tools = CombinedToolset::new("all", sets);
    let agent = Agent::builder("tester", model.clone()).toolset(tools).build().unwrap();
    agent.run("go").await.unwrap();
    assert_eq!(offered(&model.request(0)), ["alpha", "unlock"]);
}

#[tokio::test]
async fn s158_tools_of_a_toolset_run_and_count() {
    let count = Arc::new(AtomicUsize::new(0));
    let model = ScriptedModel::new().turn(call("echo", json!({"text": "x"}))).turn(text("done"));
    let tools = set("echoes", [echo(&count)]);
    let agent = Agent::builder("tester", model.clone()).toolset(tools).build().unwrap();
    let result = agent.run("go").await.unwrap();
    assert_eq!((result.tool_calls, count.load(Ordering::SeqCst)), (1, 1));
    assert_eq!(model.request(1).last_tool_result().unwrap().to_text(), "echo: x");
}

/// Refuses every call of one tool.
struct Refuse(&'static str);

#[async_trait]
impl Hook for Refuse {
    async fn before_tool_call(
        &self,
        _cx: &RunContext,
        call: &mut ToolCall,
    ) -> Result<HookDecision, HookError> {
        Ok(if call.name == self.0 {
            HookDecision::Deny("not now".into())
        } else {
            HookDecision::Allow
        })
    }
}

#[tokio::test]
async fn s159_hooks_apply_to_tools_of_a_toolset() {
    let count = Arc::new(AtomicUsize::new(0));
    let model = ScriptedModel::new().turn(call("echo", json!({}))).turn(text("done"));
    let agent = Agent::builder("tester", model.clone()).toolset(set("echoes", [echo(&count)]));
    agent.hook(Refuse("echo")).build().unwrap().run("go").await.unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 0);
    let request = model.request(1);
    let told = request.last_tool_result().unwrap();
    assert!(told.is_error && told.to_text().contains("not now"));
}

#[tokio::test]
async fn s160_a_stream_works_with_toolsets() {
    let model = ScriptedModel::new()
        .turn(call("unlock", json!({})))
        .turn(call("vault", json!({})))
        .turn(text("done"));
    let agent = Agent::builder("tester", model.clone()).toolset(guarded()).build().unwrap();
    let events = events(agent.run("go").stream()).await;
    assert_eq!(final_text(&events), "done");
    assert_eq!(warnings(&events), Vec::<&str>::new());
    assert_eq!(model.request(2).last_tool_result().unwrap().to_text(), "vault ran");
}

#[tokio::test]
async fn s161_an_empty_toolset_offers_nothing() {
    let model = ScriptedModel::new().turn(text("hi"));
    let agent = Agent::builder("tester", model.clone()).toolset(set("none", []));
    let result = agent.build().unwrap().run("go").await.unwrap();
    assert_eq!(result.output, "hi");
    assert!(offered(&model.request(0)).is_empty());
}

/// The source drops the tools of a failing server without a word.
#[tokio::test]
async fn a_toolset_that_fails_is_a_warning() {
    let model = ScriptedModel::new().turn(call("alpha", json!({}))).turn(text("done"));
    let agent = Agent::builder("tester", model.clone())
        .toolset(Unreachable)
        .toolset(set("near", [plain("alpha")]));
    let events = events(agent.build().unwrap().run("go").stream()).await;
    assert_eq!(final_text(&events), "done");
    let sentence = "toolset `far_away` is not available: no route to host";
    assert_eq!(warnings(&events), [sentence; 2], "once for each turn");
    assert_eq!(offered(&model.request(0)), ["alpha"]);
}

/// Knows one secret.
struct OneSecret;

impl Redact for OneSecret {
    fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        Cow::Owned(text.replace("route", "[gone]"))
    }

    fn stream(&self) -> Box<dyn RedactChunks> {
        panic!("a warning is no stream")
    }
}

#[tokio::test]
async fn a_warning_about_a_toolset_holds_no_secret() {
    let services = GuardServices { redact: Some(Arc::new(OneSecret)), ..GuardServices::default() };
    let agent = Agent::builder("tester", ScriptedModel::new().turn(text("done")))
        .toolset(Unreachable)
        .guard_services(services);
    let events = events(agent.build().unwrap().run("go").stream()).await;
    assert_eq!(warnings(&events), ["toolset `far_away` is not available: no [gone] to host"]);
}

/// The source lets a later tool take the place of an earlier one and shows the model both.
#[tokio::test]
async fn two_tools_of_one_name_are_refused() {
    let model = ScriptedModel::new().turn(text("hi"));
    let twice = Agent::builder("tester", model.clone()).tool(plain("alpha")).tool(plain("alpha"));
    assert_eq!(twice.build().unwrap_err(), BuildError::DuplicateTool("alpha".into()));
    let agent = Agent::builder("tester", model.clone()).tool(plain("alpha")).build().unwrap();
    let error = agent.run("go").tool(plain("alpha")).await.unwrap_err();
    assert!(matches!(&error, Error::Start(text) if text.contains("`alpha`")), "{error}");
    assert_eq!(model.call_count(), 0);
}

#[tokio::test]
async fn a_second_tool_of_a_name_from_a_toolset_is_left_out_with_a_warning() {
    let count = Arc::new(AtomicUsize::new(0));
    let model = ScriptedModel::new().turn(call("echo", json!({}))).turn(text("done"));
    let agent = Agent::builder("tester", model.clone()).tool(echo(&count));
    let agent = agent.toolset(set("other", [plain("echo"), plain("beta")])).build().unwrap();
    let events = events(agent.run("go").stream()).await;
    assert_eq!(offered(&model.request(0)), ["echo", "beta"]);
    assert_eq!(count.load(Ordering::SeqCst), 1, "the agent's own tool ran");
    assert!(warnings(&events)[0].contains("`echo`"));
}
