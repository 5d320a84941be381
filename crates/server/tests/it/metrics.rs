//! Health and metrics.

use std::collections::BTreeSet;
use std::time::Duration;

use provost_agent::Agent;
use provost_api::NewTask;
use provost_core::Env;
use provost_engine::{AgentRevision, Engine, EngineDeps, EngineError, EngineOptions, Lease};
use provost_server::{App, AppOptions};
use provost_store::{Store, StoreOptions};
use provost_tool::GuardServices;
use serde_json::json;

use crate::tcp_server::TcpServer;
use crate::test_app::TestApp;

fn value(text: &str, sample: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(sample)?.trim().parse().ok())
}

#[tokio::test]
async fn numbers_tell_of_requests_and_of_what_waits() {
    let tcp_server = TcpServer::start().await;
    let first = tcp_server.call("GET /metrics", &tcp_server.admin, None).await;
    assert_eq!(first.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert_eq!(value(&first.body, "provost_log_position"), Some(0.0));
    tcp_server.test_app.client.submit(&NewTask::text("hi")).await.unwrap();
    assert_eq!(tcp_server.call_without_token("GET /v1/whoami", "").await.status, 401);
    // What was seen is told again for a second; a new server has not seen anything.
    let text = numbers(&tcp_server.test_app.engine).await;
    assert_eq!(value(&text, "provost_log_position"), Some(1.0));
    let queued =
        text.lines().find(|line| line.starts_with("provost_queue_runs{namespace=\"default\""));
    assert!(queued.is_some_and(|line| line.ends_with(" 1")), "{text}");
    let text = tcp_server.call("GET /metrics", &tcp_server.admin, None).await.body;
    let refused = "provost_http_requests_total{operation=\"getIdentity\",status=\"401\"}";
    assert_eq!(value(&text, refused), Some(1.0));
    let bucket =
        "provost_http_request_duration_seconds_bucket{operation=\"getIdentity\",le=\"+Inf\"}";
    assert_eq!(value(&text, bucket), Some(1.0));
}

#[tokio::test]
async fn numbers_tell_how_long_runs_wait_and_how_soon_models_answer() {
    let test_app = TestApp::with_turns(vec![provost_model::text("hello")]).await;
    let before = test_app.client.metrics().await.unwrap();
    assert_eq!(value(&before, "provost_claim_latency_seconds_count"), Some(0.0));
    assert_eq!(value(&before, "provost_fenced_writes_total"), Some(0.0));
    let run = test_app.client.submit(&NewTask::text("hi")).await.unwrap().run;
    test_app.ended(run).await;
    test_app.worker.unwrap().stop(Duration::from_secs(5)).await;
    let text = test_app.client.metrics().await.unwrap();
    assert_eq!(value(&text, "provost_claim_latency_seconds_count"), Some(1.0), "{text}");
    assert_eq!(value(&text, "provost_claim_latency_seconds_bucket{le=\"+Inf\"}"), Some(1.0));
    assert_eq!(value(&text, "provost_first_token_seconds_count"), Some(1.0), "{text}");
}

#[tokio::test]
async fn a_run_is_counted_by_the_process_that_executes_it_only() {
    let test_app = TestApp::with_turns(vec![provost_model::text("hello")]).await;
    // An engine with a store of its own counts like another process.
    let path = test_app.engine.store().path().parent().unwrap().to_owned();
    let store = Store::open(StoreOptions::for_test(&path)).unwrap();
    let agents = |_: &AgentRevision, _: &Lease| -> Result<Agent, EngineError> { unreachable!() };
    let deps = EngineDeps::new(store, agents, GuardServices::default(), Env::system());
    let other = Engine::new(deps, EngineOptions::default());
    let run = test_app.client.submit(&NewTask::text("hi")).await.unwrap().run;
    test_app.ended(run).await;
    let (here, there) = (numbers(&test_app.engine).await, numbers(&other).await);
    let runs = "provost_agent_runs_total{agent=\"default\"}";
    let started = "provost_log_events_total{kind=\"attempt_started\"}";
    assert_eq!((value(&here, runs), value(&there, runs)), (Some(1.0), None), "{here}");
    assert_eq!((value(&here, started), value(&there, started)), (Some(1.0), None));
    for claims in ["provost_claims_total", "provost_claim_latency_seconds_count"] {
        assert_eq!((value(&here, claims), value(&there, claims)), (Some(1.0), Some(0.0)));
    }
    let position = "provost_log_position";
    assert_eq!(value(&here, position), value(&there, position), "a gauge of the database");
}

async fn numbers(engine: &Engine) -> String {
    use tower::ServiceExt;
    let options = AppOptions { open_metrics: true, ..AppOptions::default() };
    let app = App::new(engine.clone(), options);
    let request = http::Request::get("/metrics").body(axum::body::Body::empty()).unwrap();
    let response = provost_server::router(app).oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200, "with open metrics nobody needs a token");
    let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    String::from_utf8(body.to_vec()).unwrap()
}

