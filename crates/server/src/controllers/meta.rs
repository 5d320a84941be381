//! How the server is, and what it serves.

use axum::body::Body;
use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode};
use provost_api::{Check, Health, Problem};
use provost_core::ErrorKind;
use provost_engine::EngineError;
use provost_store::SCHEMA_VERSION;
use provost_store::row::census;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Deserialize;
use serde_json::json;

use crate::app::App;
use crate::error::of_engine;
use crate::input::{Cx, Query};
use crate::operation::Operation;
use crate::output::{self, Answer, Output, OutputDoc};
use crate::router::METRICS;
use crate::{docs_page, metrics, openapi};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::new(
            (Method::GET, "/healthz"),
            "getHealth",
            "Whether the process is alive",
            alive,
        )
        .open(),
        Operation::new(
            (Method::GET, "/readyz"),
            "getReadiness",
            "Whether work can be taken in",
            ready,
        )
        .open(),
        Operation::new((Method::GET, "/metrics"), METRICS, "Numbers for Prometheus", numbers),
        Operation::new((Method::GET, "/openapi.json"), "getOpenApi", "This document", document)
            .open(),
        Operation::new((Method::GET, "/docs"), "getDocs", "A page to read and try this", page)
            .open(),
    ]
}

/// What to tell about readiness.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ReadyQuery {
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

async fn alive(_: Cx, (): ()) -> Result<Answer<Health>, Problem> {
    Ok(Answer(Health { ok: true, checks: Vec::new() }))
}

async fn ready(cx: Cx, Query(asked): Query<ReadyQuery>) -> Result<Answer<Health>, Problem> {
    let mut checks = vec![writable(&cx.app).await];
    checks.extend(counted(&cx.app).await);
    let draining = cx.app.is_stopping();
    checks.push(check("serving", !draining, if draining { "the server stops" } else { "yes" }));
    let failed = checks.iter().filter(|check| !check.ok);
    let why: Vec<&str> = failed.clone().map(|check| check.name.as_str()).collect();
    if !why.is_empty() {
        let detail = format!("not ready: {}", why.join(", "));
        let problem = Problem::new(ErrorKind::Unavailable, "not_ready", detail);
        return Err(
            failed.fold(problem, |problem, check| problem.field(&check.name, &check.detail))
        );
    }
    let verbose = asked.verbose.is_some_and(|flag| !matches!(flag, Flag::No | Flag::Zero));
    let checks = if verbose { checks } else { Vec::new() };
    Ok(Answer(Health { ok: true, checks }))
}

fn check(name: &str, ok: bool, detail: impl Into<String>) -> Check {
    Check { name: name.to_owned(), ok, detail: detail.into() }
}

/// An empty job goes through the writer: it waits behind nothing but what is being committed.
async fn writable(app: &App) -> Check {
    let limit = std::time::Duration::from_secs(5);
    let write = app.engine().store().write_urgent(|_| Ok::<_, EngineError>(()));
    match tokio::time::timeout(limit, write).await {
        Ok(Ok(())) => check("database_writable", true, "yes"),
        Ok(Err(error)) => check("database_writable", false, error.code()),
        Err(_elapsed) => check("database_writable", false, "no answer of the writer in time"),
    }
}

/// What is there to see. That no worker is alive is told, but a server without one is ready to take work in.
async fn counted(app: &App) -> Vec<Check> {
    let vital = app.engine().store().read(|tx| Ok::<_, EngineError>(census::vital(tx)?));
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

/// Text of some other kind than JSON.
struct Text {
    text: String,
    kind: &'static str,
    policy: Option<&'static str>,
}

impl Text {
    fn response(self) -> Result<Response, Problem> {
        let mut response = Response::new(Body::from(self.text));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.kind));
        if let Some(policy) = self.policy {
            headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        }
        Ok(response)
    }
}

struct Numbers(String);

impl Output for Numbers {
    fn answer(self) -> Result<Response, Problem> {
        Text { text: self.0, kind: metrics::MEDIA_TYPE, policy: None }.response()
    }

    fn describe(schemas: &mut SchemaGenerator) -> OutputDoc {
        let schema = schemas.subschema_for::<String>().to_value();
        OutputDoc::plain(vec![(200, Some(("text/plain", schema)))])
    }
}

async fn numbers(cx: Cx, (): ()) -> Result<Numbers, Problem> {
    // The numbers tell of all namespaces, so whoever sees only some may not see them.
    let everywhere = cx.app.shared.options.open_metrics || cx.who.enters("*");
    if !everywhere {
        let detail = "the numbers tell of all namespaces: use a token for `*`";
        return Err(Problem::new(ErrorKind::Denied, "scope", detail));
    }
    metrics::render(&cx.app).await.map(Numbers).map_err(of_engine)
}

struct Document;

impl Output for Document {
    fn answer(self) -> Result<Response, Problem> {
        output::json(StatusCode::OK, openapi::served())
    }

    fn describe(_: &mut SchemaGenerator) -> OutputDoc {
        let properties = json!({"openapi": {"type": "string"}, "paths": {"type": "object"}});
        let schema =
            json!({"type": "object", "required": ["openapi", "paths"], "properties": properties});
        OutputDoc::plain(vec![(200, Some(("application/json", schema)))])
    }
}

async fn document(_: Cx, (): ()) -> Result<Document, Problem> {
    Ok(Document)
}

struct Page;

impl Output for Page {
    fn answer(self) -> Result<Response, Problem> {
        let policy = Some(docs_page::POLICY.as_str());
        Text { text: docs_page::PAGE.clone(), kind: "text/html; charset=utf-8", policy }.response()
    }

    fn describe(schemas: &mut SchemaGenerator) -> OutputDoc {
        let schema = schemas.subschema_for::<String>().to_value();
        OutputDoc::plain(vec![(200, Some(("text/html", schema)))])
    }
}

async fn page(_: Cx, (): ()) -> Result<Page, Problem> {
    Ok(Page)
}
