//! The loop of model calls and tool calls, and what it counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use provost_agent::{Agent, AgentBuilder};
use provost_core::{Env, Event, EventKind, LimitKind, Limits, RunSummary, StopReason, Usage};
use provost_model::{ScriptedModel, ScriptedTurn, call, calls, text};
use provost_session::InMemorySessionStore;
use provost_tool::{FnTool, ToolError, ToolOutput, tool_fn};
use serde_json::json;

use crate::support::{Say, broken, echo, echo_agent, events, final_text, names, stored};

/// How many calls run now, and how many ever did at once.
#[derive(Default)]
struct Gauge {
    now: AtomicUsize,
    max: AtomicUsize,
}

/// A tool that takes a second and keeps the gauge.
fn slow(gauge: &Arc<Gauge>) -> FnTool {
    let gauge = Arc::clone(gauge);
    tool_fn("slow", "Takes its time", move |_cx, args: Say| {
        let gauge = Arc::clone(&gauge);
        async move {
            let now = gauge.now.fetch_add(1, Ordering::SeqCst) + 1;
            gauge.max.fetch_max(now, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(1)).await;
            gauge.now.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, ToolError>(args.text)
        }
    })
    .unwrap()
}

/// Four calls of the slow tool in one turn; gives how many ever ran at once.
async fn at_once(set: impl FnOnce(AgentBuilder) -> AgentBuilder) -> usize {
    let gauge = Arc::new(Gauge::default());
    let four = ["a", "b", "c", "d"].map(|text| ("slow", json!({"text": text})));
    let model = ScriptedModel::new().turn(calls(four)).turn(text("done"));
    let agent = set(Agent::builder("tester", model.clone()).tool(slow(&gauge)));
    let result = agent.build().unwrap().run("go").await.unwrap();
    let texts: Vec<_> = result.tool_results.iter().map(|result| result.to_text()).collect();
    assert_eq!(texts, ["a", "b", "c", "d"], "call order, whoever ends first");
    assert_eq!(gauge.now.load(Ordering::SeqCst), 0);
    gauge.max.load(Ordering::SeqCst)
}

/// A model that never stops calling the echo tool.
fn restless() -> ScriptedModel {
    ScriptedModel::from_fn(|_, turn| call("echo", json!({"text": turn.to_string()})))
}

/// A model whose every answer takes so long on the simulated clock.
fn ticking(env: &Env, each: Duration, turns: Vec<ScriptedTurn>) -> ScriptedModel {
    let env = env.clone();
    ScriptedModel::from_fn(move |_, index| {
        env.advance(each);
        turns[index].clone()
    })
}

