//! Streams of server-sent events.

use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;

use provost_core::{RunId, TaskId};

use crate::app::App;
use crate::extract::{ApiPath, ApiQuery, Auth, LastEventId, Read, SessionKey};
use crate::response::{ApiResult, EventStream};
use crate::sse::{self, Source};

/// How to watch.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StreamQuery {
    /// The cursor of the last event that was seen; the header `Last-Event-ID` says the same and goes first. `end` begins with
    /// what happens from now on. Without it everything that is kept is sent first.
    after: Option<String>,
    /// False leaves the live pieces out.
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
    seen: LastEventId,
    ApiQuery(asked): ApiQuery<StreamQuery>,
) -> ApiResult<EventStream> {
    watch(app, Source::run_of(auth.namespace, run), seen, asked).await
}

pub(crate) async fn task(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(task): ApiPath<TaskId>,
    seen: LastEventId,
    ApiQuery(asked): ApiQuery<StreamQuery>,
) -> ApiResult<EventStream> {
    watch(app, Source::task_of(auth.namespace, task), seen, asked).await
}

pub(crate) async fn session(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(SessionKey(session)): ApiPath<SessionKey>,
    seen: LastEventId,
    ApiQuery(asked): ApiQuery<StreamQuery>,
) -> ApiResult<EventStream> {
    watch(app, Source::session_of(auth.namespace, &session), seen, asked).await
}

pub(crate) async fn namespace(
    State(app): State<App>,
    auth: Auth<Read>,
    seen: LastEventId,
    ApiQuery(asked): ApiQuery<StreamQuery>,
) -> ApiResult<EventStream> {
    watch(app, Source::all_of(auth.namespace), seen, asked).await
}

async fn watch(
    app: App,
    source: Source,
    seen: LastEventId,
    asked: StreamQuery,
) -> ApiResult<EventStream> {
    // An `EventSource` reconnects to the address it had first: what it has seen since is in the header.
    let (after, field) = match seen.0.as_deref() {
        Some(id) => (Some(id), "last-event-id"),
        None => (asked.after.as_deref(), "after"),
    };
    let start = source.start(app.engine(), after, field).await?;
    Ok(EventStream(sse::open(app, source, start, asked.deltas).await))
}
