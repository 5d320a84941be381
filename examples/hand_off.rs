//! A front desk that gives the conversation to whoever knows more, and gets it back.

use futures::StreamExt;
use provost::testing::{ScriptedModel, call, text};
use provost::{Agent, DeferredAgent, EventKind, Handoff, HistoryPolicy};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The two name each other, so one of them gets its place before it is there.
    let billing_slot = DeferredAgent::new("billing");
    let front_model = ScriptedModel::new()
        .turn(call("transfer_to_billing", json!({"reason": "a question about money"})))
        .turn(text("Is there anything else?"));
    let front = Agent::builder("front", front_model)
        .instructions("You welcome people.")
        .handoff(&billing_slot, Handoff::new("Money questions").history(HistoryPolicy::LastN(8)))
        .max_handoffs(4)
        .build()?;
    let billing_model = ScriptedModel::new()
        .turn(call("transfer_to_front", json!({"reason": "done here"})).text("You owe nothing."));
    let billing = Agent::builder("billing", billing_model)
        .instructions("You know every bill.")
        .handoff(&front, Handoff::new("Everything else"))
        .build()?;
    billing_slot.set(&billing)?;

    let mut run = front.run("What do I owe?").stream();
    while let Some(event) = run.next().await {
        match &event.kind {
            EventKind::HandedOff(handoff) => println!(
                "-- {} gives it to {}: {}",
                handoff.from,
                handoff.to,
                handoff.reason.as_deref().unwrap_or("no reason")
            ),
            EventKind::TextDelta { text } => println!("{}: {text}", event.agent),
            EventKind::Finished { summary } => println!("the last word had {}", summary.agent),
            _ => {}
        }
    }
    Ok(())
}
