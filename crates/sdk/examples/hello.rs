//! An agent with a tool, streaming, in twenty lines. Runs without a key: the model is scripted.
//! With a key, use `provost::OpenAi::from_env("gpt-5-mini")?` in its place.
use futures::StreamExt;
use provost::testing::{ScriptedModel, call, text};
use provost::{Agent, EventKind, tool};

/// Current weather for a city.
#[tool]
async fn weather(
    /** City name */
    city: String,
) -> String {
    format!("18 °C and sunny in {city}")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedModel::new()
        .turn(call("weather", serde_json::json!({ "city": "Oslo" })))
        .turn(text("").deltas(["It is 18 °C ", "and sunny ", "in Oslo.\n"]));
    let agent = Agent::builder("hello", model).tool(weather).build()?;
    let mut events = agent.run("How is the weather in Oslo?").stream();
    while let Some(event) = events.next().await {
        if let EventKind::TextDelta { text } = event.kind {
            print!("{text}");
        }
    }
    Ok(())
}
