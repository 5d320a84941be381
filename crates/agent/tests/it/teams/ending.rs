//! How members and their team come to an end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use provost_agent::team::{
    InMemoryTeamStore, LEAD, MemberOutcome, TeamCommand, TeamResponse, TeamState, TeamStore,
    TeamWait,
};
use provost_agent::{Agent, ApprovalMode, RunOutcome, Team};
use provost_core::{Env, EventKind};
use provost_model::{ModelErrorClass, ScriptedModel, call, calls, fail, text};
use provost_tool::{RequiresApproval, Tool as _};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{LONG, busy, ends, lead, member, spawn, team_of, told, told_json, told_text, wait};
use crate::support::{echo, endless, events, final_text};

#[tokio::test(start_paused = true)]
async fn s194_the_leads_run_returns_after_its_members_ended() {
    let above = ScriptedModel::new().turn(spawn("writer")).turn(text("I am done"));
    let begun = Instant::now();
    let events = events(lead(&above, team_of(&[&busy("writer")])).run("go").stream()).await;
    assert!(begun.elapsed() >= LONG);
    assert_eq!(ends(&events), [("writer".into(), "complete", "at last".into())]);
    assert_eq!(final_text(&events), "I am done");
}

#[tokio::test]
async fn s192_a_coordinator_has_and_can_run_only_the_tools_of_its_team() {
    let (writer, _) = member("writer", "a page");
    let (sub, below) = member("sub", "never");
    let above = ScriptedModel::new()
        .turn(call("echo", json!({"text": "x"})))
        .turn(call("sub", json!({"task": "x"})))
        .turn(calls([
            ("spawn_teammate", json!({"name": "writer", "task": "write"})),
            ("create_board_task", json!({"title": "paint"})),
        ]))
        .turn(call("list_teammates", json!({})))
        .turn(wait())
        .turn(text("done"));
    let count = Arc::new(AtomicUsize::new(0));
    let lead = Agent::builder("lead", above.clone())
        .tool(echo(&count))
        .toolset(provost_tool::StaticToolset::new("more", [Arc::new(endless(&count)) as _]))
        .subagent(provost_agent::Subagent::new(&sub, "Something else"))
        .handoff(provost_agent::Handoff::to(&sub, "Something else"))
        .team(team_of(&[&writer]).coordinator_only())
        .build()
        .unwrap();
    let result = lead.run("go").await.unwrap();
    let mut offered: Vec<String> =
        above.request(0).tools.iter().map(|tool| tool.name.clone()).collect();
    offered.sort();
    let team = [
        "claim_board_task",
        "complete_board_task",
        "create_board_task",
        "list_board_tasks",
        "list_teammates",
        "read_messages",
        "send_message",
        "spawn_teammate",
        "stop_teammate",
        "unclaim_board_task",
        "wait_for_messages",
    ];
    assert_eq!(offered, team);
    for request in [1, 2] {
        super::refused(&above, request, "there is no tool");
    }
    assert_eq!((count.load(Ordering::SeqCst), below.requests().len()), (0, 0));
    assert!(told_text(&above, 5).contains("a page"));
    assert_eq!(result.output, "done");
}

