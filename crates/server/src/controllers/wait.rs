//! Long polling: waits for the end of a run. A new event wakes a waiting request, so idle requests use no processor time.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use provost_api::WaitResult;
use provost_core::id::name::Namespace;
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
use crate::live::{Interest, Topic};
use crate::response::ApiResult;

/// Default timeout.
const TIMEOUT_DEFAULT_MS: u64 = 30_000;
/// Maximum timeout.
const TIMEOUT_MAX_MS: u64 = 600_000;

/// Query of a wait.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct WaitQuery {
    /// Timeout in milliseconds. The default is 30,000; the maximum is 600,000.
    #[schemars(range(max = 600_000))]
    timeout_ms: Option<u64>,
}

/// Run to wait for.
#[derive(Debug, Clone, Copy)]
enum WaitTarget {
    /// This run.
    Run(RunId),
    /// The current run of this task.
    Task(TaskId),
}

pub(crate) async fn for_run(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(run): ApiPath<RunId>,
    ApiQuery(params): ApiQuery<WaitQuery>,
) -> ApiResult<Json<WaitResult>> {
    wait(&app, &auth.namespace, WaitTarget::Run(run), params).await
}

pub(crate) async fn for_task(
    State(app): State<App>,
    auth: Auth<Read>,
    ApiPath(task): ApiPath<TaskId>,
    ApiQuery(params): ApiQuery<WaitQuery>,
) -> ApiResult<Json<WaitResult>> {
    wait(&app, &auth.namespace, WaitTarget::Task(task), params).await
}

/// Waits until the run has ended or the timeout passes, and returns the run. Returns an error if the timeout exceeds
/// the maximum.
async fn wait(
    app: &App,
    namespace: &Namespace,
    target: WaitTarget,
    params: WaitQuery,
) -> ApiResult<Json<WaitResult>> {
    let timeout = match params.timeout_ms.unwrap_or(TIMEOUT_DEFAULT_MS) {
        ms @ 0..=TIMEOUT_MAX_MS => Duration::from_millis(ms),
        _ => {
            return Err(error::invalid(
                "timeout_ms",
                "the maximum is 600000: wait again after a timeout",
            )
            .into());
        }
    };
    let until = Instant::now() + timeout;
    let row = load_run(app, namespace, target).await?;
    if row.status.is_terminal() {
        return wait_result(row, false);
    }
    let topic = match target {
        WaitTarget::Run(run) => Topic::Run(run),
        WaitTarget::Task(task) => Topic::Task(task),
    };
    let subscription = app.live().subscribe(app.engine(), topic, Interest::Completion).await;
    loop {
        let row = load_run(app, namespace, target).await?;
        if row.status.is_terminal() {
            return wait_result(row, false);
        }
        if Instant::now() >= until {
            return wait_result(row, true);
        }
        // The row is read again after a wake-up and after the timeout.
        drop(tokio::time::timeout_at(until, subscription.changed()).await);
    }
}

fn wait_result(row: RunRow, timed_out: bool) -> ApiResult<Json<WaitResult>> {
    Ok(Json(WaitResult { timed_out, run: convert::run::view(row)? }))
}

/// Returns the current run of the target. Returns an error if it does not exist.
async fn load_run(app: &App, namespace: &Namespace, target: WaitTarget) -> ApiResult<RunRow> {
    let engine = app.engine();
    let run = match target {
        WaitTarget::Run(run) => run,
        WaitTarget::Task(task) => {
            let task = query::task::get(engine.store(), namespace, task).await?;
            let missing = || error::internal(&format!("{} has no run", task.id));
            task.current_run_id.ok_or_else(missing)?
        }
    };
    Ok(query::run::get(engine.store(), namespace, run).await?)
}
