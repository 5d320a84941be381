//! Questions of children: who answers them, and what becomes of them when nobody can.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use provost_agent::{Agent, ApprovalMode, FanOut, Handoff, RunOutcome, Subagent, Team};
use provost_core::{ApprovalDecision, EventKind};
use provost_model::{ScriptedModel, call, text};
use provost_tool::RequiresApproval;
use serde_json::{Value, json};

use super::unhappy::{background, task};
use super::{lead, told};
use crate::support::{echo, events};

/// A child whose tool needs a person's yes.
fn careful(count: &Arc<AtomicUsize>, answers: ApprovalMode) -> Agent {
    let model =
        ScriptedModel::new().turn(call("echo", json!({"text": "boom"}))).turn(text("it is done"));
    let tool = echo(count).with_spec(|spec| spec.approval(RequiresApproval::Always));
    Agent::builder("child", model).tool(tool).approvals(answers).build().unwrap()
}

#[tokio::test]
async fn a_child_that_would_suspend_is_answered_where_the_run_above_is() {
    for (answers, ran) in [(ApprovalMode::AutoApprove, 1), (ApprovalMode::Deny, 0)] {
        let count = Arc::new(AtomicUsize::new(0));
        let above = ScriptedModel::new().turn(task("child")).turn(text("done"));
        let agent = lead(&above, &careful(&count, ApprovalMode::Suspend));
        let result = agent.run("go").approvals(answers).await.unwrap();
        assert_eq!((told(&above, 1).as_str(), count.load(Ordering::SeqCst)), ("it is done", ran));
        assert!(result.state.is_empty(), "{:?}", result.state);
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_by_events_that_nobody_reads_is_denied() {
    let count = Arc::new(AtomicUsize::new(0));
    let asking = careful(&count, ApprovalMode::Interactive);
    let above = ScriptedModel::new().turn(task("child")).turn(text("done"));
    let minute = Duration::from_secs(60);
    let run = tokio::time::timeout(minute, lead(&above, &asking).run("go").outcome());
    assert!(matches!(run.await.unwrap().unwrap(), RunOutcome::Completed(_)));
    let handing = ScriptedModel::new().turn(call("transfer_to_child", json!({})));
    let handing = Agent::builder("first", handing)
        .handoff(Handoff::to(&careful(&count, ApprovalMode::Interactive), "All else"))
        .build()
        .unwrap();
    let run = tokio::time::timeout(minute, handing.run("go").outcome());
    assert!(matches!(run.await.unwrap().unwrap(), RunOutcome::Completed(_)));
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_member_can_be_answered_after_its_lead_has_answered() {
    let count = Arc::new(AtomicUsize::new(0));
    let model = ScriptedModel::new()
        .turn(call("echo", json!({"text": "boom"})).delay(Duration::from_secs(1)))
        .turn(text("it is done"));
    let tool = echo(&count).with_spec(|spec| spec.approval(RequiresApproval::Always));
    let writer = Agent::builder("writer", model).tool(tool).build().unwrap();
    let above = ScriptedModel::new()
        .turn(call("spawn_teammate", json!({"name": "writer", "task": "write"})))
        .turn(text("done"));
    let agent = Agent::builder("lead", above)
        .team(Team::new("press").template(&writer, "Writes"))
        .approvals(ApprovalMode::Interactive)
        .build()
        .unwrap();
    let mut stream = agent.run("go").stream();
    let handle = stream.handle();
    while let Some(event) = stream.next().await {
        if let EventKind::ApprovalNeeded { request } = &event.innermost().kind {
            handle.decide(request.id, ApprovalDecision::Approve).unwrap();
        }
    }
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_detached_child_that_asks_after_the_end_is_denied() {
    let count = Arc::new(AtomicUsize::new(0));
    let (tell, told) = tokio::sync::oneshot::channel();
    let tell = std::sync::Mutex::new(Some(tell));
    let model = ScriptedModel::from_fn(move |request, turn| match turn {
        0 => call("echo", json!({"text": "boom"})).delay(Duration::from_secs(1)),
        _ => {
            let heard = request.last_tool_result().unwrap().to_text();
            tell.lock().unwrap().take().unwrap().send(heard).unwrap();
            text("it is done")
        }
    });
    let tool = echo(&count).with_spec(|spec| spec.approval(RequiresApproval::Always));
    let below = Agent::builder("child", model).tool(tool).build().unwrap();
    let above = ScriptedModel::new().turn(background("child")).turn(text("done"));
    let agent = Agent::builder("lead", above)
        .subagent(Subagent::new(&below, "Does one thing").detached())
        .approvals(ApprovalMode::Interactive)
        .build()
        .unwrap();
    events(agent.run("go").stream()).await;
    let heard = tokio::time::timeout(Duration::from_secs(60), told).await.unwrap().unwrap();
    assert!(heard.contains("no approver was left"), "{heard}");
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn each_question_of_an_agent_deep_below_is_asked_with_the_real_call() {
    let count = Arc::new(AtomicUsize::new(0));
    let twice = || call("echo", json!({"text": "boom"}));
    let leaf = ScriptedModel::new().turn(twice()).turn(twice()).turn(text("it is done"));
    let tool = echo(&count).with_spec(|spec| spec.approval(RequiresApproval::Always));
    let leaf = Agent::builder("leaf", leaf).tool(tool).build().unwrap();
    let middle = ScriptedModel::new().turn(task("leaf")).turn(text("middle"));
    let middle = Agent::builder("middle", middle)
        .subagent(Subagent::new(&leaf, "Does one thing"))
        .build()
        .unwrap();
    let above = ScriptedModel::new().turn(task("middle")).turn(text("done"));
    let agent = Agent::builder("lead", above.clone())
        .subagent(Subagent::new(&middle, "Asks another"))
        .approvals(ApprovalMode::Suspend)
        .build()
        .unwrap();
    let mut outcome = agent.run("go").outcome().await.unwrap();
    for _ in 0..2 {
        let RunOutcome::Suspended(waits) = outcome else { panic!("it did not wait: {outcome:?}") };
        let request = waits.approvals()[0];
        let hint = "middle wants to call leaf (leaf wants to call echo)";
        assert_eq!(request.hint.as_deref(), Some(hint));
        assert!(request.payload.as_ref().unwrap().to_string().contains("boom"), "{request:?}");
        outcome = agent.resume(waits.approve_all()).outcome().await.unwrap();
    }
    assert!(matches!(outcome, RunOutcome::Completed(_)), "{outcome:?}");
    assert_eq!((told(&above, 1).as_str(), count.load(Ordering::SeqCst)), ("middle", 2));
}

#[tokio::test]
async fn a_no_to_one_task_leaves_the_others_what_they_came_to() {
    let count = Arc::new(AtomicUsize::new(0));
    let below = ScriptedModel::from_fn(|request, _| match request.last_tool_result() {
        Some(result) => text(result.to_text()),
        None if request.messages[0].text() == "easy" => text("easily"),
        None => call("echo", json!({"text": "boom"})),
    });
    let tool = echo(&count).with_spec(|spec| spec.approval(RequiresApproval::Always));
    let below = Agent::builder("child", below).tool(tool).build().unwrap();
    let tasks = json!({"tasks": ["hard", "easy", "hard"]});
    let above = ScriptedModel::new().turn(call("each", tasks)).turn(text("done"));
    let agent = Agent::builder("lead", above.clone())
        .fan_out(FanOut::new(&below, "each", "Does all"))
        .approvals(ApprovalMode::Suspend)
        .build()
        .unwrap();
    let RunOutcome::Suspended(waits) = agent.run("go").outcome().await.unwrap() else {
        panic!("it did not wait")
    };
    let result = agent.resume(waits.reject_all("too loud")).await.unwrap();
    let shown: Value = serde_json::from_str(&told(&above, 1)).unwrap();
    assert_eq!(shown["results"][1]["result"], "easily");
    for hard in [0, 2] {
        let heard = shown["results"][hard]["result"].as_str().unwrap();
        assert!(heard.contains("too loud"), "{shown}");
    }
    assert_eq!(count.load(Ordering::SeqCst), 0);
    assert_eq!(result.agents.iter().map(|used| used.turns).sum::<u32>(), 2 + 1 + 2 * 2);
    assert!(result.state.is_empty(), "{:?}", result.state);
}
