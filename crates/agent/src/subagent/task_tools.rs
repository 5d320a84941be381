//! Tools with which a model manages its background agents.

use std::sync::Arc;
use std::time::Duration;

use provost_core::recovery::EffectClass;
use provost_tool::{FnTool, Tool, ToolContext, ToolError, ToolSpecError, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ChildReport, ChildStatus, NoArgs, WaitOptions, erase_tool};
use crate::error::BuildError;
use crate::subagent::spawner_of;
use crate::subagent::tool::CHILD_CALL_TIMEOUT;

/// Returns the result of a task.
pub(crate) const GET_RESULT: &str = "get_task_result";
/// Stops a task.
pub(crate) const STOP: &str = "stop_task";
/// Lists the tasks.
pub(crate) const LIST: &str = "list_tasks";

/// Creates the tools for background tasks.
pub(crate) fn tools() -> Result<Vec<Arc<dyn Tool>>, BuildError> {
    Ok(vec![erase_tool(get_result())?, erase_tool(stop())?, erase_tool(list())?])
}

/// The arguments of the tool that returns a result.
#[derive(Debug, Deserialize, JsonSchema)]
struct GetTaskResultArgs {
    /// The id of the background task.
    task_id: String,
    /// True to wait until the task has ended.
    #[serde(default)]
    wait: bool,
    /// Maximum milliseconds to wait. 0 waits without a limit.
    #[serde(default)]
    timeout: u64,
}

/// The arguments of the tool that stops a task.
#[derive(Debug, Deserialize, JsonSchema)]
struct TaskIdArgs {
    /// The id of the background task.
    task_id: String,
}

/// Creates the tool that returns the result of a task.
fn get_result() -> Result<FnTool, ToolSpecError> {
    let description = "Returns the status and, after its end, the result of a background task.";
    let tool =
        tool_fn(GET_RESULT, description, |cx: ToolContext, args: GetTaskResultArgs| async move {
            let mut report = find(&cx, &args.task_id).await?;
            if args.wait && !report.status.is_finished() {
                let timeout = (args.timeout > 0).then(|| Duration::from_millis(args.timeout));
                let until = WaitOptions { any: false, timeout };
                let ended = spawner_of(&cx)?.wait(&cx, vec![report.run], until).await?;
                report = ended.into_iter().next().unwrap_or(report);
            }
            Ok::<_, ToolError>(report_json(&report).to_string())
        })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Pure).timeout(CHILD_CALL_TIMEOUT)))
}

/// Creates the tool that stops a task.
fn stop() -> Result<FnTool, ToolSpecError> {
    let description = "Stops a background task.";
    let tool = tool_fn(STOP, description, |cx: ToolContext, args: TaskIdArgs| async move {
        let report = find(&cx, &args.task_id).await?;
        let stopped = spawner_of(&cx)?.stop(&cx, report.run).await?;
        let message = match stopped.status {
            ChildStatus::Cancelled => "it was stopped",
            _ => "it had already ended",
        };
        let result = json!({
            "task_id": args.task_id, "status": stopped.status, "message": message,
        });
        Ok::<_, ToolError>(result.to_string())
    })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Idempotent)))
}

/// Creates the tool that lists the tasks.
fn list() -> Result<FnTool, ToolSpecError> {
    let description = "Lists the background tasks with their status.";
    let tool = tool_fn(LIST, description, |cx: ToolContext, _args: NoArgs| async move {
        let reports = spawner_of(&cx)?.background_tasks(&cx).await?;
        let row = |report: &ChildReport| {
            json!({
                "task_id": report.task_id, "agent_name": report.agent, "status": report.status,
            })
        };
        let all: Vec<Value> = reports.iter().map(row).collect();
        Ok::<_, ToolError>(Value::from(all).to_string())
    })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Pure)))
}

/// Returns the report of a task. The error names the known tasks.
async fn find(cx: &ToolContext, task_id: &str) -> Result<ChildReport, ToolError> {
    let reports = spawner_of(cx)?.background_tasks(cx).await?;
    let mut known = Vec::new();
    for report in reports {
        if report.task_id.as_deref() == Some(task_id) {
            return Ok(report);
        }
        known.extend(report.task_id);
    }
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Err(ToolError::Failed(format!("task `{task_id}` was not found; known tasks: {known}")))
}

/// Converts a report to JSON for the model.
fn report_json(report: &ChildReport) -> Value {
    let mut json = json!({
        "task_id": report.task_id, "agent_name": report.agent, "status": report.status,
    });
    match report.status {
        ChildStatus::Running => {}
        ChildStatus::Completed => json["result"] = report.to_model_text().into(),
        ChildStatus::Failed | ChildStatus::Cancelled => {
            json["error"] = report.failure_text().into()
        }
    }
    json
}
