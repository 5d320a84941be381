//! Tools that need a person's decision, answered while the run waits.

mod suspend;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use provost_agent::hook::{Hook, HookDecision, HookError};
use provost_agent::{Agent, AgentBuilder, ApprovalMode};
use provost_core::{ApprovalDecision, ApprovalRequest, EventKind, ToolCall, ToolResult};
use provost_model::{ScriptedModel, call, calls, text};
use provost_tool::{FnTool, RequiresApproval, RunContext, ToolError, tool_fn};
use serde_json::json;

use crate::support::{Say, echo, ended, events, final_text};

/// The echo tool, but a person must approve each call.
fn guarded(count: &Arc<AtomicUsize>) -> FnTool {
    echo(count).with_spec(|spec| spec.approval(RequiresApproval::Always))
}

/// A tool that asks a person itself, half-way. The counts are its starts and its ends.
fn asking(starts: &Arc<AtomicUsize>, ends: &Arc<AtomicUsize>) -> FnTool {
    let (starts, ends) = (Arc::clone(starts), Arc::clone(ends));
    tool_fn("asking", "Asks first", move |cx, args: Say| {
        starts.fetch_add(1, Ordering::SeqCst);
        let ends = Arc::clone(&ends);
        async move {
            cx.confirm_with("really?", json!({ "cost": 5 })).await?;
            ends.fetch_add(1, Ordering::SeqCst);
            Ok::<_, ToolError>(format!("did {}", args.text))
        }
    })
    .unwrap()
}

fn deny(reason: &str) -> ApprovalDecision {
    ApprovalDecision::Deny { reason: reason.to_owned() }
}

type Questions = Arc<Mutex<Vec<ApprovalRequest>>>;

/// Answers every question the same way and keeps the questions.
fn answering(answer: Result<ApprovalDecision, String>) -> (ApprovalMode, Questions) {
    let questions = Questions::default();
    let asked = Arc::clone(&questions);
    let provider = ApprovalMode::callback(move |request| {
        asked.lock().unwrap().push(request);
        std::future::ready(answer.clone())
    });
    (provider, questions)
}

/// What became of one call of a tool.
struct Became {
    result: ToolResult,
    /// How often the declarative tool ran, and the asking tool started and ended.
    counts: [usize; 3],
}

/// One call of a tool, then `done`.
async fn called(
    tool: &str,
    streaming: bool,
    setup: impl FnOnce(AgentBuilder) -> AgentBuilder,
) -> Became {
    let model = ScriptedModel::new().turn(call(tool, json!({ "text": "a" }))).turn(text("done"));
    let counts: [Arc<AtomicUsize>; 3] = Default::default();
    let builder = Agent::builder("tester", model.clone())
        .tool(guarded(&counts[0]))
        .tool(asking(&counts[1], &counts[2]));
    let agent = setup(builder).build().unwrap();
    let summary = ended(agent.run("hi"), streaming).await.unwrap();
    assert_eq!(summary.text, "done", "the run goes on");
    let result = model.request(1).last_tool_result().unwrap().clone();
    Became { result, counts: counts.map(|count| count.load(Ordering::SeqCst)) }
}

