//! The server itself: its health, its version, its numbers and its documentation.

use axum::Json;
use axum::extract::State;
use provost_api::{Check, Health, Problem, Version, Who};
use provost_core::ErrorKind;
use provost_engine::EngineError;
use provost_store::SCHEMA_VERSION;
use provost_store::query;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::app::App;
use crate::auth::Principal;
use crate::extract::{ApiQuery, Auth, Authenticated, Public, Read};
use crate::metrics;
use crate::response::{ApiResult, DocsPage, Metrics, OpenApi};

/// The version of the paths.
const API: &str = "v1";

/// How to report readiness.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ReadyQuery {
    /// If it is there, each check is told of; `false` is as if it was not.
    verbose: Option<Flag>,
}

/// A word in a query: there or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
enum Flag {
    #[serde(rename = "")]
    There,
    #[serde(rename = "true")]
    Yes,
    #[serde(rename = "1")]
    One,
    #[serde(rename = "false")]
    No,
    #[serde(rename = "0")]
    Zero,
}

pub(crate) async fn healthz(_: Auth<Public>) -> ApiResult<Json<Health>> {
    Ok(Json(Health { ok: true, checks: Vec::new() }))
}

pub(crate) async fn readyz(
    State(app): State<App>,
    _: Auth<Public>,
    ApiQuery(asked): ApiQuery<ReadyQuery>,
) -> ApiResult<Json<Health>> {
    let mut checks = vec![check_database_write(&app).await];
    checks.extend(check_database_read(&app).await);
    let draining = app.shutdown().is_cancelled();
    checks.push(check("serving", !draining, if draining { "the server stops" } else { "yes" }));
    let failed = checks.iter().filter(|check| !check.ok);
    let why: Vec<&str> = failed.clone().map(|check| check.name.as_str()).collect();
    if !why.is_empty() {
        let detail = format!("not ready: {}", why.join(", "));
        let problem = Problem::new(ErrorKind::Unavailable, "not_ready", detail);
        let name = |problem: Problem, check: &Check| problem.field(&check.name, &check.detail);
        return Err(failed.fold(problem, name).into());
    }
    let verbose = asked.verbose.is_some_and(|flag| !matches!(flag, Flag::No | Flag::Zero));
    let checks = if verbose { checks } else { Vec::new() };
    Ok(Json(Health { ok: true, checks }))
}

fn check(name: &str, ok: bool, detail: impl Into<String>) -> Check {
    Check { name: name.to_owned(), ok, detail: detail.into() }
}

/// Sends an empty job through the writer, which waits only for the commit in progress.
async fn check_database_write(app: &App) -> Check {
    let limit = std::time::Duration::from_secs(5);
    let write = app.engine().store().write_urgent(|_| Ok::<_, EngineError>(()));
    match tokio::time::timeout(limit, write).await {
        Ok(Ok(())) => check("database_writable", true, "yes"),
        Ok(Err(error)) => check("database_writable", false, error.code()),
        Err(_elapsed) => check("database_writable", false, "no answer of the writer in time"),
    }
}

/// Reads what shows the state of the database. A server without a worker is ready: it accepts work.
async fn check_database_read(app: &App) -> Vec<Check> {
    let vital = app.engine().store().read(|tx| Ok::<_, EngineError>(query::metrics::vital(tx)?));
    match vital.await {
        Ok(vital) => vec![
            check("database_readable", true, "yes"),
            check("migrations", true, format!("the schema has version {SCHEMA_VERSION}")),
            check("log", true, format!("position {}", vital.last_pos)),
            check("workers", true, format!("{} alive", vital.workers)),
        ],
        Err(error) => vec![check("database_readable", false, error.code())],
    }
}

pub(crate) async fn metrics(State(app): State<App>, auth: Auth<Read>) -> ApiResult<Metrics> {
    // The numbers are about all namespaces, so a token for some of them does not read them.
    if !app.options().open_metrics && !auth.principal.enters("*") {
        let detail = "the numbers tell of all namespaces: use a token for `*`";
        return Err(Problem::new(ErrorKind::Denied, "scope", detail).into());
    }
    Ok(Metrics(metrics::render(&app).await?))
}

pub(crate) async fn openapi(_: Auth<Public>) -> ApiResult<OpenApi> {
    Ok(OpenApi)
}

pub(crate) async fn docs(_: Auth<Public>) -> ApiResult<DocsPage> {
    Ok(DocsPage)
}

pub(crate) async fn whoami(auth: Auth<Authenticated>) -> ApiResult<Json<Who>> {
    let Principal { token, name, scopes, namespaces } = auth.principal.as_ref().clone();
    Ok(Json(Who { token, name, scopes, namespaces }))
}

pub(crate) async fn version(_: Auth<Authenticated>) -> ApiResult<Json<Version>> {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Ok(Json(Version { version, api: API.to_owned() }))
}
