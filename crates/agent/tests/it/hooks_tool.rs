//! Hooks around tools. What is true of an awaited run is true of a streamed one: most tests run both ways.

mod execution;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use provost_agent::hook::{Hook, HookDecision, HookError, ToolCallEnd, ToolFailure};
use provost_agent::{Agent, AgentBuilder};
use provost_core::{EventKind, ToolCall, ToolResult};
use provost_model::{ScriptedModel, call, calls, text};
use provost_tool::{RunContext, ToolError, ToolOutput, tool_fn};
use serde_json::json;

use crate::support::{Say, broken, echo, ended, events, final_text, names};

type Gated = Result<HookDecision, HookError>;
type Rescue = Result<Option<ToolOutput>, HookError>;

struct Pre<F>(F);

#[async_trait]
impl<F: Fn(&mut ToolCall) -> Gated + Send + Sync + 'static> Hook for Pre<F> {
    async fn before_tool_call(&self, _cx: &RunContext, call: &mut ToolCall) -> Gated {
        (self.0)(call)
    }
}

fn pre(hook: impl Fn(&mut ToolCall) -> Gated + Send + Sync + 'static) -> impl Hook {
    Pre(hook)
}

struct Post<F>(F);

#[async_trait]
impl<F: Fn(&mut ToolCallEnd<'_>) -> Result<(), HookError> + Send + Sync + 'static> Hook
    for Post<F>
{
    async fn after_tool_call(
        &self,
        _cx: &RunContext,
        end: &mut ToolCallEnd<'_>,
    ) -> Result<(), HookError> {
        (self.0)(end)
    }
}

fn post(
    hook: impl Fn(&mut ToolCallEnd<'_>) -> Result<(), HookError> + Send + Sync + 'static,
) -> impl Hook {
    Post(hook)
}

struct OnError<F>(F);

#[async_trait]
impl<F: Fn(&ToolFailure<'_>) -> Rescue + Send + Sync + 'static> Hook for OnError<F> {
    async fn on_tool_error(&self, _cx: &RunContext, failure: &ToolFailure<'_>) -> Rescue {
        (self.0)(failure)
    }
}

fn on_error(hook: impl Fn(&ToolFailure<'_>) -> Rescue + Send + Sync + 'static) -> impl Hook {
    OnError(hook)
}

fn arguments(call: &mut ToolCall, value: &str) -> Gated {
    call.arguments = json!({ "text": value }).to_string();
    Ok(HookDecision::Allow)
}

/// A tool that says so itself when it fails.
fn flagged() -> provost_tool::FnTool {
    tool_fn("flagged", "Says that it failed", |_cx, _args: Say| async {
        Ok::<_, ToolError>(ToolOutput::error("it says no"))
    })
    .unwrap()
}

/// What the model was told about its one call, and how often the echo tool ran.
#[derive(Debug, PartialEq)]
struct Told {
    result: ToolResult,
    echoes: usize,
}

impl Told {
    fn text(&self) -> String {
        self.result.to_text()
    }
}

/// One call of a tool, then `done`; awaited and streamed, with the same result.
async fn told(tool: &str, setup: impl Fn(AgentBuilder) -> AgentBuilder) -> Told {
    let awaited = told_once(tool, &setup, /*streaming*/ false).await;
    let streamed = told_once(tool, &setup, /*streaming*/ true).await;
    assert_eq!(awaited, streamed);
    awaited
}

async fn told_once(
    tool: &str,
    setup: impl Fn(AgentBuilder) -> AgentBuilder,
    streaming: bool,
) -> Told {
    let model =
        ScriptedModel::new().turn(call(tool, json!({ "text": "first" }))).turn(text("done"));
    let echoes = Arc::new(AtomicUsize::new(0));
    let builder = Agent::builder("tester", model.clone());
    let builder = setup(builder.tool(echo(&echoes)).tool(broken()).tool(flagged()));
    let summary = ended(builder.build().unwrap().run("hi"), streaming).await.unwrap();
    assert_eq!((summary.text.as_str(), summary.turns), ("done", 2), "the run goes on");
    model.assert_exhausted();
    let result = model.request(1).last_tool_result().unwrap().clone();
    Told { result, echoes: echoes.load(Ordering::SeqCst) }
}

#[tokio::test]
async fn s054_a_denied_call_does_not_run_and_the_model_is_told() {
    let told = told("echo", |agent| {
        agent.hook(pre(|_| Ok(HookDecision::Deny("not on Sundays".to_owned()))))
    })
    .await;
    assert_eq!(told.echoes, 0);
    assert!(told.result.is_error);
    assert!(told.text().contains("not on Sundays"), "{}", told.text());
}

#[tokio::test]
async fn s055_the_tool_receives_the_changed_input() {
    let told = told("echo", |agent| agent.hook(pre(|call| arguments(call, "changed")))).await;
    assert_eq!((told.text().as_str(), told.echoes), ("echo: changed", 1));
}

#[tokio::test]
async fn history_keeps_the_call_and_later_hooks_see_what_ran() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let model = ScriptedModel::new()
        .turn(calls([("echo", json!({ "text": "own" })), ("broken", json!({ "text": "own" }))]))
        .turn(text("done"));
    let (ends, failures) = (Arc::clone(&seen), Arc::clone(&seen));
    let agent = Agent::builder("tester", model.clone())
        .tool(echo(&Arc::default()))
        .tool(broken())
        .max_parallel_tools(1)
        .hook(pre(|call| {
            call.id = "forged".to_owned();
            arguments(call, "changed")
        }))
        .hook(post(move |end| {
            ends.lock().unwrap().push(format!("post {} {}", end.call.id, end.call.arguments));
            Ok(())
        }))
        .hook(on_error(move |failure| {
            let call = failure.call;
            failures.lock().unwrap().push(format!("error {} {}", call.id, call.arguments));
            Ok(None)
        }))
        .build()
        .unwrap();
    agent.run("hi").await.unwrap();
    let changed = json!({ "text": "changed" });
    // The source shows these hooks the input before the change; ours see the input that ran.
    assert_eq!(
        *seen.lock().unwrap(),
        [
            format!("post call_1 {changed}"),
            format!("error call_2 {changed}"),
            format!("post call_2 {changed}"),
        ]
    );
    let request = model.request(1);
    let call = request.messages[1].tool_calls().next().unwrap();
    assert_eq!(call.parse_arguments().unwrap(), json!({ "text": "own" }));
    assert_eq!(call.id, "call_1", "a hook cannot break the tie between call and result");
}

#[tokio::test]
async fn s056_an_allowed_call_runs() {
    let told = told("echo", |agent| agent.hook(pre(|_| Ok(HookDecision::Allow)))).await;
    assert_eq!((told.text().as_str(), told.echoes), ("echo: first", 1));
    assert!(!told.result.is_error);
}

#[tokio::test]
async fn s057_a_failing_hook_denies() {
    let told = told("echo", |agent| agent.hook(pre(|_| Err(HookError::new("hook broke"))))).await;
    assert_eq!(told.echoes, 0);
    assert!(told.result.is_error && told.text().contains("hook broke"), "{}", told.text());
}

#[tokio::test]
async fn s058_the_second_hook_can_deny() {
    let told = told("echo", |agent| {
        agent
            .hook(pre(|_| Ok(HookDecision::Allow)))
            .hook(pre(|_| Ok(HookDecision::Deny("no".to_owned()))))
    })
    .await;
    assert_eq!(told.echoes, 0);
    assert!(told.result.is_error);
}

#[tokio::test]
async fn s059_of_two_changes_the_last_reaches_the_tool() {
    let told = told("echo", |agent| {
        agent.hook(pre(|call| arguments(call, "one"))).hook(pre(|call| {
            assert!(call.arguments.contains("one"), "the second hook sees the first change");
            arguments(call, "two")
        }))
    })
    .await;
    assert_eq!(told.text(), "echo: two");
}

#[tokio::test]
async fn s060_hooks_run_in_the_order_they_were_added() {
    for streaming in [false, true] {
        let order = Arc::new(Mutex::new(Vec::new()));
        let note = |name: &'static str| {
            let order = Arc::clone(&order);
            pre(move |_| {
                order.lock().unwrap().push(name);
                Ok(HookDecision::Allow)
            })
        };
        let (a, b, c) = (note("a"), note("b"), note("c"));
        let model = ScriptedModel::new().turn(call("echo", json!({}))).turn(text("done"));
        let agent = Agent::builder("tester", model).tool(echo(&Arc::default())).hook(a).hook(b);
        let agent = agent.build().unwrap();
        ended(agent.run("hi").hook(c), streaming).await.unwrap();
        assert_eq!(*order.lock().unwrap(), ["a", "b", "c"], "those of the run come last");
    }
}

#[tokio::test]
async fn s061_the_model_receives_the_replaced_output() {
    let told = told("echo", |agent| {
        agent.hook(post(|end| {
            let text = format!("[{}]", end.output.to_text());
            *end.output = ToolOutput::text(text);
            Ok(())
        }))
    })
    .await;
    assert_eq!((told.text().as_str(), told.echoes), ("[echo: first]", 1));
}

#[tokio::test]
async fn a_failing_post_hook_changes_nothing() {
    let told = told("echo", |agent| {
        agent.hook(post(|end| {
            *end.output = ToolOutput::text("half a change");
            Err(HookError::new("hook broke"))
        }))
    })
    .await;
    assert_eq!(told.text(), "echo: first");
}

#[tokio::test]
async fn s062_parallel_calls_pass_the_hooks_once_each() {
    for streaming in [false, true] {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let note = Arc::clone(&seen);
        let model = ScriptedModel::new()
            .turn(calls([("echo", json!({})), ("broken", json!({})), ("echo", json!({}))]))
            .turn(text("done"));
        let agent = Agent::builder("tester", model)
            .tool(echo(&Arc::default()))
            .tool(broken())
            .hook(pre(move |call| {
                note.lock().unwrap().push(format!("{} {}", call.id, call.name));
                Ok(HookDecision::Allow)
            }))
            .build()
            .unwrap();
        ended(agent.run("hi"), streaming).await.unwrap();
        let mut seen = seen.lock().unwrap().clone();
        seen.sort();
        assert_eq!(seen, ["call_1 echo", "call_2 broken", "call_3 echo"]);
    }
}

#[tokio::test]
async fn s063_the_stream_shows_what_hooks_made_of_a_call() {
    let model = ScriptedModel::new()
        .turn(calls([("echo", json!({ "text": "a" })), ("broken", json!({}))]))
        .turn(text("done"));
    let agent = Agent::builder("tester", model)
        .tool(echo(&Arc::default()))
        .tool(broken())
        .max_parallel_tools(1)
        .hook(pre(|call| match call.name.as_str() {
            "broken" => Ok(HookDecision::Deny("no".to_owned())),
            _ => arguments(call, "b"),
        }))
        .hook(post(|end| {
            *end.output = ToolOutput::text(format!("{}!", end.output.to_text()));
            Ok(())
        }))
        .build()
        .unwrap();
    let events = events(agent.run("hi").stream()).await;
    assert_eq!(final_text(&events), "done");
    let results: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::ToolFinished { result, .. } => Some((result.to_text(), result.is_error)),
            _ => None,
        })
        .collect();
    let denied = ("the call was denied: no".to_owned(), true);
    assert_eq!(results, [("echo: b!".to_owned(), false), denied]);
    let started = names(&events).iter().filter(|name| *name == "tool_started").count();
    assert_eq!(started, 1, "a denied call never starts");
}

