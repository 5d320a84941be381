//! Pages of durable events and log entries, for clients that poll.

use axum::Json;
use axum::extract::State;
use provost_api::{DateTime, EventBatch, LogEntry, LogStream, Page, Problem, RunEvent};
use provost_core::{ErrorKind, RunId, TaskId};
use provost_store::query;
use provost_store::query::task_log::TaskLog;
use schemars::JsonSchema;
use serde::Deserialize;

use super::task::{MESSAGE_CHARS, load_task_view};
use crate::app::App;
use crate::convert;
use crate::extract::{ApiPath, ApiQuery, Auth, Read, limit};
use crate::response::ApiResult;
use crate::sse::{StreamSource, StreamStart};

/// Query of a page of events.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct EventQuery {
    /// Cursor after which the page starts: the `next` value of the previous page, or the id of a streamed event.
    after: Option<String>,
    /// Maximum number of events in the page, from 1 to 500. The default is 50.
    #[schemars(range(min = 1, max = 500))]
    limit: Option<u64>,
}

pub(crate) async fn run_events(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(run): ApiPath<RunId>,
    ApiQuery(params): ApiQuery<EventQuery>,
) -> ApiResult<Json<Page<RunEvent>>> {
    let source = StreamSource::for_run(auth.namespace.clone(), run);
    let start = page_start(&app, &source, &params).await?;
    let page = source.page(app.engine(), start.after, limit(params.limit)?).await?;
    let items = page.entries.iter().map(convert::event::view).collect::<Result<_, _>>()?;
    let next = page.has_more.then(|| source.cursor(start.generation, page.next).to_string());
    Ok(Json(Page { items, next }))
}

pub(crate) async fn task_logs(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(task): ApiPath<TaskId>,
    ApiQuery(params): ApiQuery<EventQuery>,
) -> ApiResult<Json<Page<LogEntry>>> {
    let source = StreamSource::for_task(auth.namespace.clone(), task);
    let start = page_start(&app, &source, &params).await?;
    let limit = limit(params.limit)?;
    let page =
        query::task_log::of_task(app.engine().store(), &auth.namespace, task, start.after, limit)
            .await?;
    let next = page.has_more.then(|| source.cursor(start.generation, page.next).to_string());
    Ok(Json(Page { items: page.entries.into_iter().map(log_entry).collect(), next }))
}

pub(crate) async fn task_events(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(task_id): ApiPath<TaskId>,
    ApiQuery(params): ApiQuery<EventQuery>,
) -> ApiResult<Json<EventBatch>> {
    let (engine, namespace) = (app.engine(), &auth.namespace);
    let source = StreamSource::for_task(namespace.clone(), task_id);
    let start = source.start(engine, params.after.as_deref(), "after").await?;
    let limit = limit(params.limit)?;
    let page = source.page(engine, start.after, limit).await?;
    let logs =
        query::task_log::of_task(engine.store(), namespace, task_id, start.after, limit).await?;
    // The log may have grown between the two reads. The new entries belong to the next batch.
    let logs =
        logs.entries.into_iter().filter(|line| line.pos <= page.next).map(log_entry).collect();
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
        task: load_task_view(&app, namespace, row, MESSAGE_CHARS).await?,
        run,
        interaction,
        logs,
        run_events,
        pending_inputs: pending.into_iter().map(convert::input::pending).collect(),
        next: source.cursor(start.generation, page.next).to_string(),
        more: page.has_more,
        reset: start.reset,
    }))
}

/// Returns the start of a page. Returns an error for a stale cursor, because a page cannot signal a reset.
async fn page_start(
    app: &App,
    source: &StreamSource,
    params: &EventQuery,
) -> ApiResult<StreamStart> {
    let start = source.start(app.engine(), params.after.as_deref(), "after").await?;
    if start.reset {
        let detail =
            "the cursor belongs to another log, or its events were removed: start without a cursor";
        return Err(Problem::new(ErrorKind::Conflict, "cursor_stale", detail).status(410).into());
    }
    Ok(start)
}

fn log_entry(line: TaskLog) -> LogEntry {
    let stream = match line.stream {
        provost_store::query::task_log::LogStream::User => LogStream::User,
        provost_store::query::task_log::LogStream::Assistant => LogStream::Assistant,
        provost_store::query::task_log::LogStream::Tool => LogStream::Tool,
        provost_store::query::task_log::LogStream::System => LogStream::System,
    };
    LogEntry { run: line.run, at: DateTime(line.at), stream, text: line.text }
}