#[tokio::test]
async fn s102_an_approved_tool_runs() {
    for streaming in [false, true] {
        let (provider, questions) = answering(Ok(ApprovalDecision::Approve));
        let became = called("echo", streaming, |agent| agent.approvals(provider)).await;
        assert_eq!((became.result.to_text().as_str(), became.counts[0]), ("echo: a", 1));
        assert_eq!(questions.lock().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn s103_a_rejected_tool_does_not_run() {
    for streaming in [false, true] {
        let (provider, _) = answering(Ok(deny("too dear")));
        let became = called("echo", streaming, |agent| agent.approvals(provider)).await;
        assert_eq!(became.counts[0], 0);
        assert!(became.result.is_error && became.result.to_text().contains("too dear"));
    }
}

#[tokio::test]
async fn s104_with_nobody_to_ask_the_tool_does_not_run() {
    for streaming in [false, true] {
        // The source runs it; denying is the safe default, and a program can say that it has decided elsewhere.
        let became = called("echo", streaming, |agent| agent).await;
        assert_eq!(became.counts[0], 0);
        assert!(
            became.result.is_error && became.result.to_text().contains("no approver is available")
        );
        let became =
            called("echo", streaming, |agent| agent.approvals(ApprovalMode::AutoApprove)).await;
        assert_eq!((became.result.to_text().as_str(), became.counts[0]), ("echo: a", 1));
    }
}

#[tokio::test]
async fn s105_the_question_has_the_exact_call() {
    let (provider, questions) = answering(Ok(ApprovalDecision::Approve));
    called("echo", /*streaming*/ false, |agent| agent.approvals(provider)).await;
    let questions = questions.lock().unwrap();
    assert_eq!(questions[0].call, ToolCall::new("call_1", "echo", &json!({ "text": "a" })));
    assert_eq!((&questions[0].hint, &questions[0].payload), (&None, &None));
}

#[tokio::test]
async fn s106_a_tool_can_ask_itself() {
    for streaming in [false, true] {
        let (provider, questions) = answering(Ok(ApprovalDecision::Approve));
        let became = called("asking", streaming, |agent| agent.approvals(provider)).await;
        assert_eq!((became.result.to_text().as_str(), became.counts), ("did a", [0, 1, 1]));
        let questions = questions.lock().unwrap();
        assert_eq!((questions.len(), questions[0].call.name.as_str()), (1, "asking"));
        assert_eq!(questions[0].hint.as_deref(), Some("really?"));
        assert_eq!(questions[0].payload, Some(json!({ "cost": 5 })));
    }
}

#[tokio::test]
async fn s107_a_rejected_question_stops_the_tool() {
    for streaming in [false, true] {
        let (provider, _) = answering(Ok(deny("not today")));
        let became = called("asking", streaming, |agent| agent.approvals(provider)).await;
        assert_eq!(became.counts, [0, 1, 0]);
        assert!(became.result.is_error && became.result.to_text().contains("not today"));
    }
}

#[tokio::test]
async fn s108_with_nobody_to_ask_a_question_is_denied() {
    for streaming in [false, true] {
        // The source approves it; denying is the safe default.
        let became = called("asking", streaming, |agent| agent).await;
        assert_eq!(became.counts, [0, 1, 0]);
        assert!(became.result.is_error);
        let approve = |agent: AgentBuilder| agent.approvals(ApprovalMode::AutoApprove);
        assert_eq!(called("asking", streaming, approve).await.counts, [0, 1, 1]);
    }
}

#[tokio::test]
async fn s109_the_stream_has_each_question_once() {
    for tool in ["echo", "asking"] {
        let model = ScriptedModel::new().turn(call(tool, json!({}))).turn(text("done"));
        let (provider, _) = answering(Ok(ApprovalDecision::Approve));
        let agent = Agent::builder("tester", model)
            .tool(guarded(&Arc::default()))
            .tool(asking(&Arc::default(), &Arc::default()))
            .approvals(provider)
            .build()
            .unwrap();
        let events = events(agent.run("hi").stream()).await;
        assert_eq!(final_text(&events), "done");
        let needed: Vec<_> = events
            .iter()
            .filter_map(|event| match &event.kind {
                EventKind::ApprovalNeeded { request } => Some(request),
                _ => None,
            })
            .collect();
        let decided: Vec<_> = events
            .iter()
            .filter_map(|event| match &event.kind {
                EventKind::ApprovalDecided { id, decision } => Some((*id, decision.clone())),
                _ => None,
            })
            .collect();
        assert_eq!((needed.len(), needed[0].call.name.as_str()), (1, tool));
        assert_eq!(decided, [(needed[0].id, ApprovalDecision::Approve)]);
    }
}

struct Refuse;

#[async_trait::async_trait]
impl Hook for Refuse {
    async fn before_tool_call(
        &self,
        _cx: &RunContext,
        _call: &mut ToolCall,
    ) -> Result<HookDecision, HookError> {
        Ok(HookDecision::Deny("never".to_owned()))
    }
}

#[tokio::test]
async fn s110_a_hooks_denial_comes_first() {
    for streaming in [false, true] {
        let (provider, questions) = answering(Ok(ApprovalDecision::Approve));
        let became =
            called("echo", streaming, |agent| agent.approvals(provider).hook(Refuse)).await;
        assert_eq!(became.counts[0], 0);
        assert!(became.result.to_text().contains("never"));
        assert!(questions.lock().unwrap().is_empty(), "nobody is asked for nothing");
    }
}

/// A tool that never needs approval.
fn free(count: &Arc<AtomicUsize>) -> FnTool {
    let count = Arc::clone(count);
    tool_fn("free", "Just runs", move |_cx, _args: Say| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Ok::<_, ToolError>("ran") }
    })
    .unwrap()
}

#[tokio::test]
async fn s111_of_parallel_calls_only_the_flagged_one_asks() {
    for streaming in [false, true] {
        let (provider, questions) = answering(Ok(deny("no")));
        let model = ScriptedModel::new()
            .turn(calls([("free", json!({})), ("echo", json!({})), ("free", json!({}))]))
            .turn(text("done"));
        let (echoes, frees) = (Arc::default(), Arc::default());
        let agent = Agent::builder("tester", model)
            .tool(guarded(&echoes))
            .tool(free(&frees))
            .approvals(provider)
            .build()
            .unwrap();
        ended(agent.run("hi"), streaming).await.unwrap();
        assert_eq!((echoes.load(Ordering::SeqCst), frees.load(Ordering::SeqCst)), (0, 2));
        let questions = questions.lock().unwrap();
        assert_eq!((questions.len(), questions[0].call.id.as_str()), (1, "call_2"));
    }
}

#[tokio::test]
async fn s113_if_the_provider_fails_the_tool_does_not_run() {
    for streaming in [false, true] {
        for tool in ["echo", "asking"] {
            let (provider, _) = answering(Err("the phone is dead".to_owned()));
            let became = called(tool, streaming, |agent| agent.approvals(provider)).await;
            assert_eq!((became.counts[0], became.counts[2]), (0, 0));
            let text = became.result.to_text();
            assert!(became.result.is_error && text.contains("the phone is dead"), "{text}");
        }
    }
}

#[tokio::test]
async fn arguments_decide_where_the_tool_says_so() {
    let (provider, questions) = answering(Ok(deny("no")));
    let model = ScriptedModel::new()
        .turn(calls([("echo", json!({ "text": "small" })), ("echo", json!({ "text": "LARGE" }))]))
        .turn(text("done"));
    let count = Arc::default();
    let tool = echo(&count)
        .with_spec(|spec| spec.approval(RequiresApproval::when(|args| args["text"] == "LARGE")));
    let agent = Agent::builder("tester", model.clone()).tool(tool).approvals(provider);
    agent.build().unwrap().run("hi").await.unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 1);
    let questions = questions.lock().unwrap();
    assert_eq!((questions.len(), questions[0].call.id.as_str()), (1, "call_2"));
}

