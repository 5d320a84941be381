//! An agent runs another agent on several tasks in parallel. One task fails, the others succeed.

use provost::Agent;
use provost::agent::FanOut;
use provost::model::ModelErrorClass;
use provost::testing::{ScriptedModel, fail, text};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let reviewer_model = ScriptedModel::from_fn(|request, _| {
        let task = request.messages.last().map(|last| last.text()).unwrap_or_default();
        if task.contains("main.rs") {
            fail(ModelErrorClass::InvalidRequest, "this file is too long")
        } else {
            text(format!("{task}: looks good"))
        }
    });
    let reviewer = Agent::builder("reviewer", reviewer_model).build()?;

    let files = ["lib.rs", "main.rs", "tests.rs"];
    let lead_model = ScriptedModel::new()
        .tool_call("review_each", json!({ "tasks": files }))
        .text("Two files are fine, one could not be read.");
    let lead = Agent::builder("lead", lead_model)
        .fan_out(
            FanOut::new(&reviewer, "review_each", "Reviews files").concurrency(2).max_items(20),
        )
        .build()?;

    let result = lead.run("Review everything.").await?;
    let report: Value = serde_json::from_str(&result.tool_results[0].to_text())?;
    for task in report["results"].as_array().into_iter().flatten() {
        let text = task["result"].as_str().or(task["error"].as_str()).unwrap_or_default();
        println!("{:<10} {text}", task["status"].as_str().unwrap_or_default());
    }
    println!("{}", result.output);
    assert_eq!(report["completed"], 2);
    Ok(())
}