#[tokio::test(start_paused = true)]
async fn s206_stopping_a_member_stops_what_it_does() {
    let alive = Arc::new(AtomicUsize::new(0));
    let model = ScriptedModel::new().turn(call("endless", json!({})));
    let writer = Agent::builder("writer", model).tool(endless(&alive)).build().unwrap();
    let alive_then = Arc::clone(&alive);
    let above = ScriptedModel::from_fn(move |_, turn| match turn {
        0 => spawn("writer"),
        1 => call("wait_for_messages", json!({"timeout": 5})),
        2 => {
            assert_eq!(alive_then.load(Ordering::SeqCst), 1);
            call("stop_teammate", json!({"name": "writer"}))
        }
        3 => call("stop_teammate", json!({"name": "nobody"})),
        _ => text("done"),
    });
    lead(&above, team_of(&[&writer])).run("go").await.unwrap();
    assert_eq!(told_text(&above, 3), "writer was stopped.");
    super::refused(&above, 4, "`nobody` is not in the team");
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn s207_with_the_lead_active_members_are_stopped_and_others_left_alone() {
    let (done, _) = member("done", "a page");
    let above = ScriptedModel::new()
        .turn(spawn("done"))
        .turn(wait())
        .turn(spawn("busy"))
        .turn(text("never").hang());
    let token = CancellationToken::new();
    let run = lead(&above, team_of(&[&done, &busy("busy")])).run("go").cancel_token(token.clone());
    let cancel = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        token.cancel();
    };
    let begun = Instant::now();
    let (events, ()) = tokio::join!(events(run.stream()), cancel);
    assert!(begun.elapsed() < Duration::from_secs(10));
    let expected =
        [("done".into(), "complete", "a page".into()), ("busy".into(), "stopped", String::new())];
    assert_eq!(ends(&events), expected);
    assert!(matches!(events.last().unwrap().kind, EventKind::Cancelled));
    // And a desk lets go whoever waits for all, once the last one is over.
    let desk = InMemoryTeamStore::new(
        Env::simulated(1).id(),
        TeamState::new("crew", 0),
        Env::simulated(1),
    );
    let join = TeamCommand::Join { name: "a".into(), task: "x".into() };
    desk.apply(None, join).await.unwrap();
    let over = TeamCommand::MemberFinished { name: "a".into(), end: MemberOutcome::Stopped(None) };
    let (waited, ended) =
        tokio::join!(desk.wait(TeamWait::AllFinished, None), desk.apply(None, over));
    assert!(waited.is_ok() && matches!(ended, Ok(TeamResponse::Member { .. })));
}

#[tokio::test(start_paused = true)]
async fn when_the_lead_fails_its_members_are_stopped() {
    let above = ScriptedModel::new()
        .turn(spawn("busy"))
        .turn(fail(ModelErrorClass::InvalidRequest, "no more"));
    let begun = Instant::now();
    let events = events(lead(&above, team_of(&[&busy("busy")])).run("go").stream()).await;
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(ends(&events), [("busy".into(), "stopped", String::new())]);
    assert!(matches!(events.last().unwrap().kind, EventKind::Failed { .. }));
}

#[tokio::test(start_paused = true)]
async fn when_the_time_of_the_lead_is_over_it_keeps_its_answer_and_stops_its_members() {
    let above = ScriptedModel::new().turn(spawn("busy")).turn(text("my answer"));
    let limits = provost_core::Limits::default().wall(Duration::from_secs(20));
    let run = lead(&above, team_of(&[&busy("busy")])).run("go").limits(limits);
    let events = events(run.stream()).await;
    assert_eq!(ends(&events), [("busy".into(), "stopped", String::new())]);
    assert_eq!(final_text(&events), "my answer");
}

#[tokio::test]
async fn one_member_that_fails_does_not_fail_the_team() {
    let model = ScriptedModel::new().turn(fail(ModelErrorClass::InvalidRequest, "no ink"));
    let bad = Agent::builder("bad", model).build().unwrap();
    let panics = ScriptedModel::from_fn(|_, _| panic!("boom"));
    let worse = Agent::builder("worse", panics).build().unwrap();
    let (good, _) = member("good", "a page");
    let spawns =
        ["bad", "worse", "good"].map(|name| ("spawn_teammate", json!({"name": name, "task": "x"})));
    let above = ScriptedModel::new().turn(calls(spawns)).turn(text("done"));
    let events = events(lead(&above, team_of(&[&bad, &worse, &good])).run("go").stream()).await;
    let mut ends = ends(&events);
    ends.sort();
    let how: Vec<(&str, &str)> = ends.iter().map(|(who, how, _)| (who.as_str(), *how)).collect();
    assert_eq!(how, [("bad", "error"), ("good", "complete"), ("worse", "error")]);
    assert_eq!(final_text(&events), "done");
}

