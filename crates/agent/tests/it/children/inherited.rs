//! What a child has from the run above it: hooks, people to ask, limits, the end.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use async_trait::async_trait;
use futures::StreamExt;
use parking_lot::Mutex;
use provost_agent::hook::{Hook, HookEvent};
use provost_agent::{Agent, ApprovalMode, HookInheritance, RunOutcome, Subagent};
use provost_core::usage::limits::Limits;
use provost_core::{ApprovalDecision, EventKind, Usage};
use provost_model::{ScriptedModel, call, text};
use provost_tool::{RequiresApproval, RunContext};
use serde_json::json;

use super::{child, lead, told};
use crate::support::echo;

/// Writes down who was seen where.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

#[async_trait]
impl Hook for Seen {
    async fn on_event(&self, cx: &RunContext, _event: &HookEvent) {
        self.0.lock().push(cx.agent.to_string());
    }
}

async fn agents_seen(hooks: HookInheritance) -> Vec<String> {
    let below = ScriptedModel::new().turn(text("forty-two"));
    let above =
        ScriptedModel::new().turn(call("child", json!({"task": "think"}))).turn(text("done"));
    let seen = Seen::default();
    let lead = Agent::builder("lead", above)
        .subagent(Subagent::new(&child(&below), "Does one thing").hooks(hooks))
        .hook(seen.clone())
        .build()
        .unwrap();
    lead.run("go").await.unwrap();
    let mut agents = seen.all();
    agents.sort();
    agents.dedup();
    agents
}

#[tokio::test]
async fn hooks_of_the_run_above_see_its_children_unless_they_are_told_not_to() {
    assert_eq!(agents_seen(HookInheritance::Inherit).await, ["lead", "lead/child"]);
    assert_eq!(agents_seen(HookInheritance::OwnOnly).await, ["lead"]);
    assert_eq!(agents_seen(HookInheritance::None).await, ["lead"]);
}

/// A child whose tool needs a person's yes.
fn careful(model: &ScriptedModel, count: &Arc<AtomicUsize>) -> Agent {
    let tool = echo(count).with_spec(|spec| spec.approval(RequiresApproval::Always));
    Agent::builder("child", model.clone()).tool(tool).build().unwrap()
}

fn careful_scripts() -> (ScriptedModel, ScriptedModel) {
    let below =
        ScriptedModel::new().turn(call("echo", json!({"text": "boom"}))).turn(text("it is done"));
    let above =
        ScriptedModel::new().turn(call("child", json!({"task": "do it"}))).turn(text("done"));
    (below, above)
}

#[tokio::test]
async fn a_childs_question_reaches_whoever_answers_for_its_parent_with_the_real_call() {
    let count = Arc::new(AtomicUsize::new(0));
    let (below, above) = careful_scripts();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&asked);
    let agent = lead(&above, &careful(&below, &count));
    let run = agent.run("go").approvals(ApprovalMode::callback(move |request| {
        note.lock().push(request.call.name);
        async { Ok(ApprovalDecision::Approve) }
    }));
    run.await.unwrap();
    assert_eq!(*asked.lock(), ["echo"]);
    assert_eq!(
        (count.load(std::sync::atomic::Ordering::SeqCst), told(&above, 1).as_str()),
        (1, "it is done")
    );
}

#[tokio::test]
async fn whoever_reads_the_parents_events_answers_the_childs_question() {
    let count = Arc::new(AtomicUsize::new(0));
    let (below, above) = careful_scripts();
    let agent = lead(&above, &careful(&below, &count));
    let mut stream = agent.run("go").approvals(ApprovalMode::Interactive).stream();
    let handle = stream.handle();
    while let Some(event) = stream.next().await {
        if let EventKind::ApprovalNeeded { request } = &event.innermost().kind {
            assert_eq!(&*event.agent, "lead/child");
            handle.decide(request.id, ApprovalDecision::Approve).unwrap();
        }
    }
    assert_eq!(count.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[tokio::test]
async fn s238_a_child_that_waits_for_a_person_suspends_its_parent_and_goes_on_with_it() {
    let count = Arc::new(AtomicUsize::new(0));
    let (below, above) = careful_scripts();
    let agent = lead(&above, &careful(&below, &count));
    let outcome = agent.run("go").approvals(ApprovalMode::Suspend).outcome().await.unwrap();
    let RunOutcome::Suspended(suspended) = outcome else { panic!("{outcome:?}") };
    assert!(suspended.approvals()[0].hint.as_deref().unwrap().contains("child wants to call echo"));
    assert_eq!(count.load(std::sync::atomic::Ordering::SeqCst), 0);
    let stored = suspended.to_bytes().unwrap();
    let again = provost_agent::SuspendedRun::from_bytes(&stored).unwrap().approve_all();
    let result = agent.resume(again).approvals(ApprovalMode::Suspend).await.unwrap();
    assert_eq!(result.output, "done");
    assert_eq!(count.load(std::sync::atomic::Ordering::SeqCst), 1);
    assert_eq!((below.call_count(), told(&above, 1).as_str()), (2, "it is done"));
}

#[tokio::test]
async fn a_limit_of_the_run_above_stops_its_children() {
    let below = ScriptedModel::from_fn(|_, _| {
        call("echo", json!({"text": "more"})).usage(Usage::new(100, 10))
    });
    let above = ScriptedModel::new()
        .turn(call("child", json!({"task": "think"})).usage(Usage::new(10, 1)))
        .turn(text("never"));
    let agent = lead(&above, &child(&below));
    let limits = Limits { total_tokens: Some(250), ..Limits::default() };
    let result = agent.run("go").limits(limits).await.unwrap();
    assert!(result.limit.is_some(), "{result:?}");
    assert!((2..=3).contains(&below.call_count()), "{}", below.call_count());
}

#[tokio::test]
async fn agents_inside_agents_end_at_the_depth_limit() {
    let bottom = ScriptedModel::new().turn(text("too deep"));
    let middle_model =
        ScriptedModel::new().turn(call("child", json!({"task": "x"}))).turn(text("middle"));
    let middle = Agent::builder("middle", middle_model.clone())
        .subagent(Subagent::new(&child(&bottom), "Deeper"))
        .build()
        .unwrap();
    let above = ScriptedModel::new().turn(call("middle", json!({"task": "x"}))).turn(text("top"));
    let lead = Agent::builder("lead", above)
        .subagent(Subagent::new(&middle, "Deep"))
        .limits(Limits { depth: Some(1), ..Limits::default() })
        .build()
        .unwrap();
    assert_eq!(lead.run("go").await.unwrap().output, "top");
    assert_eq!(bottom.call_count(), 0);
    assert!(told(&middle_model, 1).contains("depth"), "{}", told(&middle_model, 1));
}

#[tokio::test]
async fn a_run_that_is_cancelled_takes_its_children_with_it() {
    let below = ScriptedModel::new().turn(text("late").hang());
    let above = ScriptedModel::new().turn(call("child", json!({"task": "think"})));
    let mut stream = lead(&above, &child(&below)).run("go").stream();
    let handle = stream.handle();
    let mut ended_below = false;
    while let Some(event) = stream.next().await {
        match &event.innermost().kind {
            EventKind::TurnStarted { .. } if event.depth() == 1 => handle.cancel(),
            EventKind::Cancelled if event.depth() == 1 => ended_below = true,
            _ => {}
        }
    }
    assert!(ended_below);
}
