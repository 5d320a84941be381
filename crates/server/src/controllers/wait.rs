//! Long polling: waits for the end of a run. A new event wakes a call, so a thousand waiting calls cost nothing while nothing
//! happens.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use provost_api::Waited;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RunStatus;
use provost_core::{RunId, TaskId};
use provost_store::query;
use provost_store::table::work::run::RunRow;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::Instant;

use crate::app::App;
use crate::convert;
use crate::error;
use crate::extract::{ApiPath, ApiQuery, Auth, Read};
use crate::live::{Topic, Wants};
use crate::response::ApiResult;

/// How long a wait takes if the query does not say.
const TIMEOUT_DEFAULT_MS: u64 = 30_000;
/// How long a wait takes at most.
const TIMEOUT_MAX_MS: u64 = 600_000;

/// How to wait.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct WaitQuery {
    /// Milliseconds to wait at most: 30 seconds if nothing is said, 10 minutes at most.
    #[schemars(range(max = 600_000))]
    timeout_ms: Option<u64>,
}

/// Whose end is waited for.
#[derive(Debug, Clone, Copy)]
enum WaitTarget {
    /// A run's.
    Run(RunId),
    /// Of the run that answers for a task now.
    Task(TaskId),
}

pub(crate) async fn for_run(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(run): ApiPath<RunId>,
    ApiQuery(asked): ApiQuery<WaitQuery>,
) -> ApiResult<Json<Waited>> {
    wait(&app, &auth.namespace, WaitTarget::Run(run), asked).await
}

pub(crate) async fn for_task(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(task): ApiPath<TaskId>,
    ApiQuery(asked): ApiQuery<WaitQuery>,
) -> ApiResult<Json<Waited>> {
    wait(&app, &auth.namespace, WaitTarget::Task(task), asked).await
}

/// Waits until the run has ended, but not longer than asked. All calls that wait get the same end.
async fn wait(
    app: &App,
    namespace: &Namespace,
    target: WaitTarget,
    asked: WaitQuery,
) -> ApiResult<Json<Waited>> {
    let timeout = match asked.timeout_ms.unwrap_or(TIMEOUT_DEFAULT_MS) {
        ms @ 0..=TIMEOUT_MAX_MS => Duration::from_millis(ms),
        _ => {
            return Err(error::invalid("timeout_ms", "wait 600000 at most, and then again").into());
        }
    };
    let until = Instant::now() + timeout;
    let row = load_run(app, namespace, target).await?;
    if has_ended(&row)? {
        return waited(row, false);
    }
    let topic = match target {
        WaitTarget::Run(run) => Topic::Run(run),
        WaitTarget::Task(task) => Topic::Task(task),
    };
    let seat = app.live().join(app.engine(), topic, Wants::Ends).await;
    loop {
        let row = load_run(app, namespace, target).await?;
        if has_ended(&row)? {
            return waited(row, false);
        }
        if Instant::now() >= until {
            return waited(row, true);
        }
        // Woken or not, the row is read again.
        drop(tokio::time::timeout_at(until, seat.changed()).await);
    }
}

fn waited(row: RunRow, timed_out: bool) -> ApiResult<Json<Waited>> {
    Ok(Json(Waited { timed_out, run: convert::run::view(row)? }))
}

async fn load_run(app: &App, namespace: &Namespace, target: WaitTarget) -> ApiResult<RunRow> {
    let engine = app.engine();
    let run = match target {
        WaitTarget::Run(run) => run,
        WaitTarget::Task(task) => {
            let task = query::task::get(engine.store(), namespace, task).await?;
            let missing = || error::bug(&format!("{} has no run", task.id));
            task.current_run_id.ok_or_else(missing)?
        }
    };
    Ok(query::run::get(engine.store(), namespace, run).await?)
}

fn has_ended(row: &RunRow) -> ApiResult<bool> {
    Ok(convert::word::<RunStatus>(&row.status)?.is_terminal())
}
