//! The server itself: health, version, metrics and documentation.

use axum::Json;
use axum::extract::State;
use provost_api::{HealthCheck, HealthReport, Identity, Problem, Version};
use provost_core::ErrorKind;
use provost_store::SCHEMA_VERSION;
use provost_store::query;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::app::App;
use crate::auth::Principal;
use crate::extract::{ApiQuery, Auth, Authenticated, Public, Read};
use crate::metrics;
use crate::response::{ApiResult, DocsPage, Metrics, OpenApi};

/// Version of the API paths.
const API: &str = "v1";

/// Query of the readiness check.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ReadyQuery {
    /// Includes the result of each check in the response. The values `false` and `0` disable it.
    verbose: Option<VerboseFlag>,
}

/// Boolean query parameter. A parameter without a value is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
enum VerboseFlag {
    #[serde(rename = "")]
    Empty,
    #[serde(rename = "true")]
    True,
    #[serde(rename = "1")]
    One,
    #[serde(rename = "false")]
    False,
    #[serde(rename = "0")]
    Zero,
}

pub(crate) async fn healthz(_: Auth<Public>) -> ApiResult<Json<HealthReport>> {
    Ok(Json(HealthReport { ok: true, checks: Vec::new() }))
}

pub(crate) async fn readyz(
    State(app): State<App>,
    _: Auth<Public>,
    ApiQuery(params): ApiQuery<ReadyQuery>,
) -> ApiResult<Json<HealthReport>> {
    let mut checks = vec![check_database_write(&app).await];
    checks.extend(check_database_read(&app).await);
    let draining = app.shutdown().is_cancelled();
    checks.push(check(
        "serving",
        !draining,
        if draining { "the server is shutting down" } else { "yes" },
    ));
    let failed = checks.iter().filter(|check| !check.ok);
    let names: Vec<&str> = failed.clone().map(|check| check.name.as_str()).collect();
    if !names.is_empty() {
        let detail = format!("not ready: {}", names.join(", "));
        let problem = Problem::new(ErrorKind::Unavailable, "not_ready", detail);
        let add_field =
            |problem: Problem, check: &HealthCheck| problem.field(&check.name, &check.detail);
        return Err(failed.fold(problem, add_field).into());
    }
    let verbose =
        params.verbose.is_some_and(|flag| !matches!(flag, VerboseFlag::False | VerboseFlag::Zero));
    let checks = if verbose { checks } else { Vec::new() };
    Ok(Json(HealthReport { ok: true, checks }))
}

fn check(name: &str, ok: bool, detail: impl Into<String>) -> HealthCheck {
    HealthCheck { name: name.to_owned(), ok, detail: detail.into() }
}

/// Checks that the database is writable: commits a change, which waits only for the commit in progress.
async fn check_database_write(app: &App) -> HealthCheck {
    let limit = std::time::Duration::from_secs(5);
    let write = app.engine().store().probe_write();
    match tokio::time::timeout(limit, write).await {
        Ok(Ok(())) => check("database_writable", true, "yes"),
        Ok(Err(error)) => check("database_writable", false, error.code()),
        Err(_elapsed) => check("database_writable", false, "the writer did not respond in time"),
    }
}

/// Checks that the database is readable and reports its state. A server without a worker is ready, because it accepts work.
async fn check_database_read(app: &App) -> Vec<HealthCheck> {
    match query::metrics::health(app.engine().store()).await {
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
    // The metrics cover all namespaces, so a token for some of them cannot read them.
    if !app.options().open_metrics && !auth.principal.can_access("*") {
        let detail = "the metrics cover all namespaces: use a token for the namespace `*`";
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

pub(crate) async fn identity(auth: Auth<Authenticated>) -> ApiResult<Json<Identity>> {
    let Principal { token, name, scopes, namespaces } = auth.principal.as_ref().clone();
    Ok(Json(Identity { token, name, scopes, namespaces }))
}

pub(crate) async fn version(_: Auth<Authenticated>) -> ApiResult<Json<Version>> {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Ok(Json(Version { version, api: API.to_owned() }))
}
