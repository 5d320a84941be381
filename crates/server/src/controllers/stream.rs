//! Watching and waiting.

use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::Method;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use provost_api::{Problem, Waited};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Deserialize;
use serde_json::json;

use super::within;
use crate::input::{Cx, Query};
use crate::operation::Operation;
use crate::output::{Answer, Output, OutputDoc};
use crate::sse::{self, Source, Whom};
use crate::{convert, error};

/// How long a wait takes if nothing is said.
const WAIT_DEFAULT_MS: u64 = 30_000;
/// How long a wait takes at most.
const WAIT_MAX_MS: u64 = 600_000;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            (Method::GET, within!("runs/{run}/stream")),
            "streamRun",
            "What happens in a run, until it ends",
            run,
        )
        .endless(),
        Operation::new(
            (Method::GET, within!("tasks/{task}/stream")),
            "streamTask",
            "What happens in all runs of a task",
            task,
        )
        .endless(),
        Operation::new(
            (Method::GET, within!("sessions/{session}/stream")),
            "streamSession",
            "What happens in all runs of a session",
            session,
        )
        .endless(),
        Operation::new(
            (Method::GET, within!("stream")),
            "streamNamespace",
            "What happens in the whole namespace",
            namespace,
        )
        .endless(),
        Operation::new(
            (Method::GET, within!("runs/{run}/wait")),
            "waitForRun",
            "Wait until a run has ended, for a while",
            wait_for_run,
        )
        .endless(),
        Operation::new(
            (Method::GET, within!("tasks/{task}/wait")),
            "waitForTask",
            "Wait until the run that answers for a task has ended, for a while",
            wait_for_task,
        )
        .endless(),
    ]
}

/// How to watch.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Watching {
    /// The cursor of the last event that was seen; the header `Last-Event-ID` says the same and goes first. `end` begins with
    /// what happens from now on. Without it everything that is kept is sent first.
    after: Option<String>,
    /// False leaves the live pieces out.
    deltas: bool,
}

impl Default for Watching {
    fn default() -> Self {
        Self { after: None, deltas: true }
    }
}

/// How to wait.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Waiting {
    /// Milliseconds to wait at most: 30 seconds if nothing is said, 10 minutes at most.
    #[schemars(range(max = 600_000))]
    timeout_ms: Option<u64>,
}

/// A stream of server-sent events.
struct Events(Body);

impl Output for Events {
    fn answer(self) -> Result<Response, Problem> {
        let mut response = Response::new(self.0);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        // Proxies that gather answers would hold events back.
        let unbuffered = HeaderName::from_static("x-accel-buffering");
        headers.insert(unbuffered, HeaderValue::from_static("no"));
        Ok(response)
    }

    fn describe(_: &mut SchemaGenerator) -> OutputDoc {
        let schema = json!({
            "type": "string",
            "description": "Server-sent events. A durable event has its cursor as `id`, its kind as `event` and a `RunEvent` \
                as `data`. Without an id come `delta` (a `Delta`), `reset`, `lagged` and `end`.",
        });
        OutputDoc::plain(vec![(200, Some(("text/event-stream", schema)))])
    }
}

async fn run(cx: Cx, Query(asked): Query<Watching>) -> Result<Events, Problem> {
    let source = Source::run_of(cx.namespace.clone(), cx.id("run")?);
    watch(cx, source, asked).await
}

async fn task(cx: Cx, Query(asked): Query<Watching>) -> Result<Events, Problem> {
    let source = Source::task_of(cx.namespace.clone(), cx.id("task")?);
    watch(cx, source, asked).await
}

async fn session(cx: Cx, Query(asked): Query<Watching>) -> Result<Events, Problem> {
    let source = Source::session_of(cx.namespace.clone(), cx.parameter("session"));
    watch(cx, source, asked).await
}

async fn namespace(cx: Cx, Query(asked): Query<Watching>) -> Result<Events, Problem> {
    let source = Source::all_of(cx.namespace.clone());
    watch(cx, source, asked).await
}

async fn watch(cx: Cx, source: Source, asked: Watching) -> Result<Events, Problem> {
    // An `EventSource` comes back with the address it had first: what it has seen since is in the header.
    let (after, field) = match cx.header("last-event-id")?.filter(|id| !id.is_empty()) {
        Some(id) => (Some(id), "last-event-id"),
        None => (asked.after.as_deref(), "after"),
    };
    let start = source.start(cx.app.engine(), after, field).await?;
    Ok(Events(sse::open(cx.app, source, start, asked.deltas).await))
}

async fn wait_for_run(cx: Cx, Query(asked): Query<Waiting>) -> Result<Answer<Waited>, Problem> {
    let whom = Whom::Run(cx.id("run")?);
    wait(cx, whom, asked).await
}

async fn wait_for_task(cx: Cx, Query(asked): Query<Waiting>) -> Result<Answer<Waited>, Problem> {
    let whom = Whom::Task(cx.id("task")?);
    wait(cx, whom, asked).await
}

async fn wait(cx: Cx, whom: Whom, asked: Waiting) -> Result<Answer<Waited>, Problem> {
    let patience = match asked.timeout_ms.unwrap_or(WAIT_DEFAULT_MS) {
        ms @ 0..=WAIT_MAX_MS => Duration::from_millis(ms),
        _ => return Err(error::invalid("timeout_ms", "wait 600000 at most, and then again")),
    };
    let brought = sse::wait(&cx.app, &cx.namespace, whom, patience).await?;
    Ok(Answer(Waited { timed_out: brought.timed_out, run: convert::run(brought.row)? }))
}
