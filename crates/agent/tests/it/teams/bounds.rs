//! What a team does not let pass.

use std::time::Duration;

use provost_agent::team::{INBOX_MESSAGES_MAX, LEAD, MESSAGE_BYTES_MAX};
use provost_agent::{Agent, Team};
use provost_core::Limits;
use provost_model::{ScriptedModel, call, calls, text};
use serde_json::json;
use tokio::time::Instant;

use super::{busy, lead, member, refused, send, spawn, team_of, told, told_text, wait};

#[tokio::test]
async fn s176_a_spawn_without_sense_name_or_task_is_refused() {
    let bad = |arguments: &str| text("").raw_call("", "spawn_teammate", arguments);
    let above = ScriptedModel::new()
        .turn(bad("{oops"))
        .turn(bad(r#"{"name": "", "task": "x"}"#))
        .turn(bad(r#"{"name": "x", "task": ""}"#))
        .turn(text("done"));
    let result = lead(&above, Team::new("crew")).run("go").await.unwrap();
    assert!(told(&above, 1).is_error);
    refused(&above, 2, "`name` is empty");
    refused(&above, 3, "`task` is empty");
    assert_eq!(result.output, "done");
}

#[tokio::test]
async fn a_name_that_is_no_name_is_refused() {
    let above = ScriptedModel::new()
        .turn(call("spawn_teammate", json!({"name": "a/b", "task": "x"})))
        .turn(call("spawn_teammate", json!({"name": LEAD, "task": "x"})))
        .turn(text("done"));
    lead(&above, Team::new("crew")).run("go").await.unwrap();
    refused(&above, 1, "`a/b` is not a member's name");
    refused(&above, 2, "`__lead__` is not a member's name");
}

#[tokio::test]
async fn s181_a_stop_without_sense_or_name_or_of_a_stranger_is_refused() {
    let bad = |arguments: &str| text("").raw_call("", "stop_teammate", arguments);
    let above = ScriptedModel::new()
        .turn(bad("{oops"))
        .turn(bad(r#"{"name": ""}"#))
        .turn(bad(r#"{"name": "ghost"}"#))
        .turn(text("done"));
    let result = lead(&above, Team::new("crew")).run("go").await.unwrap();
    assert!(told(&above, 1).is_error);
    refused(&above, 2, "`name` is empty");
    refused(&above, 3, "`ghost` is not in the team; known names: none");
    assert_eq!(result.output, "done");
}

#[tokio::test(start_paused = true)]
async fn a_flood_is_refused_and_harms_nobody() {
    let to_lead = || ("send_message", json!({"to": LEAD, "content": "again"}));
    let flood = ScriptedModel::new()
        .turn(calls((0..INBOX_MESSAGES_MAX).map(|_| to_lead())))
        .turn(calls([to_lead()]))
        .turn(text("I stop"));
    let limits = Limits::default();
    let noisy = Agent::builder("noisy", flood.clone()).limits(limits).build().unwrap();
    let above = ScriptedModel::new()
        .turn(spawn("noisy"))
        .turn(text("").call("wait_for_messages", json!({})).delay(Duration::from_secs(5)))
        .turn(text("done"));
    let result = lead(&above, team_of(&[&noisy])).run("go").await.unwrap();
    refused(&flood, 2, "the inbox of `__lead__` is full");
    // That it is done comes through.
    assert!(told_text(&above, 2).contains("[completed] I stop"));
    assert_eq!(result.output, "done");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_too_long_is_refused() {
    let above = ScriptedModel::new()
        .turn(spawn("anna"))
        .turn(send("anna", &"x".repeat(MESSAGE_BYTES_MAX + 1)))
        .turn(send("anna", &"\u{1}".repeat(MESSAGE_BYTES_MAX / 2)))
        .turn(call("stop_teammate", json!({"name": "anna"})))
        .turn(text("done"));
    lead(&above, team_of(&[&busy("anna")])).run("go").await.unwrap();
    refused(&above, 2, "shorten it");
    refused(&above, 3, "shorten it");
}

#[tokio::test(start_paused = true)]
async fn members_that_wait_for_each_other_go_on_when_their_time_is_over() {
    let waits = |name: &str| {
        let model = ScriptedModel::new()
            .turn(call("wait_for_messages", json!({"timeout": 30})))
            .turn(text("nothing came"));
        (Agent::builder(name, model.clone()).build().unwrap(), model)
    };
    let ((anna, anna_model), (bert, _)) = (waits("anna"), waits("bert"));
    let above = ScriptedModel::new()
        .turn(spawn("anna"))
        .turn(spawn("bert"))
        .turn(call("wait_for_messages", json!({"timeout": 10})))
        .turn(text("done"));
    let begun = Instant::now();
    lead(&above, team_of(&[&anna, &bert])).run("go").await.unwrap();
    assert_eq!(told_text(&above, 3), "No message arrived within 10 seconds.");
    assert_eq!(told_text(&anna_model, 1), "No message arrived within 30 seconds.");
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn a_member_does_not_wait_for_a_lead_that_is_done() {
    let model = ScriptedModel::new().turn(wait()).turn(text("nobody answers"));
    let anna = Agent::builder("anna", model.clone()).build().unwrap();
    let above = ScriptedModel::new().turn(spawn("anna")).turn(text("done"));
    let begun = Instant::now();
    lead(&above, team_of(&[&anna])).run("go").await.unwrap();
    assert!(told_text(&model, 1).contains("No active participant"));
    assert!(begun.elapsed() < Duration::from_secs(1));
}

#[tokio::test]
async fn max_turns_bounds_a_member_and_the_lead_learns_of_it() {
    let count = std::sync::Arc::default();
    let model = ScriptedModel::from_fn(|_, _| call("echo", json!({"text": "x"})));
    let anna =
        Agent::builder("anna", model.clone()).tool(crate::support::echo(&count)).build().unwrap();
    let above = ScriptedModel::new()
        .turn(call("spawn_teammate", json!({"name": "anna", "task": "x", "max_turns": 2})))
        .turn(wait())
        .turn(text("done"));
    lead(&above, team_of(&[&anna])).run("go").await.unwrap();
    assert_eq!(model.requests().len(), 3);
    assert!(told_text(&above, 2).contains("stopped at its limit of 2 turns"));
}

#[tokio::test]
async fn the_use_of_members_counts_for_the_lead_and_its_limits() {
    let (anna, _) = member("anna", "x");
    let used = text("a page").usage(provost_core::Usage::new(7, 3));
    let anna = anna.with_model(ScriptedModel::new().turn(used));
    let above = ScriptedModel::new().turn(spawn("anna")).turn(text("done"));
    let result = lead(&above, team_of(&[&anna])).run("go").await.unwrap();
    assert_eq!(result.usage.input, 7);
    assert!(result.agents.iter().any(|used| used.agent == "lead/anna" && used.usage.output == 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_many_threads_nothing_is_lost() {
    const MEMBERS: usize = 24;
    let chatty = ScriptedModel::from_fn(|request, _| match request.messages.len() {
        1 => calls((0..3).map(|_| ("send_message", json!({"to": LEAD, "content": "hello"})))),
        _ => text("bye"),
    });
    let chatty = Agent::builder("chatty", chatty).build().unwrap();
    let above = ScriptedModel::from_fn(|request, _| match request.messages.len() {
        1 => calls((0..MEMBERS).map(|number| {
            let name = format!("m{number}");
            ("spawn_teammate", json!({"name": name, "task": "x", "template": "chatty"}))
        })),
        _ if request.last_tool_result().unwrap().to_text().contains("No active participant") => {
            text("done")
        }
        _ => wait(),
    });
    let lead = Agent::builder("lead", above)
        .limits(Limits::default().turns(500))
        .team(team_of(&[&chatty]).max_size(0))
        .build()
        .unwrap();
    let result = lead.run("go").await.unwrap();
    let heard: String = result.tool_results.iter().map(|result| result.to_text()).collect();
    assert_eq!(heard.matches("\"hello\"").count(), 3 * MEMBERS);
    assert_eq!(heard.matches("[completed] bye").count(), MEMBERS);
}
