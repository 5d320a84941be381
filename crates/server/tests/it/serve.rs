//! Connections, request ids and shutdown.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use provost_api::NewTask;
use provost_server::Limits;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::tcp_server::{TcpServer, head, reply};

#[tokio::test]
async fn every_answer_has_the_id_of_its_request() {
    let tcp_server = TcpServer::start().await;
    let mine = tcp_server.call_without_token("GET /v1/whoami", "x-request-id: abc-123\r\n").await;
    assert_eq!(mine.header("x-request-id"), Some("abc-123"));
    assert_eq!(mine.json()["request_id"], "abc-123");
    for (line, headers) in [
        ("GET /healthz", String::new()),
        ("GET /nowhere", String::new()),
        ("PUT /healthz", String::new()),
        ("GET /healthz", format!("x-request-id: {}\r\n", "x".repeat(65))),
    ] {
        let reply = tcp_server.call_without_token(line, &headers).await;
        let id = reply.header("x-request-id").unwrap().to_owned();
        assert!(id.starts_with("req_") && id.len() == 20, "{id}");
        if reply.status != 200 {
            assert_eq!(reply.json()["request_id"], id.as_str());
        }
    }
}

#[tokio::test]
async fn answers_keep_browsers_from_guessing() {
    let tcp_server = TcpServer::start().await;
    let reply =
        tcp_server.call_without_token("GET /healthz", "origin: https://evil.example\r\n").await;
    assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    assert_eq!(reply.header("access-control-allow-origin"), None);
    let docs = tcp_server.call_without_token("GET /docs", "").await;
    assert!(docs.header("content-security-policy").unwrap().contains("connect-src 'self'"));
    assert!(docs.header("content-type").unwrap().starts_with("text/html"));
}

/// Returns the text between the first pair of tags.
fn between<'a>(page: &'a str, tag: &str) -> &'a str {
    let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
    let inside = page.split_once(open.as_str()).unwrap().1;
    inside.split_once(close.as_str()).unwrap().0
}

#[tokio::test]
async fn the_page_of_the_api_may_run_what_it_holds_and_loads_nothing_from_elsewhere() {
    let tcp_server = TcpServer::start().await;
    let docs = tcp_server.call_without_token("GET /docs", "").await;
    let (page, policy) = (&docs.body, docs.header("content-security-policy").unwrap());
    for (tag, directive) in [("script", "script-src"), ("style", "style-src")] {
        assert_eq!(page.matches(&format!("<{tag}")).count(), 1, "{tag}");
        let hash = BASE64_STANDARD.encode(Sha256::digest(between(page, tag).as_bytes()));
        assert!(policy.contains(&format!("{directive} 'sha256-{hash}'")), "{tag}: {policy}");
    }
    // What such a policy blocks is not there: handlers and styles in attributes, and what is loaded.
    let markup = page.replace(between(page, "script"), "").replace(between(page, "style"), "");
    for blocked in [" on", " style=", " src=", "<link", "<img", "<iframe", "javascript:"] {
        assert!(!markup.contains(blocked), "{blocked}: {markup}");
    }
    let script = between(page, "script");
    for blocked in ["eval(", "new Function", "import(", "://", "setAttribute(\"style\""] {
        assert!(!script.contains(blocked), "{blocked}");
    }
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
}

#[tokio::test]
async fn other_methods_are_answered_sanely() {
    let tcp_server = TcpServer::start().await;
    let head = tcp_server.call_without_token("HEAD /healthz", "").await;
    assert_eq!(
        (head.status, head.body.as_str(), head.header("content-length")),
        (200, "", Some("11"))
    );
    let path = "/v1/namespaces/default/tasks";
    let options = tcp_server.call_without_token(&format!("OPTIONS {path}"), "").await;
    assert_eq!((options.status, options.header("allow")), (204, Some("POST, GET, HEAD, OPTIONS")));
    for method in ["PUT", "TRACE", "BREW"] {
        let refused = tcp_server.call_without_token(&format!("{method} {path}"), "").await;
        assert_eq!((refused.status, refused.code().as_str()), (405, "method_not_allowed"));
        assert_eq!(refused.header("allow"), Some("POST, GET, HEAD, OPTIONS"));
    }
}

#[tokio::test]
async fn a_server_that_stops_ends_streams_and_waits_and_idle_connections() {
    let tcp_server = TcpServer::start().await;
    let accepted = tcp_server.test_app.client.submit(&NewTask::text("hi")).await.unwrap();
    let run = format!("/v1/namespaces/default/runs/{}", accepted.run);
    let ask = |path: String| {
        format!(
            "GET {path} HTTP/1.1\r\nhost: here\r\nauthorization: Bearer {}\r\n\r\n",
            tcp_server.admin
        )
    };
    let (mut stream, mut wait) = (tcp_server.connect().await, tcp_server.connect().await);
    let mut idle = tcp_server.connect().await;
    stream.write_all(ask(format!("{run}/stream")).as_bytes()).await.unwrap();
    assert!(head(&mut stream).await.contains("text/event-stream"));
    idle.write_all(ask("/healthz".to_owned()).as_bytes()).await.unwrap();
    assert!(head(&mut idle).await.starts_with("HTTP/1.1 200"));
    wait.write_all(ask(format!("{run}/wait?timeout_ms=60000")).as_bytes()).await.unwrap();
    // The wait has begun once the server counts the connection as busy with it; it may also come too late, and hear the same.
    let stopping = tcp_server.begin_stop();
    let mut events = String::new();
    stream.read_to_string(&mut events).await.unwrap();
    assert!(events.ends_with("0\r\n\r\n"), "the end is a clean one: {events}");
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).await.unwrap();
    stopping.await.unwrap();
    let mut answer = String::new();
    wait.read_to_string(&mut answer).await.unwrap();
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 503"), "{answer}");
}

#[tokio::test]
async fn a_request_that_is_under_way_is_finished_and_a_stuck_one_is_dropped() {
    let limits = Limits { drain_timeout: Duration::from_millis(200), ..Limits::default() };
    let tcp_server = TcpServer::with(limits).await;
    let (mut good, mut stuck) = (tcp_server.connect().await, tcp_server.connect().await);
    let body = r#"{"message":"hi"}"#;
    let start = format!(
        "POST /v1/namespaces/default/tasks HTTP/1.1\r\nhost: here\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nexpect: 100-continue\r\n\r\n",
        tcp_server.admin,
        body.len()
    );
    for stream in [&mut good, &mut stuck] {
        stream.write_all(start.as_bytes()).await.unwrap();
        assert!(head(stream).await.starts_with("HTTP/1.1 100"), "the body is being waited for");
    }
    let address = tcp_server.address;
    let stopping = tcp_server.begin_stop();
    good.write_all(body.as_bytes()).await.unwrap();
    assert_eq!(reply(&mut good).await.status, 201);
    stopping.await.unwrap();
    let mut rest = String::new();
    // It is dropped without an answer, or reset.
    stuck.read_to_string(&mut rest).await.unwrap_or_default();
    assert_eq!(rest, "");
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "nobody listens any more");
}
