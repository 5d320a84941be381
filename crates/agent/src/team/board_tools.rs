//! The tools of the board that a team shares.

use std::sync::Arc;
use std::time::Duration;

use provost_core::Timestamp;
use provost_core::recovery::EffectClass;
use provost_tool::{FnTool, SpecError, Tool, ToolCx, ToolError, tool_fn};
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
use crate::team::state::shortened;

const CREATE: &str = "create_board_task";
const CLAIM: &str = "claim_board_task";
const UNCLAIM: &str = "unclaim_board_task";
const COMPLETE: &str = "complete_board_task";
const LIST: &str = "list_board_tasks";
/// All names of this file.
pub(super) const NAMES: [&str; 5] = [CREATE, CLAIM, UNCLAIM, COMPLETE, LIST];

/// All of them.
pub(super) fn tools() -> Result<Vec<Arc<dyn Tool>>, BuildError> {
    Ok(vec![
        erase_tool(create())?,
        erase_tool(claim())?,
        erase_tool(unclaim())?,
        erase_tool(complete())?,
        erase_tool(list())?,
    ])
}

/// What is to be done.
#[derive(Debug, Deserialize, JsonSchema)]
struct CreateTaskArgs {
    /// What is to be done.
    title: String,
    /// Ids of tasks that must be completed before this one can be claimed.
    #[serde(default)]
    depends_on: Vec<String>,
    /// Seconds from now by which it must be completed; 0 for any time.
    #[serde(default)]
    deadline: u64,
}

/// Which task.
#[derive(Debug, Deserialize, JsonSchema)]
struct BoardTaskIdArgs {
    /// Its id: board-1.
    task_id: String,
}

/// What came of which task.
#[derive(Debug, Deserialize, JsonSchema)]
struct CompleteTaskArgs {
    /// Its id: board-1.
    task_id: String,
    /// What came of it.
    result: String,
}

fn create() -> Result<FnTool, SpecError> {
    let description = "Puts a task on the board that the whole team shares.";
    let tool = tool_fn(CREATE, description, |cx: ToolCx, args: CreateTaskArgs| async move {
        require("title", &args.title)?;
        let seat = TeamMembership::of(&cx)?;
        let span = (args.deadline > 0).then(|| Duration::from_secs(args.deadline));
        let deadline = span.zip(now(&seat)).map(|(span, now)| now.after(span));
        let by = seat.name().to_owned();
        let new = NewBoardTask { by, title: args.title, depends_on: args.depends_on, deadline };
        let task = one(seat.apply(&cx, TeamCommand::CreateTask(new)).await?)?;
        Ok::<_, ToolError>(serde_json::to_string(&task)?)
    })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Idempotent)))
}

fn claim() -> Result<FnTool, SpecError> {
    let description = "Takes an open task of the board, so that nobody else works on it.";
    let tool = tool_fn(CLAIM, description, |cx: ToolCx, args: BoardTaskIdArgs| async move {
        require("task_id", &args.task_id)?;
        let seat = TeamMembership::of(&cx)?;
        let by = seat.name().to_owned();
        let task = one(seat.apply(&cx, TeamCommand::Claim { by, task: args.task_id }).await?)?;
        Ok::<_, ToolError>(format!("{} is yours: {}", task.id, task.title))
    })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Idempotent)))
}

fn unclaim() -> Result<FnTool, SpecError> {
    let description = "Gives a task of the board back that you have claimed and will not do.";
    let tool = tool_fn(UNCLAIM, description, |cx: ToolCx, args: BoardTaskIdArgs| async move {
        require("task_id", &args.task_id)?;
        let seat = TeamMembership::of(&cx)?;
        let by = seat.name().to_owned();
        let task = one(seat.apply(&cx, TeamCommand::Unclaim { by, task: args.task_id }).await?)?;
        Ok::<_, ToolError>(format!("{} is open again.", task.id))
    })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Idempotent)))
}

fn complete() -> Result<FnTool, SpecError> {
    let description = "Notes the result of a task of the board that you have claimed.";
    let tool = tool_fn(COMPLETE, description, |cx: ToolCx, args: CompleteTaskArgs| async move {
        require("task_id", &args.task_id)?;
        require("result", &args.result)?;
        let seat = TeamMembership::of(&cx)?;
        let (by, task, result) = (seat.name().to_owned(), args.task_id, args.result);
        let task = one(seat.apply(&cx, TeamCommand::CompleteTask { by, task, result }).await?)?;
        Ok::<_, ToolError>(format!("{} is completed.", task.id))
    })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Idempotent)))
}

fn list() -> Result<FnTool, SpecError> {
    let description = "Lists the tasks of the board with who works on them and what came of them.";
    let tool = tool_fn(LIST, description, |cx: ToolCx, _args: NoArgs| async move {
        let seat = TeamMembership::of(&cx)?;
        let TeamResponse::Tasks { tasks } = seat.apply(&cx, TeamCommand::Tasks).await? else {
            return Err(ToolError::failed("the team did not show its board"));
        };
        if tasks.is_empty() {
            return Ok("The board is empty.".to_owned());
        }
        Ok::<_, ToolError>(shown(tasks, now(&seat)).to_string())
    })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Pure)))
}

/// The tasks, shortened where a model could not be given all of them.
fn shown(tasks: Vec<BoardTask>, now: Option<Timestamp>) -> Value {
    let is_long = json_bytes(&tasks) > LIST_BYTES_MAX;
    let room = LIST_BYTES_MAX / (4 * tasks.len().max(1));
    let one = |mut task: BoardTask| {
        let overdue = now.is_some_and(|now| task.is_overdue(now));
        if is_long {
            task.title = shortened(task.title, room);
            task.result = task.result.map(|result| shortened(result, room));
        }
        let mut shown = serde_json::to_value(&task).unwrap_or_default();
        if overdue {
            shown["overdue"] = true.into();
        }
        shown
    };
    tasks.into_iter().map(one).collect()
}

fn require(what: &'static str, text: &str) -> Result<(), ToolError> {
    if text.trim().is_empty() { Err(ToolError::retry(TeamError::Empty(what))) } else { Ok(()) }
}

fn one(reply: TeamResponse) -> Result<BoardTask, ToolError> {
    match reply {
        TeamResponse::Task { task } => Ok(task),
        _ => Err(ToolError::failed("the team did not show the task")),
    }
}

/// The time where the call's run lives.
fn now(seat: &TeamMembership) -> Option<Timestamp> {
    seat.context().map(|run| run.env.now())
}
