//! What happened and what was said, in pages, for those who do not stream.

use http::Method;
use provost_api::{EventBatch, LogEntry, LogStream, Page, Problem, RunEvent, Time};
use provost_core::{ErrorKind, TaskId};
use provost_engine::TaskLog;
use schemars::JsonSchema;
use serde::Deserialize;

use super::within;
use crate::convert;
use crate::error::{self, of_engine};
use crate::input::{Cx, Query, limit};
use crate::operation::Operation;
use crate::output::Answer;
use crate::sse::encode::event_json;
use crate::sse::{Source, Start};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            (Method::GET, within!("runs/{run}/events")),
            "listRunEvents",
            "The durable events of a run, oldest first",
            run_events,
        ),
        Operation::new(
            (Method::GET, within!("tasks/{task}/events")),
            "getTaskEvents",
            "What is new about a task, for those who poll",
            task_events,
        ),
        Operation::new(
            (Method::GET, within!("tasks/{task}/logs")),
            "listTaskLogs",
            "What was said in a task, oldest first",
            task_logs,
        ),
    ]
}

/// Where to go on.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Reading {
    /// The cursor behind which to begin: `next` of the answer before, or the id of an event of the stream.
    after: Option<String>,
    /// Events of a page: 1 to 500.
    #[schemars(range(min = 1, max = 500))]
    limit: Option<u64>,
}

async fn run_events(
    cx: Cx,
    Query(asked): Query<Reading>,
) -> Result<Answer<Page<RunEvent>>, Problem> {
    let source = Source::run_of(cx.namespace.clone(), cx.id("run")?);
    let start = begin(&cx, &source, &asked).await?;
    let page = source.page(cx.app.engine(), start.after, limit(asked.limit)?).await;
    let page = page.map_err(of_engine)?;
    let items = page.entries.iter().map(event).collect::<Result<_, _>>()?;
    let next = page.more.then(|| source.cursor(start.generation, page.next).to_string());
    Ok(Answer(Page { items, next }))
}

async fn task_logs(
    cx: Cx,
    Query(asked): Query<Reading>,
) -> Result<Answer<Page<LogEntry>>, Problem> {
    let task: TaskId = cx.id("task")?;
    let source = Source::task_of(cx.namespace.clone(), task);
    let start = begin(&cx, &source, &asked).await?;
    let limit = limit(asked.limit)?;
    let page = cx.app.engine().task_logs(&cx.namespace, task, start.after, limit).await;
    let page = page.map_err(of_engine)?;
    let next = page.more.then(|| source.cursor(start.generation, page.next).to_string());
    Ok(Answer(Page { items: page.entries.into_iter().map(line).collect(), next }))
}

async fn task_events(cx: Cx, Query(asked): Query<Reading>) -> Result<Answer<EventBatch>, Problem> {
    let task_id: TaskId = cx.id("task")?;
    let (engine, namespace) = (cx.app.engine(), &cx.namespace);
    let source = Source::task_of(namespace.clone(), task_id);
    let start = source.start(engine, asked.after.as_deref(), "after").await?;
    let limit = limit(asked.limit)?;
    let page = source.page(engine, start.after, limit).await.map_err(of_engine)?;
    let logs = engine.task_logs(namespace, task_id, start.after, limit).await.map_err(of_engine)?;
    // The log may have grown between the two; what is new there belongs to the next batch.
    let logs = logs.entries.into_iter().filter(|line| line.pos <= page.next).map(line).collect();
    let run_events = page.entries.iter().map(event).collect::<Result<_, _>>()?;
    let row = engine.task(namespace, task_id).await.map_err(of_engine)?;
    let run_id = row.current_run_id;
    let (mut run, mut interaction) = (None, None);
    if let Some(id) = run_id {
        run = Some(convert::run(engine.run(namespace, id).await.map_err(of_engine)?)?);
        let found = engine.interaction(namespace, id).await.map_err(of_engine)?;
        interaction = Some(convert::interaction(found));
    }
    let pending = engine.pending_inputs(namespace, task_id).await.map_err(of_engine)?;
    Ok(Answer(EventBatch {
        task_id,
        run_id,
        task: super::tell_task(&cx, row, super::ASKED_CHARS).await?,
        run,
        interaction,
        logs,
        run_events,
        pending_inputs: pending.into_iter().map(convert::pending).collect(),
        next: source.cursor(start.generation, page.next).to_string(),
        more: page.more,
        reset: start.reset,
    }))
}

/// Where a page begins. A page has no word for beginning anew, so a stale cursor is refused.
async fn begin(cx: &Cx, source: &Source, asked: &Reading) -> Result<Start, Problem> {
    let start = source.start(cx.app.engine(), asked.after.as_deref(), "after").await?;
    if start.reset {
        let detail = "the cursor is of another log, or what it names is not kept any more: begin without one";
        return Err(Problem::new(ErrorKind::Conflict, "cursor_stale", detail).status(410));
    }
    Ok(start)
}

fn event(entry: &provost_engine::LogEntry) -> Result<RunEvent, Problem> {
    let mut json = Vec::new();
    event_json(&mut json, entry);
    serde_json::from_slice(&json).map_err(|error| error::bug(&error))
}

fn line(line: TaskLog) -> LogEntry {
    let stream = match line.stream {
        provost_engine::LogStream::User => LogStream::User,
        provost_engine::LogStream::Assistant => LogStream::Assistant,
        provost_engine::LogStream::Tool => LogStream::Tool,
        provost_engine::LogStream::System => LogStream::System,
    };
    LogEntry { run: line.run, at: Time(line.at), stream, text: line.text }
}
