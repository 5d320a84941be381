//! Typed output: the response must have a Rust type. A response that does not match goes back to the model.

use provost::testing::ScriptedModel;
use provost::{Agent, EventKind, RunOutcome};

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
    // The first response lacks the risk, the second has a long summary, and the third is valid.
    let model = ScriptedModel::new()
        .text(r#"{"summary": "fine"}"#)
        .text(r#"{"summary": "fine, as far as the available documents show at this time", "risk": "low"}"#)
        .text("```json\n{\"summary\": \"fine\", \"risk\": \"low\"}\n```");
    let agent = Agent::builder("analyst", model)
        .instructions("You review {{ customer }}.")
        .state("customer", "ACME")
        .checked_output(|report: &Report| match report.summary.len() {
            0..=40 => Ok(()),
            length => Err(format!("the summary has {length} characters, shorten it to 40")),
        })
        .build()?;

    let mut run = agent.run("Review the customer").stream();
    while let Some(event) = futures::StreamExt::next(&mut run).await {
        if let EventKind::OutputRejected { reason, retries_left } = event.kind {
            println!("rejected ({retries_left} retries left): {reason}");
        }
    }
    if let RunOutcome::Completed(result) = run.outcome().await? {
        println!("{:?} after {} turns", result.output, result.turns);
        assert_eq!(result.output.risk, Risk::Low);
    }
    Ok(())
}
