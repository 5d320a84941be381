//! Hooks: observe a run, change a message, deny a tool call and replace a failed result.

use provost::hook::{Hook, HookDecision, HookError, ObserverHook, RunContext, ToolFailure};
use provost::message::ToolCall;
use provost::testing::ScriptedModel;
use provost::{Agent, ContentPart, ToolError, ToolOutput, tool};
use serde_json::json;

/// Reads a file.
#[tool]
async fn read_file(
    /// Path of the file
    path: String,
) -> Result<String, ToolError> {
    Err(ToolError::failed(format!("{path} is on a disk that is not mounted")))
}

/// Masks a secret code, protects system files and reads lost files from an archive.
struct FilePolicy;

#[async_trait::async_trait]
impl Hook for FilePolicy {
    async fn on_user_message(
        &self,
        _cx: &RunContext,
        parts: &mut Vec<ContentPart>,
    ) -> Result<HookDecision, HookError> {
        for part in parts.iter_mut() {
            if let ContentPart::Text { text } = part {
                *text = text.replace("4711", "****");
            }
        }
        Ok(HookDecision::Allow)
    }

    async fn before_tool_call(
        &self,
        _cx: &RunContext,
        call: &mut ToolCall,
    ) -> Result<HookDecision, HookError> {
        if call.arguments.contains("/etc/") {
            return Ok(HookDecision::Deny("system files are private".into()));
        }
        Ok(HookDecision::Allow)
    }

    async fn on_tool_error(
        &self,
        _cx: &RunContext,
        failure: &ToolFailure<'_>,
    ) -> Result<Option<ToolOutput>, HookError> {
        Ok(Some(ToolOutput::text(format!("(from the archive, because {})", failure.error))))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedModel::new()
        .tool_calls([
            ("read_file", json!({ "path": "/etc/passwd" })),
            ("read_file", json!({ "path": "notes.txt" })),
        ])
        .text("I could read one of them.");
    let agent = Agent::builder("reader", model.clone())
        .tool(read_file)
        .hook(FilePolicy)
        .hook(ObserverHook::new(|event| {
            println!("{:?} {}", event.point, event.tool.as_deref().unwrap_or(""))
        }))
        .build()?;
    let result = agent.run("My code is 4711. Read the files.").await?;
    println!("message to the model: {}", model.request(0).messages[0].text());
    for tool_result in &result.tool_results {
        println!(
            "{} {}",
            if tool_result.is_error { "denied:" } else { "result:" },
            tool_result.to_text()
        );
    }
    Ok(())
}
