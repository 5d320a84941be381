//! A streaming agent with a tool. For a real model, use `provost::providers::OpenAi::from_env("gpt-5-mini")?`.
use futures::TryStreamExt;
use provost::testing::ScriptedModel;
use provost::{Agent, tool};

/// Current weather for a city.
#[tool]
async fn weather(city: String) -> String {
    format!("18 °C and sunny in {city}")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let city = serde_json::json!({ "city": "Oslo" });
    let model = ScriptedModel::new().tool_call("weather", city).text("It is sunny, 18 °C.\n");
    let agent = Agent::builder("hello", model).tool(weather).build()?;
    let answer = agent.run("How is the weather in Oslo?").stream().text();
    answer.try_for_each(|piece| async move { Ok(print!("{piece}")) }).await?;
    Ok(())
}