#[tokio::test]
async fn s064_a_failed_call_can_be_rescued() {
    let told = told("broken", |agent| {
        agent.hook(on_error(|failure| {
            Ok(Some(ToolOutput::text(format!("instead of `{}`", failure.error))))
        }))
    })
    .await;
    assert_eq!(told.text(), "instead of `it broke`");
    assert!(!told.result.is_error);
}

#[tokio::test]
async fn s065_without_a_rescue_the_result_stays_an_error() {
    let calls = Arc::new(AtomicUsize::new(0));
    let told = told("broken", |agent| {
        let calls = Arc::clone(&calls);
        agent.hook(on_error(move |_| {
            calls.fetch_add(1, Ordering::SeqCst);
            Ok(None)
        }))
    })
    .await;
    assert!(told.result.is_error && told.text().contains("it broke"));
    assert_eq!(calls.load(Ordering::SeqCst), 2, "once awaited, once streamed");
}

#[tokio::test]
async fn s066_the_first_rescue_wins_and_all_hooks_are_asked() {
    let asked = Arc::new(AtomicUsize::new(0));
    let told = told("broken", |agent| {
        let asked = Arc::clone(&asked);
        agent.hook(on_error(|_| Ok(Some(ToolOutput::text("first"))))).hook(on_error(move |_| {
            asked.fetch_add(1, Ordering::SeqCst);
            Ok(Some(ToolOutput::text("second")))
        }))
    })
    .await;
    assert_eq!(told.text(), "first");
    assert_eq!(asked.load(Ordering::SeqCst), 2, "once awaited, once streamed");
}

