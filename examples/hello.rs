//! A streaming agent with a tool. For a real model, put `provost::OpenAi::from_env("gpt-5-mini")?` in the script's place.
use futures::TryStreamExt;
use provost::testing::{ScriptedModel, call, text};
use provost::{Agent, tool};

/// Current weather for a city.
#[tool]
async fn weather(city: String) -> String {
    format!("18 °C and sunny in {city}")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let script = call("weather", serde_json::json!({ "city": "Oslo" }));
    let model = ScriptedModel::new().turn(script).turn(text("It is sunny, 18 °C.\n"));
    let agent = Agent::builder("hello", model).tool(weather).build()?;
    let answer = agent.run("How is the weather in Oslo?").stream().text();
    answer.try_for_each(|piece| async move { Ok(print!("{piece}")) }).await?;
    Ok(())
}
