//! An agent calls another agent as a tool: once it waits for the result, once the subagent runs in the background.

use futures::StreamExt;
use provost::agent::Subagent;
use provost::testing::ScriptedModel;
use provost::{Agent, EventKind};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let researcher_model =
        ScriptedModel::new().text("Oslo has 717,000 people.").text("It rains in Bergen.");
    let researcher = Agent::builder("researcher", researcher_model)
        .instructions("You find one fact and answer in one sentence.")
        .build()?;

    let lead_model = ScriptedModel::new()
        .tool_call("researcher", json!({"task": "How many people live in Oslo?"}))
        .tool_call("researcher", json!({"task": "How is Bergen?", "background": true}))
        .tool_call("get_task_result", json!({"task_id": "task-1", "wait": true}))
        .text("Oslo is large and Bergen is wet.");
    let lead = Agent::builder("lead", lead_model)
        .subagent(Subagent::new(&researcher, "Finds one fact"))
        .build()?;

    // The stream of the lead also contains the events of the researcher, with a depth of 1.
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
