//! One agent splits its work among many runs of another; one of them fails and the rest counts.

use provost::testing::{ScriptedModel, call, fail, text};
use provost::{Agent, FanOut, ModelErrorClass};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let reviewer_model = ScriptedModel::answering(|request, _| {
        let task = request.messages.last().map(|last| last.text()).unwrap_or_default();
        match task.contains("main.rs") {
            true => fail(ModelErrorClass::InvalidRequest, "this file is too long"),
            false => text(format!("{task}: looks good")),
        }
    });
    let reviewer = Agent::builder("reviewer", reviewer_model).build()?;

    let files = ["lib.rs", "main.rs", "tests.rs"];
    let lead_model = ScriptedModel::new()
        .turn(call("review_each", json!({ "tasks": files })))
        .turn(text("Two files are fine, one could not be read."));
    let lead = Agent::builder("lead", lead_model.clone())
        .fan_out(
            &reviewer,
            FanOut::new("review_each", "Reviews files").concurrency(2).max_items(20),
        )
        .build()?;

    let result = lead.run("Review everything.").await?;
    let told = lead_model.request(1).last_tool_result().map(|told| told.to_text());
    let told: Value = serde_json::from_str(&told.unwrap_or_default())?;
    for item in told["results"].as_array().into_iter().flatten() {
        let said = item["result"].as_str().or(item["error"].as_str()).unwrap_or("nothing");
        println!("{:<10} {}", item["status"].as_str().unwrap_or("?"), said);
    }
    println!("{}", result.output);
    assert_eq!(told["completed"], 2);
    Ok(())
}
