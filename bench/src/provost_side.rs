//! The measured work, done with Provost.

use futures::StreamExt;
use provost_agent::Agent;
use provost_core::EventKind;
use provost_provider::openai_compatible;
use provost_tool::{FnTool, ToolError, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::Result;

/// Instructions of both sides.
pub(crate) const INSTRUCTIONS: &str =
    "You add numbers with the tool `add`, one pair at a time, and then say the sum.";
/// Prompt of both sides.
pub(crate) const PROMPT: &str = "Add all the numbers from my list, please.";

/// Arguments of the tool.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Add {
    a: i64,
    b: i64,
}

/// The tool of both sides.
pub(crate) async fn add(arguments: Add) -> i64 {
    arguments.a + arguments.b
}

/// Returns the tool for Provost.
pub(crate) fn add_tool() -> Result<FnTool> {
    let tool = tool_fn("add", "Adds two numbers", |_cx, arguments: Add| async move {
        Ok::<_, ToolError>(add(arguments).await)
    })?;
    Ok(tool)
}

/// Creates an agent on the fake provider.
pub(crate) fn agent(base_url: &str, model: &str) -> Result<Agent> {
    let model = openai_compatible("fake", base_url, model).api_key("key".to_owned()).build()?;
    let agent =
        Agent::builder("adder", model).instructions(INSTRUCTIONS).tool(add_tool()?).build()?;
    Ok(agent)
}

/// Runs a prompt without watching its events. Returns the used tokens.
pub(crate) async fn answer(agent: &Agent, prompt: &str) -> Result<u64> {
    Ok(agent.run(prompt).await?.usage.total())
}

/// Runs a prompt and watches its events. `seen` gets each text delta. Returns the used tokens.
pub(crate) async fn run(agent: &Agent, prompt: &str, mut seen: impl FnMut(&str)) -> Result<u64> {
    let mut run = agent.run(prompt).stream();
    while let Some(event) = run.next().await {
        match event.kind {
            EventKind::TextDelta { text } => seen(&text),
            EventKind::Finished { summary } => return Ok(summary.usage.total()),
            EventKind::Failed { error } => return Err(format!("{error:?}").into()),
            _ => {}
        }
    }
    Err("the run ended without a word".into())
}
