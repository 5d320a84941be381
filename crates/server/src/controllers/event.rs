//! Durable events and logs in pages, for clients that poll.

use axum::Json;
use axum::extract::State;
use provost_api::{EventBatch, LogEntry, LogStream, Page, Problem, RunEvent, Time};
use provost_core::{ErrorKind, RunId, TaskId};
use provost_store::query;
use provost_store::query::task_log::TaskLog;
use schemars::JsonSchema;
use serde::Deserialize;

use super::task::{ASKED_CHARS, load_task_view};
use crate::app::App;
use crate::convert;
use crate::extract::{ApiPath, ApiQuery, Auth, Read, limit};
use crate::response::ApiResult;
use crate::sse::{Source, Start};

/// Where a page begins.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct EventQuery {
    /// The cursor behind which to begin: `next` of the answer before, or the id of an event of the stream.
    after: Option<String>,
    /// Events of a page: 1 to 500.
    #[schemars(range(min = 1, max = 500))]
    limit: Option<u64>,
}

pub(crate) async fn run_events(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(run): ApiPath<RunId>,
    ApiQuery(asked): ApiQuery<EventQuery>,
) -> ApiResult<Json<Page<RunEvent>>> {
    let source = Source::run_of(auth.namespace.clone(), run);
    let start = begin(&app, &source, &asked).await?;
    let page = source.page(app.engine(), start.after, limit(asked.limit)?).await?;
    let items = page.entries.iter().map(convert::event::view).collect::<Result<_, _>>()?;
    let next = page.more.then(|| source.cursor(start.generation, page.next).to_string());
    Ok(Json(Page { items, next }))
}

pub(crate) async fn task_logs(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(task): ApiPath<TaskId>,
    ApiQuery(asked): ApiQuery<EventQuery>,
) -> ApiResult<Json<Page<LogEntry>>> {
    let source = Source::task_of(auth.namespace.clone(), task);
    let start = begin(&app, &source, &asked).await?;
    let limit = limit(asked.limit)?;
    let page =
        query::task_log::of_task(app.engine().store(), &auth.namespace, task, start.after, limit)
            .await?;
    let next = page.more.then(|| source.cursor(start.generation, page.next).to_string());
    Ok(Json(Page { items: page.entries.into_iter().map(line).collect(), next }))
}

pub(crate) async fn task_events(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(task_id): ApiPath<TaskId>,
    ApiQuery(asked): ApiQuery<EventQuery>,
) -> ApiResult<Json<EventBatch>> {
    let (engine, namespace) = (app.engine(), &auth.namespace);
    let source = Source::task_of(namespace.clone(), task_id);
    let start = source.start(engine, asked.after.as_deref(), "after").await?;
    let limit = limit(asked.limit)?;
    let page = source.page(engine, start.after, limit).await?;
    let logs =
        query::task_log::of_task(engine.store(), namespace, task_id, start.after, limit).await?;
    // The log may have grown between the two; what is new there belongs to the next batch.
    let logs = logs.entries.into_iter().filter(|line| line.pos <= page.next).map(line).collect();
    let run_events = page.entries.iter().map(convert::event::view).collect::<Result<_, _>>()?;
    let row = query::task::get(engine.store(), namespace, task_id).await?;
    let run_id = row.current_run_id;
    let (mut run, mut interaction) = (None, None);
    if let Some(id) = run_id {
        run = Some(convert::run::view(query::run::get(engine.store(), namespace, id).await?)?);
        let found = query::input::interaction(engine.store(), namespace, id).await?;
        interaction = Some(convert::input::interaction(found));
    }
    let pending = query::input::pending(engine.store(), namespace, task_id).await?;
    Ok(Json(EventBatch {
        task_id,
        run_id,
        task: load_task_view(&app, namespace, row, ASKED_CHARS).await?,
        run,
        interaction,
        logs,
        run_events,
        pending_inputs: pending.into_iter().map(convert::input::pending).collect(),
        next: source.cursor(start.generation, page.next).to_string(),
        more: page.more,
        reset: start.reset,
    }))
}

/// Where a page begins. A page has no word for beginning anew, so a stale cursor is refused.
async fn begin(app: &App, source: &Source, asked: &EventQuery) -> ApiResult<Start> {
    let start = source.start(app.engine(), asked.after.as_deref(), "after").await?;
    if start.reset {
        let detail = "the cursor is of another log, or what it names is not kept any more: begin without one";
        return Err(Problem::new(ErrorKind::Conflict, "cursor_stale", detail).status(410).into());
    }
    Ok(start)
}

fn line(line: TaskLog) -> LogEntry {
    let stream = match line.stream {
        provost_store::query::task_log::LogStream::User => LogStream::User,
        provost_store::query::task_log::LogStream::Assistant => LogStream::Assistant,
        provost_store::query::task_log::LogStream::Tool => LogStream::Tool,
        provost_store::query::task_log::LogStream::System => LogStream::System,
    };
    LogEntry { run: line.run, at: Time(line.at), stream, text: line.text }
}
