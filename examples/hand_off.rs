//! A front-desk agent hands the conversation off to a specialist, which later hands it back.

use futures::StreamExt;
use provost::agent::{DeferredAgent, Handoff, HistoryPolicy};
use provost::testing::{ScriptedModel, call};
use provost::{Agent, EventKind};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Both agents refer to each other, so one reference is created before its agent.
    let billing_ref = DeferredAgent::new("billing");
    let front_model = ScriptedModel::new()
        .tool_call("transfer_to_billing", json!({"reason": "a question about money"}))
        .text("Is there anything else?");
    let front = Agent::builder("front", front_model)
        .instructions("You welcome customers.")
        .handoff(Handoff::to(&billing_ref, "Money questions").history(HistoryPolicy::LastN(8)))
        .max_handoffs(4)
        .build()?;
    let billing_model = ScriptedModel::new()
        .turn(call("transfer_to_front", json!({"reason": "done here"})).text("You owe nothing."));
    let billing = Agent::builder("billing", billing_model)
        .instructions("You know every bill.")
        .handoff(Handoff::to(&front, "Everything else"))
        .build()?;
    billing_ref.set(&billing)?;

    let mut run = front.run("What do I owe?").stream();
    while let Some(event) = run.next().await {
        match &event.kind {
            EventKind::HandedOff(handoff) => println!(
                "-- {} hands off to {}: {}",
                handoff.from,
                handoff.to,
                handoff.reason.as_deref().unwrap_or("no reason given")
            ),
            EventKind::TextDelta { text } => println!("{}: {text}", event.agent),
            EventKind::Finished { summary } => println!("final response by {}", summary.agent),
            _ => {}
        }
    }
    Ok(())
}
