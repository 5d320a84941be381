//! Which calls run, and what becomes of what they give.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use provost_agent::hook::{Hook, HookError, ToolFailure};
use provost_agent::{Agent, ApprovalMode, BuildError, LimitDecision, OnLimit, RunOutcome};
use provost_core::{Image, Limits, StopReason, ToolResult, ToolResultPart};
use provost_model::{
    ChatRequest, ScriptedModel, ScriptedTurn, StructuredOutputSupport, call, calls, text,
};
use provost_tool::{FnTool, RequiresApproval, RunContext, ToolError, ToolOutput, tool_fn};
use serde_json::json;

use crate::support::{Say, assert_well_formed, echo, ended, events, names};

/// A tool that keeps what it was told; it takes no arguments for granted, and nobody may call it wrongly even once.
fn strict(heard: &Arc<Mutex<Vec<String>>>) -> FnTool {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Need {
        text: String,
    }
    let heard = Arc::clone(heard);
    tool_fn("strict", "Needs a text", move |_cx, args: Need| {
        heard.lock().unwrap().push(args.text);
        async { Ok::<_, ToolError>("ran") }
    })
    .unwrap()
    .with_spec(|spec| spec.retries(0))
}

/// The calls of an answer that broke off in the arguments of its last call.
fn cut_off(arguments: &str, stop: StopReason) -> ScriptedTurn {
    let whole = json!({ "text": "whole" }).to_string();
    let turn = ScriptedTurn::default().raw_call("whole", "echo", whole);
    turn.raw_call("cut", "echo", arguments).stop(stop)
}

#[tokio::test]
async fn a_call_that_was_cut_off_does_not_run() {
    for arguments in ["", "  ", r#"{"text": "hal"#] {
        for stop in [StopReason::MaxTokens, StopReason::ContentFilter] {
            for streaming in [false, true] {
                let count = Arc::new(AtomicUsize::new(0));
                let model = ScriptedModel::new().turn(cut_off(arguments, stop)).turn(text("done"));
                let agent = Agent::builder("tester", model.clone()).tool(echo(&count));
                let agent = agent.build().unwrap();
                let summary = ended(agent.run("hi"), streaming).await.unwrap();
                assert_eq!((summary.text.as_str(), summary.stop), ("done", StopReason::EndTurn));
                assert_eq!(count.load(Ordering::SeqCst), 1, "its complete sibling runs");
                let results = summary.tool_results;
                assert_eq!(results[0].to_text(), "echo: whole");
                assert!(results[1].is_error && results[1].to_text().contains("cut off"));
                assert_well_formed(&model.request(1).messages);
            }
        }
    }
}