#[tokio::test(start_paused = true)]
async fn a_member_that_hangs_is_stopped_when_its_time_is_over() {
    let above = ScriptedModel::new()
        .turn(call("spawn_teammate", json!({"name": "busy", "task": "x", "timeout": 7})))
        .turn(spawn("slow"))
        .turn(wait())
        .turn(wait())
        .turn(text("done"));
    let team = team_of(&[&busy("busy"), &busy("slow")]).default_timeout(Duration::from_secs(30));
    let begun = Instant::now();
    let events = events(lead(&above, team).run("go").stream()).await;
    assert!(begun.elapsed() < Duration::from_secs(40));
    assert_eq!(told_json(&above, 3)[0]["content"], "[stopped] it exceeded its timeout of 7 s");
    assert_eq!(
        ends(&events),
        [
            ("busy".into(), "stopped", "it exceeded its timeout of 7 s".into()),
            ("slow".into(), "stopped", "it exceeded its timeout of 30 s".into())
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn two_runs_of_one_lead_at_once_never_meet() {
    let (anna, _) = member("anna", "x");
    let anna = anna.with_model(ScriptedModel::from_fn(|request, _| {
        let task = request.messages[0].text();
        text(format!("answer to {task}")).delay(Duration::from_secs(1))
    }));
    let above = ScriptedModel::from_fn(|request, _| {
        let task = request.messages[0].text();
        match request.messages.len() {
            1 => calls([
                ("spawn_teammate", json!({"name": "anna", "task": task})),
                ("create_board_task", json!({"title": task})),
            ]),
            3 => wait(),
            5 => call("list_board_tasks", json!({})),
            _ => text(request.last_tool_result().unwrap().to_text()),
        }
    });
    let lead = lead(&above, team_of(&[&anna]));
    let (one, two) = tokio::join!(lead.run("one").into_future(), lead.run("two").into_future());
    for (task, result) in [("one", one.unwrap()), ("two", two.unwrap())] {
        let board: serde_json::Value = serde_json::from_str(&result.output).unwrap();
        assert_eq!(board.as_array().unwrap().len(), 1);
        assert_eq!((&board[0]["id"], &board[0]["title"]), (&json!("board-1"), &json!(task)));
        let heard: Vec<String> = result.tool_results.iter().map(|one| one.to_text()).collect();
        assert!(
            heard.iter().any(|heard| heard.contains(&format!("answer to {task}"))),
            "{heard:?}"
        );
    }
}

#[tokio::test]
async fn a_suspended_lead_keeps_its_board_and_its_messages() {
    let (writer, _) = member("writer", "a page");
    let count = Arc::new(AtomicUsize::new(0));
    let careful = echo(&count).with_spec(|spec| spec.approval(RequiresApproval::Always));
    assert_eq!(careful.spec().name(), "echo");
    let above = ScriptedModel::new()
        .turn(call("create_board_task", json!({"title": "paint"})))
        .turn(spawn("writer"))
        .turn(call("echo", json!({"text": "x"})))
        .turn(call("list_board_tasks", json!({})))
        .turn(wait())
        .turn(text("done"));
    let lead = Agent::builder("lead", above.clone())
        .tool(careful)
        .approvals(ApprovalMode::Suspend)
        .team(team_of(&[&writer]))
        .build()
        .unwrap();
    let RunOutcome::Suspended(suspended) = lead.run("go").outcome().await.unwrap() else {
        panic!()
    };
    let bytes = suspended.to_bytes().unwrap();
    let suspended = provost_agent::SuspendedRun::from_bytes(&bytes).unwrap().approve_all();
    let result = lead.resume(suspended).await.unwrap();
    assert_eq!(result.output, "done");
    assert_eq!(told_json(&above, 4)[0]["title"], "paint");
    let heard = told_json(&above, 5);
    assert_eq!(
        (&heard[0]["content"], &heard[0]["to"]),
        (&json!("[completed] a page"), &json!(LEAD))
    );
    assert!(!told(&above, 3).is_error);
}

#[tokio::test]
async fn a_lead_without_members_ends_like_any_agent() {
    let above = ScriptedModel::new().turn(wait()).turn(text("alone"));
    let result = lead(&above, Team::new("crew")).run("go").await.unwrap();
    assert!(told_text(&above, 1).contains("No active participant"));
    assert_eq!(result.output, "alone");
}

/// Hangs when it is told of a member.
struct Hangs;

#[async_trait::async_trait]
impl provost_agent::hook::Hook for Hangs {
    async fn on_teammate_join(
        &self,
        _cx: &provost_tool::RunContext,
        _teammate: &provost_agent::hook::TeammateInfo,
    ) {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_whose_call_was_given_up_keeps_nobody_waiting() {
    let above = ScriptedModel::new().turn(spawn("busy")).turn(text("done"));
    let team = team_of(&[&busy("busy")]);
    let lead = Agent::builder("lead", above.clone()).team(team).hook(Hangs).build().unwrap();
    let events = events(lead.run("go").stream()).await;
    super::refused(&above, 1, "60");
    assert_eq!(ends(&events), [("busy".into(), "stopped", "it never began".into())]);
    assert_eq!(final_text(&events), "done");
}
