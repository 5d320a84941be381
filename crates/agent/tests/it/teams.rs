//! An agent that leads others.

mod board;
mod books;
mod bounds;
mod ending;
mod mail;
mod messages;
mod spawning;
mod watching;

use std::time::Duration;

use provost_agent::{Agent, Team};
use provost_core::{Event, EventKind, ToolResult};
use provost_model::{ScriptedModel, ScriptedTurn, call, text};
use serde_json::{Value, json};

/// Long, compared with everything else that happens in a test whose clock is paused.
const LONG: Duration = Duration::from_secs(1000);

/// A member that answers at once.
fn member(name: &str, answer: &str) -> (Agent, ScriptedModel) {
    let model = ScriptedModel::new().turn(text(answer));
    (Agent::builder(name, model.clone()).build().unwrap(), model)
}

/// A member that is at work for a long time; needs a paused clock.
fn busy(name: &str) -> Agent {
    let model = ScriptedModel::from_fn(|_, _| text("at last").delay(LONG));
    Agent::builder(name, model).build().unwrap()
}

fn team_of(members: &[&Agent]) -> Team {
    members.iter().fold(Team::new("crew"), |team, agent| team.template(*agent, "Does its part"))
}

fn lead(model: &ScriptedModel, team: Team) -> Agent {
    Agent::builder("lead", model.clone()).team(team).build().unwrap()
}

fn spawn(name: &str) -> ScriptedTurn {
    call("spawn_teammate", json!({"name": name, "task": format!("the task of {name}")}))
}

fn send(to: &str, content: &str) -> ScriptedTurn {
    call("send_message", json!({"to": to, "content": content}))
}

fn wait() -> ScriptedTurn {
    call("wait_for_messages", json!({}))
}

/// What the model was told by its last tool, before this request.
fn told(model: &ScriptedModel, request: usize) -> ToolResult {
    model.request(request).last_tool_result().unwrap().clone()
}

fn told_text(model: &ScriptedModel, request: usize) -> String {
    let told = told(model, request);
    assert!(!told.is_error, "{}", told.to_text());
    told.to_text()
}

fn told_json(model: &ScriptedModel, request: usize) -> Value {
    serde_json::from_str(&told_text(model, request)).unwrap()
}

/// The last result is an error that says this.
fn refused(model: &ScriptedModel, request: usize, says: &str) {
    let told = told(model, request);
    assert!(told.is_error && told.to_text().contains(says), "{}", told.to_text());
}

/// Members that came to their end, by the lead's own events: who, how, with what.
fn ends(events: &[Event]) -> Vec<(String, &'static str, String)> {
    let mut ends = Vec::new();
    for event in events {
        let (how, member) = match &event.kind {
            EventKind::TeammateComplete(member) => ("complete", member),
            EventKind::TeammateError(member) => ("error", member),
            EventKind::TeammateStopped(member) => ("stopped", member),
            _ => continue,
        };
        let what = member.result.clone().or_else(|| member.error.clone()).unwrap_or_default();
        ends.push((member.member.clone(), how, what));
    }
    ends
}
