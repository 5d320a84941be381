//! Making, listing and stopping members.

use provost_agent::Team;
use provost_model::{ScriptedModel, call, text};
use serde_json::json;

use super::{busy, lead, member, refused, spawn, team_of, told_json, told_text, wait};
use crate::support::events;

#[tokio::test]
async fn s170_a_member_made_after_a_template_works_and_the_lead_answers() {
    let (writer, below) = member("writer", "a page");
    let above = ScriptedModel::new()
        .turn(spawn("writer"))
        .turn(wait())
        .turn(call("read_messages", json!({})))
        .turn(text("it is written"));
    let result = lead(&above, team_of(&[&writer])).run("go").await.unwrap();
    assert_eq!(result.output, "it is written");
    let spawned = told_json(&above, 1);
    assert_eq!(spawned, json!({"member_id": "teammate-1", "name": "writer", "status": "active"}));
    assert_eq!(below.request(0).messages[0].text(), "the task of writer");
    assert!(told_text(&above, 2).contains("a page"));
    assert_eq!(told_text(&above, 3), "There are no messages.");
}

#[tokio::test]
async fn a_template_can_be_used_under_another_name_more_than_once() {
    let model = ScriptedModel::from_fn(|request, _| text(request.messages[0].text()));
    let writer = provost_agent::Agent::builder("writer", model.clone()).build().unwrap();
    let one =
        |name: &str| ("spawn_teammate", json!({"name": name, "task": name, "template": "writer"}));
    let above = ScriptedModel::new()
        .turn(provost_model::calls([one("anna"), one("bert")]))
        .turn(text("done"));
    let events = events(lead(&above, team_of(&[&writer])).run("go").stream()).await;
    let mut ends = super::ends(&events);
    ends.sort();
    assert_eq!(
        ends,
        [("anna".into(), "complete", "anna".into()), ("bert".into(), "complete", "bert".into())]
    );
    assert!(events.iter().any(|event| &*event.agent == "lead/anna"));
}

#[tokio::test]
async fn s171_without_a_template_a_member_is_a_new_agent_on_the_leads_model() {
    let shared = ScriptedModel::from_fn(|request, _| match request.system.as_deref() {
        Some("You rhyme.") => text("moon, June"),
        Some("You lead.") if request.messages.len() == 1 => call(
            "spawn_teammate",
            json!({"name": "poet", "task": "rhyme", "system_prompt": "You rhyme."}),
        ),
        Some("You lead.") if request.messages.len() == 3 => wait(),
        _ => text("done"),
    });
    let lead = provost_agent::Agent::builder("lead", shared.clone())
        .instructions("You lead.")
        .team(Team::new("crew"))
        .build()
        .unwrap();
    lead.run("go").await.unwrap();
    let requests = shared.requests();
    let poet = |request: &&provost_model::ChatRequest| {
        request.system.as_deref() == Some("You rhyme.") && request.messages[0].text() == "rhyme"
    };
    assert_eq!(requests.iter().filter(poet).count(), 1);
    let last = requests.last().unwrap().last_tool_result().unwrap().to_text();
    assert!(last.contains("moon, June"), "{last}");
}

#[tokio::test]
async fn without_a_prompt_a_member_is_told_who_it_is() {
    let shared = ScriptedModel::from_fn(|request, _| {
        let lead = request.tools.iter().any(|tool| tool.name == "spawn_teammate");
        match (lead, request.messages.len()) {
            (true, 1) => spawn("helper"),
            _ => text("done"),
        }
    });
    let lead =
        provost_agent::Agent::builder("lead", shared.clone()).team(Team::new("crew")).build();
    lead.unwrap().run("go").await.unwrap();
    let prompts: Vec<String> =
        shared.requests().iter().filter_map(|r| r.system.as_deref().map(str::to_owned)).collect();
    let prompt = prompts.iter().find(|prompt| prompt.contains("`helper`")).unwrap();
    assert!(prompt.contains("`crew`") && prompt.contains("__lead__"), "{prompt}");
}

#[tokio::test(start_paused = true)]
async fn s173_members_are_listed_after_a_spawn() {
    let above = ScriptedModel::new()
        .turn(spawn("writer"))
        .turn(call("list_teammates", json!({})))
        .turn(text("done"));
    lead(&above, team_of(&[&busy("writer")])).run("go").await.unwrap();
    assert_eq!(
        told_json(&above, 2),
        json!([{"name": "writer", "status": "active", "task": "the task of writer"}])
    );
}

