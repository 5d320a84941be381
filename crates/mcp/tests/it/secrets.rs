//! What servers are given, and what becomes of servers that tell it.

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures::StreamExt;
use provost_agent::Agent;
use provost_core::{EventKind, Secret};
use provost_mcp::{Error, McpPool, McpServer, OAuth};
use provost_model::{ScriptedModel, text};
use provost_redact::Redactor;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::oauth;
use crate::support::{find, list, say, server};

const SECRET: &str = "swordfish-swordfish-swordfish";

fn knowing() -> (Redactor, McpPool) {
    let redactor = Redactor::new();
    (redactor.clone(), McpPool::new().redactor(redactor))
}

/// True if five bytes of the secret in a row are there.
fn leaks(said: &str) -> bool {
    SECRET.as_bytes().windows(5).any(|part| said.as_bytes().windows(5).any(|it| it == part))
}

/// A program that tells its secret and so much more, and ends.
fn leaky(more: usize) -> McpServer {
    let script = "printf '%s%s' \"$KEY\" \"$MORE\" >&2; exit 1";
    McpServer::stdio("leaky", "/bin/sh")
        .args(["-c", script])
        .env("KEY", SECRET)
        .public_env("MORE", "x".repeat(more))
}

#[tokio::test]
async fn the_last_words_of_a_program_hold_no_part_of_what_it_was_given() {
    let (redactor, pool) = knowing();
    let error = pool.toolset(leaky(0)).unwrap().connect().await.unwrap_err().to_string();
    assert!(error.contains("stderr: [REDACTED]"), "{error}");
    assert!(redactor.contains_secret(SECRET.as_bytes()));
    // Only the end of what it says is kept, which begins in the middle of the secret.
    for more in [1000, 1010, 1018] {
        let error = pool.toolset(leaky(more)).unwrap().connect().await.unwrap_err().to_string();
        assert!(error.contains("xxx") && !leaks(&error), "{error}");
        let plain = McpPool::new().toolset(leaky(more)).unwrap();
        assert!(leaks(&plain.connect().await.unwrap_err().to_string()), "the test can fail");
    }
    pool.close().await;
}

#[tokio::test]
async fn a_warning_about_a_server_holds_no_secret() {
    let (_, pool) = knowing();
    let agent = Agent::builder("clerk", ScriptedModel::new().turn(text("done")))
        .toolset(pool.toolset(leaky(0)).unwrap())
        .build()
        .unwrap();
    let mut run = agent.run("go").stream();
    let mut warnings = Vec::new();
    while let Some(event) = run.next().await {
        if let EventKind::Warning { message } = event.kind {
            warnings.push(message);
        }
    }
    assert!(warnings.iter().any(|text| text.contains("[REDACTED]")), "{warnings:?}");
    assert!(!warnings.iter().any(|text| leaks(text)), "{warnings:?}");
    pool.close().await;
}

#[tokio::test]
async fn a_variable_that_is_no_secret_is_told() {
    let (_, pool) = knowing();
    let server = server("good").public_env("MODE", "production").env("KEY", SECRET);
    let tools = pool.toolset(server).unwrap();
    let environment = say(&tools, "test_environ", json!({})).await;
    assert!(environment.contains("production"), "{environment}");
    pool.close().await;
}

/// A server that tells what it was sent: in the description of its tool, and when it is called.
async fn parrot() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let app = Router::new().route("/mcp", post(repeat));
    tokio::spawn(async move { axum::serve(listener, app).await });
    url
}

async fn repeat(headers: HeaderMap, body: String) -> Response {
    let request: Value = serde_json::from_str(&body).unwrap();
    let sent = headers["authorization"].to_str().unwrap().to_owned();
    let result = match request["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "parrot", "version": "1"},
        }),
        "tools/list" => json!({"tools": [{
            "name": "talk", "description": format!("says {sent}"), "inputSchema": {"type": "object"},
        }]}),
        "tools/call" => {
            let said = format!("{}{sent}", "a".repeat(2000));
            return (StatusCode::INTERNAL_SERVER_ERROR, said).into_response();
        }
        method if method.starts_with("notifications/") => {
            return StatusCode::ACCEPTED.into_response();
        }
        _ => return StatusCode::BAD_REQUEST.into_response(),
    };
    axum::Json(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).into_response()
}

#[tokio::test]
async fn a_server_that_repeats_a_header_is_not_heard() {
    let (_, pool) = knowing();
    let server = McpServer::http("parrot", parrot().await)
        .header("authorization", format!("Bearer {SECRET}"));
    let tools = pool.toolset(server).unwrap();
    let offered = list(&tools).await.unwrap();
    let talk = find(&offered, "parrot_talk");
    assert_eq!(talk.spec().def().description, "says [REDACTED]");
    let caller = crate::support::Caller::default();
    let error = caller.call_tool(&talk, json!({})).await.unwrap_err().to_string();
    assert!(error.contains("aaa") && !leaks(&error), "{error}");
    pool.close().await;
}

#[tokio::test]
async fn tokens_are_known_whenever_they_are_handed_out() {
    let (redactor, pool) = knowing();
    let (url, _) = oauth::serve().await;
    let server =
        McpServer::http("vault", url).oauth(OAuth::client_credentials("reports", "its secret"));
    let vault = pool.toolset(server).unwrap();
    assert_eq!(say(&vault, "vault_peek", json!({})).await, "gold");
    assert!(redactor.contains_secret(b"its secret") && redactor.contains_secret(b"token-1"));
    // So many others come that both are forgotten; the next call makes them known again.
    for number in 0..=provost_redact::SECRETS_MAX {
        redactor.register(&Secret::new(format!("another-secret-{number}"))).unwrap();
    }
    assert!(!redactor.contains_secret(b"token-1"));
    assert_eq!(say(&vault, "vault_peek", json!({})).await, "gold");
    assert!(redactor.contains_secret(b"its secret") && redactor.contains_secret(b"token-1"));
    pool.close().await;
}

/// A server that answers every request with a status.
async fn says(status: u16, headers: [(&'static str, &'static str); 1]) -> McpServer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let answer = move || async move {
        (StatusCode::from_u16(status).unwrap(), headers, "no").into_response()
    };
    let app = Router::new().route("/mcp", post(answer));
    tokio::spawn(async move { axum::serve(listener, app).await });
    McpServer::http("web", url)
}

#[tokio::test]
async fn a_server_that_refuses_us_says_how() {
    let pool = Arc::new(McpPool::new());
    let refused = async |status, headers| {
        let tools = pool.toolset(says(status, headers).await).unwrap();
        tools.connect().await.unwrap_err()
    };
    let nothing = [("x-nothing", "")];
    let error = refused(401, nothing).await;
    assert!(matches!(error, Error::Unauthorized { is_token_refused: false, .. }), "{error}");
    let error = refused(401, [("www-authenticate", "Bearer error=\"invalid_token\"")]).await;
    assert!(matches!(error, Error::Unauthorized { is_token_refused: true, .. }), "{error}");
    let error = refused(403, nothing).await;
    assert!(matches!(error, Error::Forbidden { .. }), "{error}");
    let error = refused(403, [("www-authenticate", "Bearer error=\"insufficient_scope\"")]).await;
    assert!(matches!(error, Error::Forbidden { .. }), "{error}");
    let error = refused(429, [("retry-after", "7")]).await;
    let seven = Some(std::time::Duration::from_secs(7));
    assert!(matches!(error, Error::Busy { wait, .. } if wait == seven), "{error}");
    pool.close().await;
}
