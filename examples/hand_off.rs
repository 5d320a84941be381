//! A front-desk agent hands the conversation off to a specialist, which later hands it back.

use futures::StreamExt;
use provost::agent::{Handoff, HistoryPolicy};
use provost::testing::{ScriptedModel, call};
use provost::{Agent, EventKind};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let front_model = ScriptedModel::new()
        .tool_call("transfer_to_billing", json!({"reason": "a question about money"}))
        .text("Is there anything else?");
    let billing_model = ScriptedModel::new()
        .turn(call("transfer_to_front", json!({"reason": "done here"})).text("You owe nothing."));
    let front = Agent::builder("front", front_model)
        .instructions("You welcome customers.")
        .max_handoffs(4)
        // Both agents refer to each other: the front desk owns the specialist.
        .build_cyclic(|front, builder| {
            let billing = Agent::builder("billing", billing_model)
                .instructions("You know every bill.")
                .handoff(Handoff::to(front, "Everything else"))
                .build()?;
            let questions = Handoff::to(&billing, "Money questions");
            Ok(builder.handoff(questions.history(HistoryPolicy::LastN(8))))
        })?;

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