#[tokio::test]
async fn every_family_has_help_a_type_and_a_good_name() {
    let tcp_server = TcpServer::start().await;
    tcp_server.test_app.client.submit(&NewTask::text("hi")).await.unwrap();
    let text = tcp_server.call("GET /metrics", &tcp_server.admin, None).await.body;
    let mut descendants = ("", "");
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            descendants = rest.split_once(' ').unwrap();
            assert_eq!(descendants.1 == "counter", descendants.0.ends_with("_total"), "{line}");
            assert!(text.contains(&format!("# HELP {} ", descendants.0)), "{line}");
        } else if !line.starts_with('#') {
            assert!(line.starts_with(descendants.0), "{line} is not of {descendants:?}");
        }
    }
}

#[tokio::test]
async fn readiness_tells_what_was_looked_at() {
    let tcp_server = TcpServer::start().await;
    let short = tcp_server.call_without_token("GET /readyz", "").await;
    assert_eq!((short.status, short.json()), (200, json!({"ok": true})));
    let long = tcp_server.call_without_token("GET /readyz?verbose", "").await.json();
    let names: Vec<&str> = long["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|check| check["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["database_writable", "database_readable", "migrations", "log", "workers", "serving"]
    );
    assert_eq!(long["checks"][4]["detail"], "0 alive");
    assert_eq!(tcp_server.call_without_token("GET /readyz?verbose=maybe", "").await.status, 400);
    let worker = tcp_server.test_app.engine.start().await.unwrap();
    let long = tcp_server.call_without_token("GET /readyz?verbose=true", "").await.json();
    assert_eq!(long["checks"][4]["detail"], "1 alive");
    worker.stop(std::time::Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_server_without_its_database_is_alive_but_not_ready() {
    let tcp_server = TcpServer::start().await;
    tcp_server.test_app.engine.store().close().await;
    assert_eq!(tcp_server.call_without_token("GET /healthz", "").await.status, 200);
    let reply = tcp_server.call_without_token("GET /readyz", "").await;
    assert_eq!((reply.status, reply.code().as_str()), (503, "not_ready"));
    assert_eq!(reply.json()["fields"][0]["field"], "database_writable");
    let call = tcp_server.call("GET /v1/namespaces/default/tasks", &tcp_server.admin, None).await;
    assert_eq!(call.status, 503, "{call:?}");
}

#[test]
fn the_page_about_metrics_lists_every_family() {
    let names = |text: &'static str, mark: char| -> BTreeSet<&'static str> {
        text.split(mark).filter(|part| is_family(part)).collect()
    };
    let sources =
        [include_str!("../../src/metrics.rs"), include_str!("../../src/metrics/snapshot.rs")];
    let families: BTreeSet<&str> = sources.iter().flat_map(|source| names(source, '"')).collect();
    let page = include_str!("../../../../docs/reference/metrics.md");
    let (_, table) = page.split_once("| metric | type | labels | meaning |").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    assert_eq!(names(table, '`'), families, "docs/reference/metrics.md");
}

fn is_family(part: &str) -> bool {
    part.starts_with("provost_") && part.chars().all(|c| c.is_ascii_lowercase() || c == '_')
}
