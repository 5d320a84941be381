//! Tools for the task board of a team.

use std::sync::Arc;
use std::time::Duration;

use provost_core::Timestamp;
use provost_core::recovery::EffectClass;
use provost_tool::{FnTool, Tool, ToolContext, ToolError, ToolSpecError, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::LIST_BYTES_MAX;
use super::board::{BoardTask, NewBoardTask};
use crate::error::BuildError;
use crate::subagent::{NoArgs, erase_tool};
use crate::team::command::{TeamCommand, TeamError, TeamResponse};
use crate::team::inbox::json_bytes;
use crate::team::membership::TeamMembership;
use crate::team::state::cut_to_json_size;

const CREATE: &str = "create_board_task";
const CLAIM: &str = "claim_board_task";
const UNCLAIM: &str = "unclaim_board_task";
const COMPLETE: &str = "complete_board_task";
const LIST: &str = "list_board_tasks";
/// All tool names of this file.
pub(super) const NAMES: [&str; 5] = [CREATE, CLAIM, UNCLAIM, COMPLETE, LIST];

/// Creates the tools of the task board.
pub(super) fn tools() -> Result<Vec<Arc<dyn Tool>>, BuildError> {
    Ok(vec![
        erase_tool(create())?,
        erase_tool(claim())?,
        erase_tool(unclaim())?,
        erase_tool(complete())?,
        erase_tool(list())?,
    ])
}

/// The arguments of the tool that creates a task.
#[derive(Debug, Deserialize, JsonSchema)]
struct CreateTaskArgs {
    /// The description of the task.
    title: String,
    /// Ids of tasks that must be completed before this one can be claimed.
    #[serde(default)]
    depends_on: Vec<String>,
    /// Deadline in seconds from now. 0 means no deadline.
    #[serde(default)]
    deadline: u64,
}

/// The arguments of the tools that claim and release a task.
#[derive(Debug, Deserialize, JsonSchema)]
struct BoardTaskIdArgs {
    /// The id of the task, such as board-1.
    task_id: String,
}

/// The arguments of the tool that completes a task.
#[derive(Debug, Deserialize, JsonSchema)]
struct CompleteTaskArgs {
    /// The id of the task, such as board-1.
    task_id: String,
    /// The result of the task.
    result: String,
}

/// Creates the tool that adds a task.
fn create() -> Result<FnTool, ToolSpecError> {
    let description = "Creates a task on the board of the team.";
    let tool = tool_fn(CREATE, description, |cx: ToolContext, args: CreateTaskArgs| async move {
        require_text("title", &args.title)?;
        let membership = TeamMembership::of(&cx)?;
        let duration = (args.deadline > 0).then(|| Duration::from_secs(args.deadline));
        let deadline = duration.zip(now(&membership)).map(|(duration, now)| now.after(duration));
        let by = membership.name().to_owned();
        let new = NewBoardTask { by, title: args.title, depends_on: args.depends_on, deadline };
        let task = into_task(membership.apply(&cx, TeamCommand::CreateTask(new)).await?)?;
        Ok::<_, ToolError>(serde_json::to_string(&task)?)
    })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Idempotent)))
}

/// Creates the tool that claims a task.
fn claim() -> Result<FnTool, ToolSpecError> {
    let description = "Claims an open task of the board, so that no other participant works on it.";
    let tool = tool_fn(CLAIM, description, |cx: ToolContext, args: BoardTaskIdArgs| async move {
        require_text("task_id", &args.task_id)?;
        let membership = TeamMembership::of(&cx)?;
        let by = membership.name().to_owned();
        let task =
            into_task(membership.apply(&cx, TeamCommand::Claim { by, task: args.task_id }).await?)?;
        Ok::<_, ToolError>(format!("{} is yours: {}", task.id, task.title))
    })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Idempotent)))
}

/// Creates the tool that releases a task.
fn unclaim() -> Result<FnTool, ToolSpecError> {
    let description = "Releases a task of the board that you claimed and will not complete.";
    let tool =
        tool_fn(UNCLAIM, description, |cx: ToolContext, args: BoardTaskIdArgs| async move {
            require_text("task_id", &args.task_id)?;
            let membership = TeamMembership::of(&cx)?;
            let by = membership.name().to_owned();
            let task = into_task(
                membership.apply(&cx, TeamCommand::Unclaim { by, task: args.task_id }).await?,
            )?;
            Ok::<_, ToolError>(format!("{} is open again.", task.id))
        })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Idempotent)))
}

/// Creates the tool that completes a task.
fn complete() -> Result<FnTool, ToolSpecError> {
    let description = "Completes a task of the board that you claimed, with its result.";
    let tool =
        tool_fn(COMPLETE, description, |cx: ToolContext, args: CompleteTaskArgs| async move {
            require_text("task_id", &args.task_id)?;
            require_text("result", &args.result)?;
            let membership = TeamMembership::of(&cx)?;
            let (by, task, result) = (membership.name().to_owned(), args.task_id, args.result);
            let task = into_task(
                membership.apply(&cx, TeamCommand::CompleteTask { by, task, result }).await?,
            )?;
            Ok::<_, ToolError>(format!("{} is completed.", task.id))
        })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Idempotent)))
}

/// Creates the tool that lists the tasks.
fn list() -> Result<FnTool, ToolSpecError> {
    let description = "Lists the tasks of the board with their assignees and results.";
    let tool = tool_fn(LIST, description, |cx: ToolContext, _args: NoArgs| async move {
        let membership = TeamMembership::of(&cx)?;
        let TeamResponse::Tasks { tasks } = membership.apply(&cx, TeamCommand::Tasks).await? else {
            return Err(ToolError::failed("the team returned an unexpected response"));
        };
        if tasks.is_empty() {
            return Ok("The board is empty.".to_owned());
        }
        Ok::<_, ToolError>(tasks_json(tasks, now(&membership)).to_string())
    })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Pure)))
}

/// Converts tasks to JSON and marks overdue tasks. If the list is too long for a model, titles and results are cut.
fn tasks_json(tasks: Vec<BoardTask>, now: Option<Timestamp>) -> Value {
    let is_long = json_bytes(&tasks) > LIST_BYTES_MAX;
    let bytes_max = LIST_BYTES_MAX / (4 * tasks.len().max(1));
    let one = |mut task: BoardTask| {
        let overdue = now.is_some_and(|now| task.is_overdue(now));
        if is_long {
            task.title = cut_to_json_size(task.title, bytes_max);
            task.result = task.result.map(|result| cut_to_json_size(result, bytes_max));
        }
        let mut json = serde_json::to_value(&task).unwrap_or_default();
        if overdue {
            json["overdue"] = true.into();
        }
        json
    };
    tasks.into_iter().map(one).collect()
}

/// Returns an error for the model if the text is blank.
fn require_text(what: &'static str, text: &str) -> Result<(), ToolError> {
    if text.trim().is_empty() { Err(ToolError::retry(TeamError::Empty(what))) } else { Ok(()) }
}

/// Returns the task of a response. Returns an error for another response.
fn into_task(reply: TeamResponse) -> Result<BoardTask, ToolError> {
    match reply {
        TeamResponse::Task { task } => Ok(task),
        _ => Err(ToolError::failed("the team returned an unexpected response")),
    }
}

/// Returns the current time. `None` if the run has ended.
fn now(membership: &TeamMembership) -> Option<Timestamp> {
    membership.context().map(|run| run.env.now())
}
