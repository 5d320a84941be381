//! A team: a lead starts two teammates, which work in parallel, share a task board and send messages.

use futures::StreamExt;
use provost::agent::Team;
use provost::testing::{ScriptedModel, call, calls, text};
use provost::{Agent, EventKind};
use serde_json::json;

/// Builds an agent that claims a board task, completes it and notifies another member.
fn worker(name: &str, task: &str, to: &str) -> Result<Agent, provost::BuildError> {
    let model = ScriptedModel::new()
        .tool_call("claim_board_task", json!({ "task_id": task }))
        .tool_calls([
            ("complete_board_task", json!({ "task_id": task, "result": format!("{name} did it") })),
            ("send_message", json!({ "to": to, "content": format!("{task} is done") })),
        ])
        .text(format!("{task} is finished."));
    Agent::builder(name, model).instructions("You do one part of the work.").build()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let painter = worker("painter", "board-1", "__lead__")?;
    let framer = worker("framer", "board-2", "*")?;
    let spawn = |name: &str| ("spawn_teammate", json!({ "name": name, "task": "Do your part." }));
    // This scripted lead waits for messages until no active member is left.
    let lead_model = ScriptedModel::from_fn(move |request, turn| match turn {
        0 => calls([
            ("create_board_task", json!({ "title": "paint the picture" })),
            ("create_board_task", json!({ "title": "build the frame" })),
        ]),
        1 => calls([spawn("painter"), spawn("framer")]),
        _ => match request.last_tool_result().map(|result| result.to_text()) {
            Some(result) if result.starts_with("There are no messages") => {
                call("list_board_tasks", json!({}))
            }
            Some(result) if result.contains("\"assignee\"") => text("The picture hangs."),
            _ => call("wait_for_messages", json!({ "timeout": 10 })),
        },
    });
    let team = Team::new("studio")
        .template(&painter, "Paints")
        .template(&framer, "Builds frames")
        .max_size(2)
        .coordinator_only();
    let lead = Agent::builder("lead", lead_model).team(team).build()?;

    let mut run = lead.run("We need a picture on the wall.").stream();
    let mut done = 0;
    while let Some(event) = run.next().await {
        match &event.innermost().kind {
            EventKind::TeammateSpawned(member) => println!("{} joins", member.member),
            EventKind::TeamMessage(message) => {
                println!("{} to {}: {}", message.from, message.to, message.content);
            }
            EventKind::TeammateComplete(member) => {
                done += 1;
                println!("{} finished: {}", member.member, member.result.as_deref().unwrap_or(""));
            }
            EventKind::Finished { summary } if event.depth() == 0 => println!("{}", summary.text),
            _ => {}
        }
    }
    assert_eq!(done, 2);
    Ok(())
}