fn summary(events: &[Event]) -> RunSummary {
    match &events.last().unwrap().kind {
        EventKind::Finished { summary } => (**summary).clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn s001_one_tool_call_then_text() {
    let model =
        ScriptedModel::new().turn(call("echo", json!({"text": "hi"}))).turn(text("It said hi."));
    let (agent, count) = echo_agent(&model);
    let result = agent.run("say hi").await.unwrap();
    assert_eq!(result.output, "It said hi.");
    assert_eq!((result.tool_calls, result.turns), (1, 2));
    assert_eq!(count.load(Ordering::SeqCst), 1);
    assert_eq!(model.request(1).last_tool_result().unwrap().to_text(), "echo: hi");
    // The source leaves the results of a run out of its response; here they are in it.
    assert_eq!(result.tool_results.len(), 1);
    assert_eq!(result.stop, StopReason::EndTurn);
    model.assert_exhausted();
}

#[tokio::test]
async fn s002_three_calls_in_one_turn() {
    let three = ["a", "b", "c"].map(|text| ("echo", json!({"text": text})));
    let model = ScriptedModel::new().turn(calls(three)).turn(text("done"));
    let (agent, count) = echo_agent(&model);
    let result = agent.run("go").await.unwrap();
    assert_eq!((result.output.as_str(), result.tool_calls, result.turns), ("done", 3, 2));
    assert_eq!(count.load(Ordering::SeqCst), 3);
    let told = model.request(1).messages.last().unwrap().clone();
    let texts: Vec<_> = told.tool_results().map(|result| result.to_text()).collect();
    assert_eq!(texts, ["echo: a", "echo: b", "echo: c"], "one message, in call order");
}

#[tokio::test]
async fn s003_three_tool_turns_then_text() {
    let one = || call("echo", json!({}));
    let model = ScriptedModel::new().turn(one()).turn(one()).turn(one()).turn(text("done"));
    let (agent, _) = echo_agent(&model);
    let result = agent.run("go").await.unwrap();
    assert_eq!((result.turns, result.tool_calls, model.call_count()), (4, 3, 4));
    assert_eq!(result.output, "done");
}

#[tokio::test]
async fn s004_text_at_once_with_tools_registered() {
    let model = ScriptedModel::new().turn(text("hello"));
    let (agent, count) = echo_agent(&model);
    let result = agent.run("hi").await.unwrap();
    assert_eq!((result.turns, result.tool_calls, model.call_count()), (1, 0, 1));
    assert_eq!(count.load(Ordering::SeqCst), 0);
    assert_eq!(model.request(0).tools[0].name, "echo");
}

#[tokio::test]
async fn s005_a_limit_of_two_rounds_allows_three_model_calls() {
    let (model, count) = (restless(), Arc::new(AtomicUsize::new(0)));
    let limits = Limits::default().turns(2);
    let agent = Agent::builder("tester", model.clone()).tool(echo(&count)).limits(limits);
    let result = agent.build().unwrap().run("go").await.unwrap();
    assert_eq!((model.call_count(), count.load(Ordering::SeqCst)), (3, 2));
    let pending: Vec<_> = result.pending_calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(pending, ["call_3"]);
    assert_eq!(result.tool_results.len(), 2, "a pending result is no result");
}

#[tokio::test]
async fn s006_a_limit_of_the_call_overrides_the_agents() {
    let (model, count) = (restless(), Arc::new(AtomicUsize::new(0)));
    let limits = Limits::default().turns(5);
    let agent = Agent::builder("tester", model.clone()).tool(echo(&count)).limits(limits);
    let result = agent.build().unwrap().run("go").max_turns(1).await.unwrap();
    assert_eq!((model.call_count(), count.load(Ordering::SeqCst)), (2, 1));
    assert_eq!(result.pending_calls.len(), 1);
}

#[tokio::test]
async fn s007_a_limit_stop_says_so() {
    let model = restless();
    let (agent, _) = echo_agent(&model);
    let result = agent.run("go").max_turns(1).await.unwrap();
    assert_eq!(result.stop, StopReason::Limit);
    let reached = result.limit.as_ref().unwrap();
    assert_eq!(reached.limit, LimitKind::Turns);
    assert_eq!((reached.allowed.as_str(), reached.used.as_str()), ("1", "1"));
}

/// The source has no limit unless one is set; here ten rounds are the default and having none must be said.
#[tokio::test]
async fn s007_ten_rounds_are_the_default_and_no_limit_is_explicit() {
    let model = restless();
    let (agent, count) = echo_agent(&model);
    let result = agent.run("go").await.unwrap();
    assert_eq!((model.call_count(), count.load(Ordering::SeqCst)), (11, 10));
    assert_eq!(result.stop, StopReason::Limit);
    let model = ScriptedModel::from_fn(|_, turn| match turn {
        0..30 => call("echo", json!({})),
        _ => text("enough"),
    });
    let (agent, _) = echo_agent(&model);
    let result = agent.run("go").limits(Limits::unlimited()).await.unwrap();
    assert_eq!((result.output.as_str(), result.turns), ("enough", 31));
}

#[tokio::test]
async fn s008_a_failing_tool_does_not_fail_the_run() {
    let model = ScriptedModel::new().turn(call("broken", json!({}))).turn(text("sorry"));
    let agent = Agent::builder("tester", model.clone()).tool(broken()).build().unwrap();
    let result = agent.run("go").await.unwrap();
    assert_eq!((result.output.as_str(), result.tool_calls), ("sorry", 1));
    let request = model.request(1);
    let told = request.last_tool_result().unwrap();
    assert_eq!((told.is_error, told.to_text().as_str()), (true, "it broke"));
}

#[tokio::test]
async fn s009_an_error_output_is_an_error_result() {
    let tool = tool_fn("flagged", "Says that it failed", |_cx, _args: Say| async move {
        Ok::<_, ToolError>(ToolOutput::error("no such city"))
    });
    let model = ScriptedModel::new().turn(call("flagged", json!({}))).turn(text("sorry"));
    let agent = Agent::builder("tester", model.clone()).tool(tool.unwrap()).build().unwrap();
    agent.run("go").await.unwrap();
    let request = model.request(1);
    let told = request.last_tool_result().unwrap();
    assert_eq!((told.is_error, told.to_text().as_str()), (true, "no such city"));
}

#[tokio::test]
async fn an_unknown_tool_is_an_error_result_that_names_the_tools() {
    let model = ScriptedModel::new().turn(call("fly", json!({}))).turn(text("sorry"));
    let (agent, count) = echo_agent(&model);
    let result = agent.run("go").await.unwrap();
    assert_eq!((result.tool_calls, count.load(Ordering::SeqCst)), (1, 0));
    let request = model.request(1);
    let told = request.last_tool_result().unwrap();
    assert!(told.is_error && told.to_text().contains("`fly`") && told.to_text().contains("echo"));
}

#[tokio::test(start_paused = true)]
async fn s010_one_at_a_time_never_overlaps() {
    let started = tokio::time::Instant::now();
    assert_eq!(at_once(|agent| agent.max_parallel_tools(1)).await, 1);
    assert_eq!(started.elapsed().as_secs(), 4);
}

#[tokio::test(start_paused = true)]
async fn s010_a_tool_that_must_run_alone_does() {
    let gauge = Arc::new(Gauge::default());
    let alone = slow(&gauge).with_spec(|spec| spec.exclusive());
    let model = ScriptedModel::new()
        .turn(calls([("slow", json!({})), ("slow", json!({})), ("slow", json!({}))]))
        .turn(text("done"));
    let agent = Agent::builder("tester", model).tool(alone).build().unwrap();
    assert_eq!(agent.run("go").await.unwrap().tool_calls, 3);
    assert_eq!(gauge.max.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn s011_the_calls_of_a_turn_overlap_by_default() {
    let started = tokio::time::Instant::now();
    assert_eq!(at_once(|agent| agent).await, 4);
    assert_eq!(started.elapsed().as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn s012_a_parallel_limit_holds() {
    let started = tokio::time::Instant::now();
    assert_eq!(at_once(|agent| agent.max_parallel_tools(2)).await, 2);
    assert_eq!(started.elapsed().as_secs(), 2);
}

#[tokio::test]
async fn s013_a_single_turn_is_counted() {
    let (env, usage) = (Env::simulated(1), Usage::new(120, 7));
    let model = ticking(&env, Duration::from_millis(30), vec![text("hi").usage(usage)]);
    let agent = Agent::builder("tester", model).env(env).build().unwrap();
    let result = agent.run("hello").await.unwrap();
    assert_eq!(result.usage, usage);
    assert_eq!((result.turns, result.tool_calls), (1, 0));
    assert_eq!(result.duration, Duration::from_millis(30));
    assert_eq!((result.cost, result.unpriced_calls), (None, 1), "unknown is not free");
}

#[tokio::test]
async fn s014_usage_is_the_sum_of_all_turns() {
    let two = [("echo", json!({"text": "a"})), ("echo", json!({"text": "b"}))];
    let model = ScriptedModel::new()
        .turn(call("echo", json!({})).usage(Usage::new(100, 10)))
        .turn(calls(two).usage(Usage::new(200, 30)))
        .turn(text("done").usage(Usage::new(300, 50)));
    let (agent, _) = echo_agent(&model);
    let result = agent.run("go").await.unwrap();
    assert_eq!((result.tool_calls, result.turns), (3, 3));
    assert_eq!((result.usage.input, result.usage.output), (600, 90));
}

#[tokio::test]
async fn s015_a_plain_answer_takes_time() {
    let env = Env::simulated(2);
    let model = ticking(&env, Duration::from_secs(2), vec![text("hi")]);
    let agent = Agent::builder("tester", model).env(env).build().unwrap();
    assert_eq!(agent.run("hello").await.unwrap().duration, Duration::from_secs(2));
}

#[tokio::test]
async fn s016_a_stream_ends_with_everything_counted() {
    let env = Env::simulated(3);
    let used = |input, cache_read| Usage { cache_read, ..Usage::new(input, 10) };
    let turns =
        vec![call("echo", json!({})).usage(used(100, 60)), text("done").usage(used(200, 150))];
    let model = ticking(&env, Duration::from_secs(1), turns);
    let count = Arc::new(AtomicUsize::new(0));
    let agent = Agent::builder("tester", model).tool(echo(&count)).env(env).build().unwrap();
    let events = events(agent.run("go").stream()).await;
    let summary = summary(&events);
    assert_eq!(summary.usage, Usage { cache_read: 210, ..Usage::new(300, 20) });
    assert_eq!((summary.turns, summary.tool_calls), (2, 1));
    assert_eq!(summary.duration, Duration::from_secs(2));
    assert_eq!(summary.text, "done");
}

#[tokio::test]
async fn s016_the_events_of_a_tool_run_come_in_order() {
    let model = ScriptedModel::new()
        .turn(ScriptedTurn::default().text("Let me see.").call("echo", json!({})))
        .turn(ScriptedTurn::default().deltas(["do", "ne"]));
    let (agent, _) = echo_agent(&model);
    let events = events(agent.run("go").stream()).await;
    let expected = "run_started user_message turn_started text_delta tool_call_started \
        tool_call_delta tool_call_ready turn_finished tool_started tool_finished turn_started \
        text_delta text_delta turn_finished finished";
    assert_eq!(names(&events).join(" "), expected);
}

#[tokio::test]
async fn s017_no_hooks_at_all_works() {
    let script = || {
        let model = ScriptedModel::new().turn(call("echo", json!({}))).turn(text("done"));
        echo_agent(&model).0
    };
    assert_eq!(script().run("go").await.unwrap().output, "done");
    assert_eq!(final_text(&events(script().run("go").stream()).await), "done");
}

#[tokio::test]
async fn s018_reasoning_is_returned_and_stored_as_one_part() {
    let store = InMemorySessionStore::new();
    let turn = ScriptedTurn::default().reasoning("first ").reasoning("second").text("answer");
    let model = ScriptedModel::new().turn(turn);
    let agent = Agent::builder("tester", model).session_store(store.clone()).build().unwrap();
    let result = agent.run("think").session("s").await.unwrap();
    assert_eq!((result.output.as_str(), result.reasoning.as_str()), ("answer", "first second"));
    let messages = stored(&store, "s").await;
    let parts: Vec<_> = messages[1].reasoning().map(|part| part.text.as_str()).collect();
    assert_eq!(parts, ["first second"]);
}

#[tokio::test]
async fn s019_a_reasoning_delta_is_forwarded_once() {
    let store = InMemorySessionStore::new();
    let model = ScriptedModel::new().turn(ScriptedTurn::default().reasoning("hm").text("answer"));
    let agent = Agent::builder("tester", model).session_store(store.clone()).build().unwrap();
    let events = events(agent.run("think").session("s").stream()).await;
    let deltas: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::ReasoningDelta { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(deltas, ["hm"]);
    assert_eq!(summary(&events).reasoning, "hm");
    let messages = stored(&store, "s").await;
    assert_eq!(messages[1].reasoning().next().unwrap().text, "hm");
}

#[tokio::test(start_paused = true)]
async fn s005_to_s012_hold_in_a_stream_too() {
    let gauge = Arc::new(Gauge::default());
    let model = ScriptedModel::from_fn(|_, _| calls([("slow", json!({})), ("slow", json!({}))]));
    let agent = Agent::builder("tester", model.clone()).tool(slow(&gauge)).build().unwrap();
    let events = events(agent.run("go").max_turns(2).stream()).await;
    let summary = summary(&events);
    assert_eq!((model.call_count(), summary.turns, summary.tool_calls), (3, 3, 4));
    assert_eq!((summary.stop, summary.pending_calls.len()), (StopReason::Limit, 2));
    assert_eq!(gauge.max.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn the_text_of_a_run_ends_with_its_error() {
    use futures::TryStreamExt;
    use provost_model::{ModelErrorClass, fail};

    let model = ScriptedModel::new()
        .turn(ScriptedTurn::default().deltas(["a", "b"]))
        .turn(fail(ModelErrorClass::Auth, "the key is wrong"));
    let (agent, _) = echo_agent(&model);
    let whole: Vec<String> = agent.run("go").stream().text().try_collect().await.unwrap();
    assert_eq!(whole, ["a", "b"]);
    let failed: Result<Vec<String>, _> = agent.run("go").stream().text().try_collect().await;
    assert_eq!(failed.unwrap_err().to_string(), "model: the key is wrong");
}

#[tokio::test]
async fn an_empty_message_is_refused_before_any_model_call() {
    let model = ScriptedModel::new();
    let (agent, _) = echo_agent(&model);
    let error = agent.run("").await.unwrap_err();
    assert!(error.to_string().contains("the message is empty"), "{error}");
    assert_eq!(model.call_count(), 0);
}

#[test]
fn a_run_without_a_runtime_is_refused_and_does_not_panic() {
    let (agent, _) = echo_agent(&ScriptedModel::new().turn(text("hi")));
    let error = futures::executor::block_on(async { agent.run("go").await }).unwrap_err();
    assert!(error.to_string().contains("tokio runtime"), "{error}");
}