#[tokio::test(start_paused = true)]
async fn s175_a_member_can_be_stopped() {
    let above = ScriptedModel::new()
        .turn(spawn("writer"))
        .turn(call("stop_teammate", json!({"name": "writer"})))
        .turn(call("list_teammates", json!({})))
        .turn(call("stop_teammate", json!({"name": "writer"})))
        .turn(text("done"));
    let events = events(lead(&above, team_of(&[&busy("writer")])).run("go").stream()).await;
    assert_eq!(told_text(&above, 2), "writer was stopped.");
    assert_eq!(told_json(&above, 3)[0]["status"], "stopped");
    assert_eq!(told_text(&above, 4), "writer had already ended.");
    assert_eq!(super::ends(&events), [("writer".into(), "stopped", String::new())]);
}

#[tokio::test(start_paused = true)]
async fn s177_beyond_its_size_a_team_takes_nobody() {
    let above = ScriptedModel::new().turn(spawn("anna")).turn(spawn("bert")).turn(text("alone"));
    let team = team_of(&[&busy("anna"), &busy("bert")]).max_size(1);
    let result = lead(&above, team).run("go").await.unwrap();
    refused(&above, 2, "1 active members");
    assert_eq!(result.output, "alone");
}

#[tokio::test(start_paused = true)]
async fn s178_two_active_members_cannot_share_a_name() {
    let above = ScriptedModel::new().turn(spawn("anna")).turn(spawn("anna")).turn(text("one"));
    let result = lead(&above, team_of(&[&busy("anna")])).run("go").await.unwrap();
    refused(&above, 2, "`anna` is already active");
    assert_eq!(result.output, "one");
}

#[tokio::test]
async fn a_name_is_free_again_once_its_member_is_over() {
    let model = ScriptedModel::new().turn(text("first")).turn(text("second"));
    let anna = provost_agent::Agent::builder("anna", model).build().unwrap();
    let above = ScriptedModel::new()
        .turn(spawn("anna"))
        .turn(wait())
        .turn(spawn("anna"))
        .turn(wait())
        .turn(text("done"));
    lead(&above, team_of(&[&anna])).run("go").await.unwrap();
    assert_eq!(told_json(&above, 3)["member_id"], "teammate-2");
    assert!(told_text(&above, 4).contains("second"));
}

#[tokio::test]
async fn a_template_that_is_not_there_is_refused_with_those_that_are() {
    let (writer, _) = member("writer", "a page");
    let ask = |more: serde_json::Value| {
        let mut ask = json!({"name": "x", "task": "y"});
        ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call("spawn_teammate", ask)
    };
    let above = ScriptedModel::new()
        .turn(ask(json!({"template": "poet"})))
        .turn(ask(json!({"template": "writer", "system_prompt": "Write."})))
        .turn(text("done"));
    lead(&above, team_of(&[&writer])).run("go").await.unwrap();
    refused(&above, 1, "known templates: writer");
    refused(&above, 2, "omit `system_prompt`");
}

#[tokio::test]
async fn s241_a_member_is_offered_no_way_to_make_or_stop_members() {
    let (writer, below) = member("writer", "a page");
    let above = ScriptedModel::new().turn(spawn("writer")).turn(text("done"));
    lead(&above, team_of(&[&writer])).run("go").await.unwrap();
    let names: Vec<String> = below.request(0).tools.iter().map(|tool| tool.name.clone()).collect();
    assert!(!names.iter().any(|name| name == "spawn_teammate" || name == "stop_teammate"));
    assert!(names.iter().any(|name| name == "send_message"), "{names:?}");
    assert!(names.iter().any(|name| name == "claim_board_task"), "{names:?}");
    let of_lead = above.request(0).tools.len();
    assert_eq!(of_lead, names.len() + 2);
}

#[test]
fn what_cannot_be_a_team_is_refused_when_the_agent_is_built() {
    let (writer, _) = member("writer", "a page");
    let twice = team_of(&[&writer, &writer]);
    let model = ScriptedModel::new();
    let build = |team| {
        let built = provost_agent::Agent::builder("lead", model.clone()).team(team).build();
        built.unwrap_err().to_string()
    };
    assert!(build(twice).contains("two templates named `writer`"));
    let leads = lead(&model, Team::new("inner"));
    assert!(build(team_of(&[&leads])).contains("leads a team"));
}
