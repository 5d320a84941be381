//! Tasks: handing in work, looking at it, saying more, ending it.

use http::Method;
use provost_api::{
    Accepted, Cancelled, InputReceipt, NewInput, NewTask, Page, Paging, PendingInput, Problem, Run,
    Scope, Started, Task, TaskList,
};
use provost_core::TaskId;
use provost_store::row::run::RunFilter;
use provost_store::row::task::{TaskFilter, TaskRow};

use super::within;
use crate::convert;
use crate::error::of_engine;
use crate::input::{Cx, Json, Query, limit};
use crate::operation::Operation;
use crate::output::{Answer, Made};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            (Method::POST, within!("tasks")),
            "submitTask",
            "Hand in a piece of work",
            submit,
        )
        .scope(Scope::Write)
        .keyed()
        .large(),
        Operation::new((Method::GET, within!("tasks")), "listTasks", "Tasks, newest first", list),
        Operation::new(
            (Method::GET, within!("tasks/{task}")),
            "getTask",
            "A task as it stands",
            get,
        ),
        Operation::new(
            (Method::POST, within!("tasks/{task}/cancel")),
            "cancelTask",
            "Cancel a task and everything below it",
            cancel,
        )
        .scope(Scope::Write),
        Operation::new(
            (Method::POST, within!("tasks/{task}/archive")),
            "archiveTask",
            "Put a task away that has ended or waits for a person",
            archive,
        )
        .scope(Scope::Write),
        Operation::new(
            (Method::POST, within!("tasks/{task}/retry")),
            "retryTask",
            "Tell a new run once more what the last one was told",
            retry,
        )
        .scope(Scope::Write),
        Operation::new(
            (Method::GET, within!("tasks/{task}/runs")),
            "listTaskRuns",
            "The runs of a task, newest first",
            runs,
        ),
        Operation::new(
            (Method::POST, within!("tasks/{task}/inputs")),
            "sayToTask",
            "Say something to a task",
            say,
        )
        .scope(Scope::Write)
        .keyed()
        .large(),
        Operation::new(
            (Method::GET, within!("tasks/{task}/inputs")),
            "listTaskInputs",
            "What was said to a task and nobody has read yet",
            pending,
        ),
    ]
}

/// The task is boxed: it is large, and is handed on several times.
async fn submit(cx: Cx, Json(task): Json<Box<NewTask>>) -> Result<Made<Accepted>, Problem> {
    let mut command = convert::command(*task);
    command.requested_by = Some(cx.who.name.clone());
    command.idempotency_key = cx.idempotency_key(command.idempotency_key.take())?;
    let accepted = cx.app.engine().accept(&cx.namespace, command).await.map_err(of_engine)?;
    Ok(Made { new: !accepted.deduped, what: convert::accepted(accepted) })
}

async fn list(cx: Cx, Query(asked): Query<TaskList>) -> Result<Answer<Page<Task>>, Problem> {
    let filter = TaskFilter {
        state: asked.state.map(|state| state.as_str().to_owned()),
        agent: asked.agent,
        session_id: asked.session,
        label: asked.label,
        parent: asked.parent,
        archived: asked.archived.unwrap_or(false),
        before: convert::cursor(asked.cursor.as_deref())?,
    };
    let page = cx.app.engine().tasks(&cx.namespace, filter, limit(asked.limit)?).await;
    let page = page.map_err(of_engine)?;
    let ids = page.items.iter().map(|row| row.id).collect();
    let asked = cx.app.engine().asked(&cx.namespace, ids, super::ASKED_CHARS).await;
    let asked = asked.map_err(of_engine)?;
    let message = |row: &TaskRow| asked.get(&row.id).cloned().unwrap_or_default();
    Ok(Answer(convert::page(page, |row| {
        let message = message(&row);
        convert::task(row, message)
    })?))
}

async fn get(cx: Cx, (): ()) -> Result<Answer<Task>, Problem> {
    let row = cx.app.engine().task(&cx.namespace, cx.id("task")?).await.map_err(of_engine)?;
    Ok(Answer(super::tell_task(&cx, row, usize::MAX).await?))
}

async fn cancel(cx: Cx, (): ()) -> Result<Answer<Cancelled>, Problem> {
    let found = cx.app.engine().cancel_task(&cx.namespace, cx.id("task")?).await;
    Ok(Answer(convert::cancelled(found.map_err(of_engine)?)))
}

async fn archive(cx: Cx, (): ()) -> Result<Answer<Task>, Problem> {
    let row = cx.app.engine().archive_task(&cx.namespace, cx.id("task")?).await;
    Ok(Answer(super::tell_task(&cx, row.map_err(of_engine)?, usize::MAX).await?))
}

async fn retry(cx: Cx, (): ()) -> Result<Answer<Started>, Problem> {
    let run = cx.app.engine().retry_task(&cx.namespace, cx.id("task")?).await;
    Ok(Answer(Started { run: run.map_err(of_engine)? }))
}

async fn runs(cx: Cx, Query(asked): Query<Paging>) -> Result<Answer<Page<Run>>, Problem> {
    let (engine, task): (_, TaskId) = (cx.app.engine(), cx.id("task")?);
    let filter = RunFilter {
        task_id: Some(task),
        before: convert::cursor(asked.cursor.as_deref())?,
        ..RunFilter::default()
    };
    let limit = limit(asked.limit)?;
    engine.task(&cx.namespace, task).await.map_err(of_engine)?;
    let page = engine.runs(&cx.namespace, filter, limit).await.map_err(of_engine)?;
    Ok(Answer(convert::page(page, convert::run)?))
}

async fn say(cx: Cx, Json(said): Json<NewInput>) -> Result<Made<InputReceipt>, Problem> {
    let task: TaskId = cx.id("task")?;
    super::say(&cx, task, said).await
}

async fn pending(
    cx: Cx,
    Query(asked): Query<Paging>,
) -> Result<Answer<Page<PendingInput>>, Problem> {
    let task: TaskId = cx.id("task")?;
    super::pending(&cx, task, &asked).await
}
