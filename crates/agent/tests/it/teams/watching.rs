//! Seeing what a team does: events, hooks, and its place in a run.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use provost_agent::Agent;
use provost_agent::hook::{Hook, HookPoint, ObserverHook, TeamMessageInfo, TeammateInfo};
use provost_agent::team::{LEAD, TeamMembership};
use provost_core::EventKind;
use provost_model::{ModelErrorClass, ScriptedModel, call, calls, fail, text};
use provost_tool::{FnTool, RunContext, ToolContext, ToolError, tool_fn};
use serde_json::json;

use super::{ends, lead, member, send, spawn, team_of, told_text, wait};
use crate::support::{Say, events, final_text, names};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

fn about(what: &str, teammate: &TeammateInfo) -> String {
    let TeammateInfo { team, member, task, result, .. } = teammate;
    format!("{what} {team}/{member} ({task}): {result:?}")
}

#[async_trait]
impl Hook for Log {
    async fn on_teammate_join(&self, _cx: &RunContext, teammate: &TeammateInfo) {
        self.add(about("join", teammate));
    }

    async fn on_teammate_stopped(&self, _cx: &RunContext, teammate: &TeammateInfo) {
        self.add(about("leave", teammate));
    }

    async fn on_teammate_complete(&self, _cx: &RunContext, teammate: &TeammateInfo) {
        self.add(about("complete", teammate));
    }

    async fn on_teammate_error(&self, _cx: &RunContext, teammate: &TeammateInfo) {
        self.add(about("error", teammate));
    }

    async fn on_team_message(&self, _cx: &RunContext, message: &TeamMessageInfo) {
        let TeamMessageInfo { team, from, to, content } = message;
        self.add(format!("message {team} {from}>{to}: {content}"));
    }

    async fn on_subagent_start(
        &self,
        _cx: &RunContext,
        subagent: &provost_agent::hook::SubagentInfo,
    ) {
        self.add(format!("subagent {}", subagent.agent));
    }
}

/// A member that says something to the lead and ends.
fn speaker() -> Agent {
    let model = ScriptedModel::new().turn(send(LEAD, "half done")).turn(text("a page"));
    Agent::builder("writer", model).build().unwrap()
}

fn failing() -> Agent {
    let model = ScriptedModel::new().turn(fail(ModelErrorClass::InvalidRequest, "no ink"));
    Agent::builder("writer", model).build().unwrap()
}

fn waits_twice() -> ScriptedModel {
    ScriptedModel::new().turn(spawn("writer")).turn(wait()).turn(text("done"))
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_stopped_leaves() {
    let above = ScriptedModel::new()
        .turn(spawn("writer"))
        .turn(call("stop_teammate", json!({"name": "writer"})))
        .turn(text("done"));
    let (log, points) = (Log::default(), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&points);
    let lead = Agent::builder("lead", above)
        .team(team_of(&[&super::busy("writer")]))
        .hook(log.clone())
        .hook(ObserverHook::new(move |event| seen.lock().unwrap().push(event.point)))
        .build()
        .unwrap();
    lead.run("go").await.unwrap();
    let left = log.lines().into_iter().filter(|line| line.starts_with("leave crew/writer")).count();
    assert_eq!(left, 1, "{:?}", log.lines());
    assert!(points.lock().unwrap().contains(&HookPoint::TeammateStopped));
}

#[tokio::test]
async fn s187_hooks_see_who_joins_who_is_done_and_what_is_said() {
    let log = Log::default();
    let model = waits_twice();
    let lead = Agent::builder("lead", model).team(team_of(&[&speaker()])).hook(log.clone());
    lead.build().unwrap().run("go").await.unwrap();
    assert_eq!(
        log.lines(),
        [
            "join crew/writer (the task of writer): None",
            "message crew writer>__lead__: half done",
            "complete crew/writer (the task of writer): Some(Ok(\"a page\"))"
        ]
    );
}

#[tokio::test]
async fn s188_hooks_see_the_error_of_a_member() {
    let log = Log::default();
    let lead = Agent::builder("lead", waits_twice()).team(team_of(&[&failing()])).hook(log.clone());
    lead.build().unwrap().run("go").await.unwrap();
    let lines = log.lines();
    assert!(lines[1].starts_with("error crew/writer") && lines[1].contains("no ink"), "{lines:?}");
}

#[tokio::test]
async fn s189_an_observer_sees_the_points_of_a_team() {
    for (agent, last) in
        [(speaker(), HookPoint::TeammateComplete), (failing(), HookPoint::TeammateError)]
    {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&seen);
        let observe = ObserverHook::new(move |event| {
            keep.lock().unwrap().push((event.point, event.agent.clone(), event.is_error));
        });
        let lead = Agent::builder("lead", waits_twice()).team(team_of(&[&agent])).hook(observe);
        lead.build().unwrap().run("go").await.unwrap();
        let seen = seen.lock().unwrap().clone();
        let at = |point| seen.iter().find(|(at, ..)| *at == point).cloned();
        assert_eq!(at(HookPoint::TeammateJoin).unwrap().1, "writer");
        let fails = last == HookPoint::TeammateError;
        assert_eq!(at(last), Some((last, "writer".to_owned(), fails)));
        assert_eq!(at(HookPoint::TeamMessage).is_some(), !fails);
    }
}

