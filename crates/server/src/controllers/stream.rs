//! Event streams: server-sent events.

use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;

use provost_core::{RunId, TaskId};

use crate::app::App;
use crate::extract::{ApiPath, ApiQuery, Auth, LastEventId, Read, SessionKey};
use crate::response::{ApiResult, EventStream};
use crate::sse::{self, StreamSource};

/// Query of an event stream.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StreamQuery {
    /// Cursor of the last received event. The header `Last-Event-ID` has the same meaning and takes precedence. The value
    /// `end` starts at the end of the log. The default starts at the oldest stored event.
    after: Option<String>,
    /// False excludes live deltas. The default is true.
    deltas: bool,
}

impl Default for StreamQuery {
    fn default() -> Self {
        Self { after: None, deltas: true }
    }
}

pub(crate) async fn run(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(run): ApiPath<RunId>,
    last_event_id: LastEventId,
    ApiQuery(params): ApiQuery<StreamQuery>,
) -> ApiResult<EventStream> {
    watch(app, StreamSource::for_run(auth.namespace, run), last_event_id, params).await
}

pub(crate) async fn task(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(task): ApiPath<TaskId>,
    last_event_id: LastEventId,
    ApiQuery(params): ApiQuery<StreamQuery>,
) -> ApiResult<EventStream> {
    watch(app, StreamSource::for_task(auth.namespace, task), last_event_id, params).await
}

pub(crate) async fn session(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(SessionKey(session)): ApiPath<SessionKey>,
    last_event_id: LastEventId,
    ApiQuery(params): ApiQuery<StreamQuery>,
) -> ApiResult<EventStream> {
    watch(app, StreamSource::for_session(auth.namespace, &session), last_event_id, params).await
}

pub(crate) async fn namespace(
    State(app): State<App>,
    auth: Auth<Read>,
    last_event_id: LastEventId,
    ApiQuery(params): ApiQuery<StreamQuery>,
) -> ApiResult<EventStream> {
    watch(app, StreamSource::for_namespace(auth.namespace), last_event_id, params).await
}

async fn watch(
    app: App,
    source: StreamSource,
    last_event_id: LastEventId,
    params: StreamQuery,
) -> ApiResult<EventStream> {
    // An `EventSource` reconnects to its first URL and sends the last event id in the header.
    let (after, field) = match last_event_id.0.as_deref() {
        Some(id) => (Some(id), "last-event-id"),
        None => (params.after.as_deref(), "after"),
    };
    let start = source.start(app.engine(), after, field).await?;
    Ok(EventStream(sse::open(app, source, start, params.deltas).await))
}
