//! The same work with Provost.

use futures::StreamExt;
use provost_agent::Agent;
use provost_core::EventKind;
use provost_provider::openai_compatible;
use provost_tool::{FnTool, ToolError, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::Result;

/// What both sides tell the model.
pub(crate) const INSTRUCTIONS: &str =
    "You add numbers with the tool `add`, one pair at a time, and then say the sum.";
/// What both sides ask.
pub(crate) const PROMPT: &str = "Add all the numbers from my list, please.";

/// The arguments of the tool.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Add {
    a: i64,
    b: i64,
}

/// The tool both sides run.
pub(crate) async fn add(arguments: Add) -> i64 {
    arguments.a + arguments.b
}

/// The tool as Provost knows it.
pub(crate) fn add_tool() -> Result<FnTool> {
    let tool = tool_fn("add", "Adds two numbers", |_cx, arguments: Add| async move {
        Ok::<_, ToolError>(add(arguments).await)
    })?;
    Ok(tool)
}

/// An agent on the fake provider.
pub(crate) fn agent(base_url: &str, model: &str) -> Result<Agent> {
    let model = openai_compatible("fake", base_url, model).api_key("key".to_owned()).build()?;
    let agent =
        Agent::builder("adder", model).instructions(INSTRUCTIONS).tool(add_tool()?).build()?;
    Ok(agent)
}

/// Answers a prompt for somebody who wants only the answer. Gives the tokens used.
pub(crate) async fn answer(agent: &Agent, prompt: &str) -> Result<u64> {
    Ok(agent.run(prompt).await?.usage.total())
}

/// Answers a prompt for somebody who watches; `seen` gets each piece of text as it comes. Gives the tokens used.
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