#[tokio::test]
async fn whoever_reads_the_events_can_answer() {
    for (decision, runs) in [(ApprovalDecision::Approve, 1), (deny("no"), 0)] {
        let count = Arc::default();
        let model = ScriptedModel::new().turn(call("echo", json!({}))).turn(text("done"));
        let agent = Agent::builder("tester", model)
            .tool(guarded(&count))
            .approvals(ApprovalMode::Interactive)
            .build()
            .unwrap();
        let mut stream = agent.run("hi").stream();
        let handle = stream.handle();
        while let Some(event) = stream.next().await {
            if let EventKind::ApprovalNeeded { request } = &event.kind {
                assert_eq!(count.load(Ordering::SeqCst), 0, "it waits");
                // The first answer counts.
                handle.decide(request.id, decision.clone()).unwrap();
                handle.decide(request.id, deny("changed my mind")).unwrap();
            }
        }
        assert_eq!(count.load(Ordering::SeqCst), runs);
    }
}

#[tokio::test]
async fn events_that_nobody_reads_are_answered_with_no() {
    let count = Arc::new(AtomicUsize::new(0));
    let model = ScriptedModel::new().turn(call("echo", json!({}))).turn(text("well"));
    let agent =
        Agent::builder("tester", model).tool(guarded(&count)).approvals(ApprovalMode::Interactive);
    let result = agent.build().unwrap().run("go").await.unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 0);
    assert!(result.tool_results[0].to_text().contains("no approver is available"));
}
