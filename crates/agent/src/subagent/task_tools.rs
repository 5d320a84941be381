//! The tools by which a model looks after agents that work in the background.

use std::sync::Arc;
use std::time::Duration;

use provost_core::recovery::EffectClass;
use provost_tool::{FnTool, SpecError, Tool, ToolCx, ToolError, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ChildReport, ChildStatus, NoArgs, WaitOptions, erase_tool};
use crate::error::BuildError;
use crate::subagent::host;
use crate::subagent::tool::CHILD_CALL_TIMEOUT;

/// Asks for a result.
pub(crate) const GET_RESULT: &str = "get_task_result";
/// Stops a task.
pub(crate) const STOP: &str = "stop_task";
/// Lists the tasks.
pub(crate) const LIST: &str = "list_tasks";

/// All of them.
pub(crate) fn tools() -> Result<Vec<Arc<dyn Tool>>, BuildError> {
    Ok(vec![erase_tool(get_result())?, erase_tool(stop())?, erase_tool(list())?])
}

/// Which result.
#[derive(Debug, Deserialize, JsonSchema)]
struct GetTaskResultArgs {
    /// The id that starting it in the background gave.
    task_id: String,
    /// True to wait until it is over.
    #[serde(default)]
    wait: bool,
    /// Milliseconds to wait at most; 0 for as long as it takes.
    #[serde(default)]
    timeout: u64,
}

/// Which task.
#[derive(Debug, Deserialize, JsonSchema)]
struct TaskIdArgs {
    /// The id that starting it in the background gave.
    task_id: String,
}

fn get_result() -> Result<FnTool, SpecError> {
    let description = "Gives the state and, once there is one, the result of an agent that works in the background.";
    let tool =
        tool_fn(GET_RESULT, description, |cx: ToolCx, args: GetTaskResultArgs| async move {
            let mut report = find(&cx, &args.task_id).await?;
            if args.wait && !report.status.is_finished() {
                let timeout = (args.timeout > 0).then(|| Duration::from_millis(args.timeout));
                let until = WaitOptions { any: false, timeout };
                let ended = host(&cx)?.wait(&cx, vec![report.run], until).await?;
                report = ended.into_iter().next().unwrap_or(report);
            }
            Ok::<_, ToolError>(shown(&report).to_string())
        })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Pure).timeout(CHILD_CALL_TIMEOUT)))
}

fn stop() -> Result<FnTool, SpecError> {
    let description = "Stops an agent that works in the background.";
    let tool = tool_fn(STOP, description, |cx: ToolCx, args: TaskIdArgs| async move {
        let report = find(&cx, &args.task_id).await?;
        let stopped = host(&cx)?.stop(&cx, report.run).await?;
        let message = match stopped.status {
            ChildStatus::Cancelled => "it was stopped",
            _ => "it was over before it could be stopped",
        };
        let shown = json!({
            "task_id": args.task_id, "status": stopped.status, "message": message,
        });
        Ok::<_, ToolError>(shown.to_string())
    })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Idempotent)))
}

fn list() -> Result<FnTool, SpecError> {
    let description = "Lists the agents that work in the background, with their states.";
    let tool = tool_fn(LIST, description, |cx: ToolCx, _args: NoArgs| async move {
        let reports = host(&cx)?.background_tasks(&cx).await?;
        let one = |report: &ChildReport| {
            json!({
                "task_id": report.task_id, "agent_name": report.agent, "status": report.status,
            })
        };
        let all: Vec<Value> = reports.iter().map(one).collect();
        Ok::<_, ToolError>(Value::from(all).to_string())
    })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Pure)))
}

async fn find(cx: &ToolCx, label: &str) -> Result<ChildReport, ToolError> {
    let reports = host(cx)?.background_tasks(cx).await?;
    let mut known = Vec::new();
    for report in reports {
        if report.task_id.as_deref() == Some(label) {
            return Ok(report);
        }
        known.extend(report.task_id);
    }
    let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
    Err(ToolError::Failed(format!("task `{label}` was not found; known tasks: {known}")))
}

fn shown(report: &ChildReport) -> Value {
    let mut shown = json!({
        "task_id": report.task_id, "agent_name": report.agent, "status": report.status,
    });
    match report.status {
        ChildStatus::Running => {}
        ChildStatus::Completed => shown["result"] = report.to_model_text().into(),
        ChildStatus::Failed | ChildStatus::Cancelled => {
            shown["error"] = report.failure_text().into()
        }
    }
    shown
}
