//! One agent asks another: once waiting for the answer, once in the background.

use futures::StreamExt;
use provost::testing::{ScriptedModel, call, text};
use provost::{Agent, EventKind, Subagent};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let researcher_model = ScriptedModel::new()
        .turn(text("Oslo has 717,000 people."))
        .turn(text("It rains in Bergen."));
    let researcher = Agent::builder("researcher", researcher_model)
        .instructions("You find one fact and answer in one sentence.")
        .build()?;

    let lead_model = ScriptedModel::new()
        .turn(call("researcher", json!({"task": "How many people live in Oslo?"})))
        .turn(call("researcher", json!({"task": "How is Bergen?", "background": true})))
        .turn(call("get_task_result", json!({"task_id": "task-1", "wait": true})))
        .turn(text("Oslo is large and Bergen is wet."));
    let lead = Agent::builder("lead", lead_model)
        .subagent(&researcher, Subagent::new("Finds one fact"))
        .build()?;

    // What the researcher does is in the lead's own stream, one level down.
    let mut run = lead.run("Tell me about Norway.").stream();
    while let Some(event) = run.next().await {
        let indent = "  ".repeat(event.depth() as usize);
        match &event.innermost().kind {
            EventKind::TextDelta { text } => println!("{indent}{} says: {text}", event.agent),
            EventKind::ToolStarted { name, .. } => println!("{indent}{} calls {name}", event.agent),
            EventKind::Finished { summary } if event.depth() == 0 => {
                for used in &summary.agents {
                    println!("{} made {} model calls", used.agent, used.turns);
                }
            }
            _ => {}
        }
    }
    Ok(())
}