#[tokio::test]
async fn a_call_that_was_cut_off_is_no_fault_of_the_model() {
    // One fault withdraws this tool: it is still offered after a cut, and gone after wrong arguments.
    for (stop, offered) in [(StopReason::MaxTokens, 1), (StopReason::ToolUse, 0)] {
        let heard = Arc::default();
        let turn = ScriptedTurn::default().raw_call("c", "strict", r#"{"te"#).stop(stop);
        let model = ScriptedModel::new().turn(turn).turn(text("done"));
        let agent = Agent::builder("tester", model.clone()).tool(strict(&heard)).build().unwrap();
        agent.run("hi").await.unwrap();
        assert_eq!(model.request(1).tools.len(), offered, "{stop:?}");
        assert!(heard.lock().unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_call_that_was_cut_off_does_not_run_when_a_limit_is_extended() {
    let count = Arc::new(AtomicUsize::new(0));
    let model = ScriptedModel::new().turn(cut_off("", StopReason::MaxTokens)).turn(text("done"));
    let agent = Agent::builder("tester", model)
        .tool(echo(&count))
        .limits(Limits::default().turns(0))
        .on_limit(OnLimit::callback(|_| {
            std::future::ready(Ok(LimitDecision::Extend { message: None }))
        }))
        .build()
        .unwrap();
    let results = agent.run("hi").await.unwrap().tool_results;
    assert_eq!(count.load(Ordering::SeqCst), 1);
    assert!(results[1].is_error && results[1].to_text().contains("cut off"), "{results:?}");
}

#[tokio::test]
async fn a_call_without_arguments_runs_if_nothing_was_cut_off() {
    let count = Arc::new(AtomicUsize::new(0));
    let model = ScriptedModel::new().turn(cut_off("", StopReason::ToolUse)).turn(text("done"));
    let agent = Agent::builder("tester", model).tool(echo(&count)).build().unwrap();
    agent.run("hi").await.unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 2);
}

/// Takes a tool out of the first request.
struct Remove(AtomicUsize);

#[async_trait]
impl Hook for Remove {
    async fn before_model_call(
        &self,
        _: &RunContext,
        request: &mut ChatRequest,
    ) -> Result<(), HookError> {
        if self.0.fetch_add(1, Ordering::SeqCst) == 0 {
            request.tools.retain(|tool| tool.name != "echo");
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_tool_that_a_hook_took_away_cannot_run_in_that_turn() {
    let (count, heard) = (Arc::new(AtomicUsize::new(0)), Arc::default());
    let both = || calls([("echo", json!({})), ("strict", json!({ "text": "a" }))]);
    let model = ScriptedModel::new().turn(both()).turn(both()).turn(text("done"));
    let agent = Agent::builder("tester", model.clone())
        .tool(echo(&count))
        .tool(strict(&heard))
        .hook(Remove(AtomicUsize::new(0)))
        .build()
        .unwrap();
    let result = agent.run("hi").await.unwrap();
    assert_eq!((model.request(0).tools.len(), model.request(1).tools.len()), (1, 2));
    let first = &result.tool_results[0];
    assert!(first.is_error && first.to_text().contains("no tool `echo`"), "{first:?}");
    assert_eq!(result.tool_results[1].to_text(), "ran");
    assert_eq!(count.load(Ordering::SeqCst), 1, "only in the second turn");
}

/// A tool that fails with a picture and notes for the application.
fn failing() -> FnTool {
    tool_fn("failing", "Fails in detail", |_cx, _args: Say| async {
        let picture = ToolResultPart::Image(Image::url("https://example.org/screen.png"));
        Ok::<_, ToolError>(
            ToolOutput::error("bad").with(picture).with_metadata(json!({ "code": 7 })),
        )
    })
    .unwrap()
}

/// Puts something else in the place of a failure.
struct Rescue;

#[async_trait]
impl Hook for Rescue {
    async fn on_tool_error(
        &self,
        _cx: &RunContext,
        failure: &ToolFailure<'_>,
    ) -> Result<Option<ToolOutput>, HookError> {
        assert_eq!(failure.error, "bad");
        Ok(Some(ToolOutput::text("all good")))
    }
}

async fn failed(rescued: bool) -> ToolResult {
    let model = ScriptedModel::new().turn(call("failing", json!({}))).turn(text("done"));
    let agent = Agent::builder("tester", model).tool(failing());
    let agent = if rescued { agent.hook(Rescue) } else { agent };
    let result = agent.build().unwrap().run("hi").await.unwrap();
    result.tool_results[0].clone()
}

#[tokio::test]
async fn a_failure_keeps_its_parts_and_metadata() {
    let result = failed(/*rescued*/ false).await;
    assert!(result.is_error);
    assert_eq!((result.parts.len(), result.to_text().as_str()), (2, "bad"));
    assert!(matches!(result.parts[1], ToolResultPart::Image(_)));
    assert_eq!(result.metadata, Some(json!({ "code": 7 })));
}

#[tokio::test]
async fn a_rescue_replaces_a_failure_as_a_whole() {
    let result = failed(/*rescued*/ true).await;
    assert!(!result.is_error);
    assert_eq!((result.parts.len(), result.to_text().as_str()), (1, "all good"));
    assert_eq!(result.metadata, None);
}

#[tokio::test]
async fn an_approved_call_runs_also_if_its_tool_was_withdrawn_meanwhile() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let tool = strict(&heard).with_spec(|spec| spec.approval(RequiresApproval::Always));
    let model = ScriptedModel::new()
        .turn(calls([("strict", json!({})), ("strict", json!({ "text": "b" }))]))
        .turn(text("done"));
    let agent = Agent::builder("tester", model.clone())
        .tool(tool)
        .approvals(ApprovalMode::Suspend)
        .build()
        .unwrap();
    let RunOutcome::Suspended(suspended) = agent.run("hi").outcome().await.unwrap() else {
        panic!()
    };
    assert_eq!(suspended.approvals().len(), 1, "wrong arguments are not worth a question");
    let outcome = agent.resume(suspended.approve_all()).outcome().await.unwrap();
    let RunOutcome::Completed(result) = outcome else { panic!() };
    assert_eq!(*heard.lock().unwrap(), ["b"]);
    assert_eq!(result.tool_results.iter().filter(|result| !result.is_error).count(), 1);
    assert!(model.request(1).tools.is_empty(), "it is withdrawn from then on");
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Number {
    #[expect(dead_code, reason = "only its type matters")]
    x: u8,
}

fn own_final_answer() -> FnTool {
    tool_fn("final_answer", "Mine", |_cx, _args: Say| async { Ok::<_, ToolError>("x") }).unwrap()
}

#[tokio::test]
async fn a_tool_cannot_have_the_name_of_the_typed_answer() {
    let model =
        ScriptedModel::new().with_info(|info| info.native_output = StructuredOutputSupport::None);
    let agent = Agent::builder("tester", model.clone()).tool(own_final_answer());
    let error = agent.output::<Number>().build().unwrap_err();
    assert_eq!(error, BuildError::DuplicateTool("final_answer".to_owned()));
    assert!(error.to_string().contains("rename"));
    // Without a typed answer there is nothing to be confused with.
    Agent::builder("tester", model.clone()).tool(own_final_answer()).build().unwrap();
    // A tool of one run only is no way around it.
    let agent = Agent::builder("tester", model.clone()).output::<Number>().build().unwrap();
    let error = agent.run("hi").tool(own_final_answer()).await.unwrap_err();
    assert!(error.to_string().contains("final_answer"), "{error}");
    assert_eq!(model.call_count(), 0);
}

#[tokio::test]
async fn a_call_that_was_cut_off_is_told_as_finished() {
    let model = ScriptedModel::new().turn(cut_off("", StopReason::MaxTokens)).turn(text("done"));
    let agent = Agent::builder("tester", model).tool(echo(&Arc::default())).build().unwrap();
    let names = names(&events(agent.run("hi").stream()).await);
    let count = |wanted: &str| names.iter().filter(|name| *name == wanted).count();
    assert_eq!((count("tool_call_ready"), count("tool_finished")), (2, 2), "{names:?}");
}