#[tokio::test]
async fn s190_the_stream_tells_of_members_and_messages() {
    let events = events(lead(&waits_twice(), team_of(&[&speaker()])).run("go").stream()).await;
    let innermost: Vec<_> = events.iter().map(|event| event.innermost().clone()).collect();
    let names = names(&innermost);
    let at = |name: &str| names.iter().position(|other| other == name).unwrap();
    assert!(at("teammate_spawned") < at("team_message"));
    assert!(at("team_message") < at("teammate_complete"));
    let spawned = &events[at("teammate_spawned")];
    let EventKind::TeammateSpawned(writer) = &spawned.kind else { panic!("{spawned:?}") };
    assert_eq!((writer.team.as_str(), writer.member.as_str()), ("crew", "writer"));
    let said = &events[at("team_message")];
    assert_eq!((said.depth(), &*said.agent), (1, "lead/writer"));
    assert_eq!(ends(&events), [("writer".into(), "complete", "a page".into())]);
    let failed =
        crate::support::events(lead(&waits_twice(), team_of(&[&failing()])).run("go").stream());
    let ends = ends(&failed.await);
    assert_eq!((ends[0].0.as_str(), ends[0].1), ("writer", "error"));
    assert!(ends[0].2.contains("no ink"), "{ends:?}");
}

#[tokio::test]
async fn a_team_of_five_is_told_in_one_ordered_stream() {
    let all: Vec<String> = (1..=5).map(|number| format!("m{number}")).collect();
    let agents: Vec<Agent> =
        all.iter().map(|name| member(name, &format!("answer of {name}")).0).collect();
    let spawns = all.iter().map(|name| ("spawn_teammate", json!({"name": name, "task": "go"})));
    let model = ScriptedModel::new().turn(calls(spawns)).turn(text("done"));
    let team = team_of(&agents.iter().collect::<Vec<_>>());
    // Without gaps: the reader of the events checks that.
    let events = events(lead(&model, team).run("go").stream()).await;
    let mut ends = ends(&events);
    ends.sort();
    let expected: Vec<_> =
        all.iter().map(|name| (name.clone(), "complete", format!("answer of {name}"))).collect();
    assert_eq!(ends, expected);
    for name in &all {
        let path = format!("lead/{name}");
        let of_member: Vec<u64> = events
            .iter()
            .filter(|event| *event.agent == *path)
            .map(|event| event.innermost().seq)
            .collect();
        let counted: Vec<u64> = (0..of_member.len() as u64).collect();
        assert_eq!(of_member, counted, "{name}");
    }
    assert_eq!(final_text(&events), "done");
    let EventKind::Finished { summary } = &events.last().unwrap().kind else { panic!() };
    assert_eq!(summary.agents.len(), 6);
}

/// Says what place its run has.
fn place() -> FnTool {
    tool_fn("place", "Says who you are", |cx: ToolContext, _args: Say| async move {
        let seat = TeamMembership::of(&cx)?;
        let lead = if seat.is_lead() { "the lead" } else { "a member" };
        Ok::<_, ToolError>(format!("{} is {lead} of {}", seat.name(), seat.team()))
    })
    .unwrap()
}

#[tokio::test]
async fn s209_a_run_has_a_place_only_in_its_own_team() {
    let asks = || ScriptedModel::new().turn(call("place", json!({}))).turn(text("done"));
    let alone = asks();
    Agent::builder("x", alone.clone()).tool(place()).build().unwrap().run("go").await.unwrap();
    super::refused(&alone, 1, "is not a participant of a team");
    let (below, of_sub) = (asks(), asks());
    let writer = Agent::builder("writer", below.clone()).tool(place()).build().unwrap();
    let sub = Agent::builder("sub", of_sub.clone()).tool(place()).build().unwrap();
    let above = ScriptedModel::new()
        .turn(spawn("writer"))
        .turn(call("place", json!({})))
        .turn(call("sub", json!({"task": "who are you?"})))
        .turn(text("done"));
    let lead = Agent::builder("lead", above.clone())
        .tool(place())
        .subagent(provost_agent::Subagent::new(&sub, "Something else"))
        .team(team_of(&[&writer]));
    lead.build().unwrap().run("go").await.unwrap();
    assert_eq!(told_text(&above, 2), "__lead__ is the lead of crew");
    assert_eq!(told_text(&below, 1), "writer is a member of crew");
    super::refused(&of_sub, 1, "is not a participant of a team");
}
