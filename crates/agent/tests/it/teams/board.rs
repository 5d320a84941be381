//! The board that a team shares, through its tools.

use provost_agent::team::LEAD;
use provost_agent::{Agent, Team};
use provost_model::{ScriptedModel, ScriptedTurn, call, text};
use serde_json::{Value, json};

use super::{lead, refused, spawn, team_of, told, told_json, told_text, wait};

fn create(title: &str) -> ScriptedTurn {
    call("create_board_task", json!({"title": title}))
}

fn on(tool: &str, id: &str) -> ScriptedTurn {
    call(format!("{tool}_board_task"), json!({"task_id": id}))
}

fn complete(id: &str, result: &str) -> ScriptedTurn {
    call("complete_board_task", json!({"task_id": id, "result": result}))
}

fn list() -> ScriptedTurn {
    call("list_board_tasks", json!({}))
}

#[tokio::test]
async fn s182_board_calls_that_make_no_sense_are_refused() {
    let bad = |tool: &str, arguments: &str| text("").raw_call("", tool, arguments);
    let above = ScriptedModel::new()
        .turn(bad("create_board_task", "{oops"))
        .turn(create(" "))
        .turn(on("claim", ""))
        .turn(on("claim", "board-9"))
        .turn(complete("", "x"))
        .turn(complete("board-9", "x"))
        .turn(on("unclaim", "board-9"))
        .turn(text("done"));
    let result = lead(&above, Team::new("crew")).run("go").await.unwrap();
    assert!(told(&above, 1).is_error);
    refused(&above, 2, "`title` is empty");
    refused(&above, 3, "`task_id` is empty");
    refused(&above, 4, "the board has no task `board-9`; known tasks: none");
    refused(&above, 5, "`task_id` is empty");
    refused(&above, 6, "the board has no task `board-9`");
    refused(&above, 7, "the board has no task `board-9`");
    assert_eq!(result.output, "done");
}

#[tokio::test]
async fn s183_a_claimed_task_cannot_be_claimed() {
    let above = ScriptedModel::new()
        .turn(create("paint"))
        .turn(on("claim", "board-1"))
        .turn(on("claim", "board-1"))
        .turn(text("done"));
    lead(&above, Team::new("crew")).run("go").await.unwrap();
    assert_eq!(told_text(&above, 2), "board-1 is yours: paint");
    refused(&above, 3, "claimed by `__lead__`");
}

#[tokio::test(start_paused = true)]
async fn s184_somebody_elses_task_cannot_be_completed() {
    let model = ScriptedModel::new()
        .turn(complete("board-1", "mine"))
        .turn(on("unclaim", "board-1"))
        .turn(text("I may not"));
    let anna = Agent::builder("anna", model.clone()).build().unwrap();
    let above = ScriptedModel::new()
        .turn(create("paint"))
        .turn(on("claim", "board-1"))
        .turn(spawn("anna"))
        .turn(wait())
        .turn(text("done"));
    lead(&above, team_of(&[&anna])).run("go").await.unwrap();
    refused(&model, 1, "only `__lead__` can do that");
    refused(&model, 2, "only `__lead__` can do that");
}

#[tokio::test]
async fn s185_an_empty_board_and_an_empty_inbox_are_no_errors() {
    let above =
        ScriptedModel::new().turn(list()).turn(call("read_messages", json!({}))).turn(text("done"));
    lead(&above, Team::new("crew")).run("go").await.unwrap();
    assert_eq!(told_text(&above, 1), "The board is empty.");
    assert_eq!(told_text(&above, 2), "There are no messages.");
}

#[tokio::test]
async fn s186_the_lead_creates_claims_and_completes_and_a_member_sees_it() {
    let model = ScriptedModel::new().turn(list()).turn(text("I see"));
    let anna = Agent::builder("anna", model.clone()).build().unwrap();
    let above = ScriptedModel::new()
        .turn(create("paint"))
        .turn(on("claim", "board-1"))
        .turn(complete("board-1", "blue"))
        .turn(spawn("anna"))
        .turn(text("done"));
    lead(&above, team_of(&[&anna])).run("go").await.unwrap();
    let created = told_json(&above, 1);
    assert_eq!(created["id"], "board-1");
    assert_eq!(created["status"], "open");
    assert_eq!(created["created_by"], LEAD);
    assert_eq!(told_text(&above, 3), "board-1 is completed.");
    let seen: Value = told_json(&model, 1);
    assert_eq!(seen[0]["status"], "completed");
    assert_eq!((&seen[0]["result"], &seen[0]["assignee"]), (&json!("blue"), &json!(LEAD)));
}

#[tokio::test]
async fn a_task_waits_for_those_it_depends_on() {
    let above = ScriptedModel::new()
        .turn(create("draw"))
        .turn(call("create_board_task", json!({"title": "paint", "depends_on": ["board-1"]})))
        .turn(call("create_board_task", json!({"title": "frame", "depends_on": ["board-7"]})))
        .turn(on("claim", "board-2"))
        .turn(on("claim", "board-1"))
        .turn(complete("board-1", "drawn"))
        .turn(complete("board-1", "drawn"))
        .turn(on("claim", "board-2"))
        .turn(on("unclaim", "board-2"))
        .turn(text("done"));
    lead(&above, Team::new("crew")).run("go").await.unwrap();
    refused(&above, 3, "the board has no task `board-7`");
    refused(&above, 4, "depends on board-1");
    assert_eq!(told_text(&above, 6), "board-1 is completed.");
    refused(&above, 7, "`board-1` is already completed");
    assert_eq!(told_text(&above, 8), "board-2 is yours: paint");
    assert_eq!(told_text(&above, 9), "board-2 is open again.");
}

#[tokio::test(start_paused = true)]
async fn what_a_member_had_claimed_is_open_again_when_it_ends() {
    let model = ScriptedModel::new().turn(on("claim", "board-1")).turn(text("I give up"));
    let anna = Agent::builder("anna", model.clone()).build().unwrap();
    let above = ScriptedModel::new()
        .turn(create("paint"))
        .turn(spawn("anna"))
        .turn(wait())
        .turn(list())
        .turn(text("done"));
    lead(&above, team_of(&[&anna])).run("go").await.unwrap();
    assert_eq!(told_text(&model, 1), "board-1 is yours: paint");
    assert_eq!(told_json(&above, 4)[0]["status"], "open");
}
