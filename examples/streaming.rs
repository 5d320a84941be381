//! Streaming: the events of a run, and a handle that steers the run while it is active.

use futures::StreamExt;
use provost::testing::{ScriptedModel, call, text};
use provost::{Agent, EventKind, tool};
use serde_json::json;

/// Counts the words of a text.
#[tool]
async fn count_words(
    /// The text
    text: String,
) -> usize {
    text.split_whitespace().count()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedModel::new()
        .turn(
            call("count_words", json!({ "text": "one two three" }))
                .reasoning("I should count them."),
        )
        .turn(text("").deltas(["There ", "are ", "three, ", "as you asked."]));
    let agent = Agent::builder("counter", model).tool(count_words).build()?;

    let mut run = agent.run("How many words are in: one two three").stream();
    let handle = run.handle();
    while let Some(event) = run.next().await {
        match event.kind {
            EventKind::ReasoningDelta { text } => println!("(thinks: {text})"),
            EventKind::ToolCallReady { call } => {
                println!("-> {} {}", call.name, call.arguments);
                // Sent while the tool runs. The model receives it before its next response.
                handle.steer("Answer in words, not in digits.")?;
            }
            EventKind::ToolFinished { result, .. } => println!("<- {}", result.to_text()),
            EventKind::UserMessage { message } => println!("user: {}", message.text()),
            EventKind::TextDelta { text } => print!("{text}"),
            EventKind::Finished { summary } => {
                println!(
                    "\n{} turns, {} tool calls, {:?}",
                    summary.turns, summary.tool_calls, summary.stop
                );
            }
            _ => {}
        }
    }
    Ok(())
}