#[tokio::test]
async fn s067_a_flagged_output_is_an_error_for_hooks_too() {
    let told = told("flagged", |agent| {
        agent.hook(on_error(|failure| {
            assert_eq!(failure.error, "it says no");
            Ok(Some(ToolOutput::text("rescued")))
        }))
    })
    .await;
    assert_eq!((told.text().as_str(), told.result.is_error), ("rescued", false));
}

#[tokio::test]
async fn s068_a_failing_rescue_hook_is_ignored() {
    let told = told("broken", |agent| {
        agent
            .hook(on_error(|_| Err(HookError::new("hook broke"))))
            .hook(on_error(|_| Ok(Some(ToolOutput::text("rescued")))))
    })
    .await;
    assert_eq!(told.text(), "rescued", "the other hook still has its turn");
    let told =
        told_once("broken", |agent| agent.hook(on_error(|_| Err(HookError::new("no")))), false)
            .await;
    assert!(told.result.is_error && told.text().contains("it broke"));
}

#[tokio::test]
async fn s069_a_rescue_completes_a_streamed_run() {
    let model = ScriptedModel::new().turn(call("broken", json!({}))).turn(text("done"));
    let agent = Agent::builder("tester", model)
        .tool(broken())
        .hook(on_error(|_| Ok(Some(ToolOutput::text("rescued")))))
        .build()
        .unwrap();
    let events = events(agent.run("hi").stream()).await;
    assert_eq!(final_text(&events), "done");
    let result = events.iter().find_map(|event| match &event.kind {
        EventKind::ToolFinished { result, .. } => Some(result.clone()),
        _ => None,
    });
    let result = result.unwrap();
    assert_eq!((result.to_text().as_str(), result.is_error), ("rescued", false));
}
