//! Streaming: every event of a run, and a handle that steers it while it lives.

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
                .reasoning("I had better count."),
        )
        .turn(text("").deltas(["There ", "are ", "three, ", "as you wished."]));
    let agent = Agent::builder("counter", model).tool(count_words).build()?;

    let mut run = agent.run("How many words are in: one two three").stream();
    let handle = run.handle();
    while let Some(event) = run.next().await {
        match event.kind {
            EventKind::ReasoningDelta { text } => println!("(thinks: {text})"),
            EventKind::ToolCallReady { call } => {
                println!("-> {} {}", call.name, call.arguments);
                // Said while the tool runs; the model sees it before its next answer.
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
