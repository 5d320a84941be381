//! Typed answers: the model is held to a type, and what does not fit goes back to it.

use provost::testing::{ScriptedModel, text};
use provost::{Agent, EventKind};

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Report {
    /// At most 40 characters
    summary: String,
    risk: Risk,
}

#[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Risk {
    Low,
    High,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The first answer has no risk, the second is too long, the third is right.
    let model = ScriptedModel::new()
        .turn(text(r#"{"summary": "fine"}"#))
        .turn(text(r#"{"summary": "fine, as far as anybody can tell at this point in time", "risk": "low"}"#))
        .turn(text("```json\n{\"summary\": \"fine\", \"risk\": \"low\"}\n```"));
    let agent = Agent::builder("analyst", model)
        .instructions("You review {{ customer }}.")
        .state("customer", "ACME")
        .output::<Report>()
        .output_check(|report| match report.summary.len() {
            0..=40 => Ok(()),
            length => Err(format!("the summary has {length} characters, shorten it to 40")),
        })
        .build()?;

    let mut run = agent.run("Review the customer").stream();
    while let Some(event) = futures::StreamExt::next(&mut run).await {
        if let EventKind::OutputRejected { reason, retries_left } = event.kind {
            println!("sent back ({retries_left} more): {reason}");
        }
    }
    if let provost::RunOutcome::Completed(result) = run.outcome().await? {
        println!("{:?} after {} turns", result.output, result.turns);
        assert_eq!(result.output.risk, Risk::Low);
    }
    Ok(())
}
