//! A front desk that gives the conversation to whoever knows more, and gets it back.

use futures::StreamExt;
use provost::testing::{ScriptedModel, call, text};
use provost::{Agent, AgentSlot, EventKind, HandOffTo, HistoryPolicy};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The two name each other, so one of them gets its place before it is there.
    let billing_slot = AgentSlot::new("billing");
    let front_model = ScriptedModel::new()
        .turn(call("transfer_to_billing", json!({"reason": "a question about money"})))
        .turn(text("Is there anything else?"));
    let front = Agent::builder("front", front_model)
        .instructions("You welcome people.")
        .hand_off(&billing_slot, HandOffTo::new("Money questions").history(HistoryPolicy::LastN(8)))
        .max_hand_offs(4)
        .build()?;
    let billing_model = ScriptedModel::new()
        .turn(call("transfer_to_front", json!({"reason": "done here"})).text("You owe nothing."));
    let billing = Agent::builder("billing", billing_model)
        .instructions("You know every bill.")
        .hand_off(&front, HandOffTo::new("Everything else"))
        .build()?;
    billing_slot.fill(&billing)?;

    let mut run = front.run("What do I owe?").stream();
    while let Some(event) = run.next().await {
        match &event.kind {
            EventKind::HandedOff(hand_off) => println!(
                "-- {} gives it to {}: {}",
                hand_off.from,
                hand_off.to,
                hand_off.reason.as_deref().unwrap_or("no reason")
            ),
            EventKind::TextDelta { text } => println!("{}: {text}", event.agent),
            EventKind::Finished { summary } => println!("the last word had {}", summary.agent),
            _ => {}
        }
    }
    Ok(())
}
