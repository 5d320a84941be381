//! Streamable HTTP: both generations, sessions, bounds, refusals.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use futures::stream;
use provost_mcp::{Error, McpPool, McpServer};
use provost_tool::ToolError;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::{Caller, find, list, say};

/// A server on a loopback port. What it does is decided by its mode and by which tool is called.
struct Site {
    mode: &'static str,
    seen: Mutex<Vec<(Method, HeaderMap, Value)>>,
}

impl Site {
    async fn start(mode: &'static str) -> (Arc<Self>, McpServer) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let site = Arc::new(Self { mode, seen: Mutex::default() });
        let router = Router::new().route("/mcp", any(handle)).with_state(Arc::clone(&site));
        tokio::spawn(async move { axum::serve(listener, router).await });
        (site, McpServer::http("web", url))
    }

    fn methods(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        seen.iter()
            .map(|(method, _, body)| match body["method"].as_str() {
                Some(name) => name.to_owned(),
                None => method.to_string(),
            })
            .collect()
    }
}

async fn handle(
    State(site): State<Arc<Site>>,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    site.seen.lock().unwrap().push((method.clone(), headers.clone(), body.clone()));
    if site.mode == "locked" {
        let challenge = [("www-authenticate", "Bearer realm=\"vault\"")];
        return (StatusCode::UNAUTHORIZED, challenge).into_response();
    }
    if method == Method::GET {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    if method == Method::DELETE || body.get("id").is_none() {
        return StatusCode::ACCEPTED.into_response();
    }
    let id = &body["id"];
    let answer = |result: Value| json!({ "jsonrpc": "2.0", "id": id, "result": result });
    let about = json!({ "name": "site", "version": "1" });
    let capabilities = json!({ "tools": {} });
    match body["method"].as_str().unwrap() {
        "server/discover" if site.mode == "modern" => json_response(answer(json!({
            "supportedVersions": ["2026-07-28"], "capabilities": capabilities, "serverInfo": about,
            "resultType": "complete", "ttlMs": 0, "cacheScope": "public",
        }))),
        "server/discover" => (StatusCode::BAD_REQUEST, "no session").into_response(),
        "initialize" => {
            let version = &body["params"]["protocolVersion"];
            let mut response = json_response(answer(json!({
                "protocolVersion": version, "capabilities": capabilities, "serverInfo": about,
            })));
            let session =
                format!("s{}", site.methods().iter().filter(|m| *m == "initialize").count());
            response.headers_mut().insert("mcp-session-id", session.parse().unwrap());
            response
        }
        "tools/list" => {
            let tool = |name: &str| json!({ "name": name, "inputSchema": { "type": "object" } });
            let tools =
                ["ok", "stream", "endless", "endless_event", "broken", "cut", "expire", "wrong"];
            let tools = tools.map(tool);
            json_response(answer(json!({
                "tools": tools, "resultType": "complete", "ttlMs": 60_000, "cacheScope": "public",
            })))
        }
        "tools/call" => call(&site, &headers, &body),
        other => panic!("{other}"),
    }
}

fn call(site: &Site, headers: &HeaderMap, body: &Value) -> Response {
    let text = |words: &str| {
        json!({ "jsonrpc": "2.0", "id": body["id"], "result": {
            "content": [{ "type": "text", "text": words }], "resultType": "complete",
        } })
    };
    let endless = |first: &'static str| {
        let chunks = stream::iter(
            std::iter::once(Bytes::from_static(first.as_bytes()))
                .chain(std::iter::repeat_with(|| Bytes::from_static(&[b'z'; 65536]))),
        );
        Body::from_stream(futures::StreamExt::map(chunks, Ok::<_, std::io::Error>))
    };
    let events = [("content-type", "text/event-stream")];
    match body["params"]["name"].as_str().unwrap() {
        "ok" => json_response(text("fine")),
        "stream" => {
            let token = &body["params"]["_meta"]["progressToken"];
            let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress",
                "params": { "progressToken": token, "progress": 1, "message": "half" } });
            let stream = format!("data: {progress}\n\ndata: {}\n\n", text("streamed"));
            (events, stream).into_response()
        }
        "endless" => ([("content-type", "application/json")], endless("{\"x\":\"")).into_response(),
        "endless_event" => (events, endless("data: ")).into_response(),
        "broken" => (StatusCode::INTERNAL_SERVER_ERROR, "oh no").into_response(),
        "cut" => (events, ": nothing comes\n\n").into_response(),
        "wrong" => ([("content-type", "text/html")], "<html>").into_response(),
        "expire" => match headers.get("mcp-session-id").map(|id| id.as_bytes()) {
            Some(b"s1") => StatusCode::NOT_FOUND.into_response(),
            _ => json_response(text(site.mode)),
        },
        other => panic!("{other}"),
    }
}

fn json_response(value: Value) -> Response {
    ([("content-type", "application/json")], value.to_string()).into_response()
}

#[tokio::test]
async fn both_generations_are_spoken_over_http() {
    for (mode, greeting) in [("old", "initialize"), ("modern", "server/discover")] {
        let pool = McpPool::new();
        let (site, server) = Site::start(mode).await;
        let tools = pool.toolset(server).unwrap();
        assert_eq!(say(&tools, "web_ok", json!({})).await, "fine", "{mode}");
        assert!(site.methods().contains(&greeting.to_owned()), "{:?}", site.methods());
        let caller = Caller::default();
        let output = caller.call(&tools, "web_stream", json!({})).await.unwrap();
        assert_eq!(output.to_text(), "streamed");
        assert_eq!(*caller.watcher.0.lock().unwrap(), ["1 half"]);
        pool.close().await;
        let deleted = site.methods().contains(&"DELETE".to_owned());
        assert_eq!(deleted, mode == "old", "a session is ended, and only a session");
    }
}

#[tokio::test]
async fn headers_go_with_every_request() {
    let pool = McpPool::new();
    let (site, server) = Site::start("old").await;
    let tools = pool.toolset(server.header("authorization", "Bearer s3cret")).unwrap();
    assert_eq!(say(&tools, "web_ok", json!({})).await, "fine");
    pool.close().await;
    let seen = site.seen.lock().unwrap();
    assert!(seen.len() >= 5);
    assert!(seen.iter().all(|(_, headers, _)| headers["authorization"] == "Bearer s3cret"));
}

#[tokio::test]
async fn a_server_that_wants_authorization_says_so() {
    let pool = McpPool::new();
    let (_site, server) = Site::start("locked").await;
    let error = pool.toolset(server).unwrap().connect().await.unwrap_err().to_string();
    assert!(error.contains("authorization") && error.contains("vault"), "{error}");
    pool.close().await;
}

#[tokio::test]
async fn an_expired_session_is_made_again() {
    let pool = McpPool::new();
    let (site, server) = Site::start("old").await;
    let tools = pool.toolset(server).unwrap();
    assert_eq!(say(&tools, "web_expire", json!({})).await, "old");
    let greetings = site.methods().into_iter().filter(|method| method == "initialize").count();
    assert_eq!(greetings, 2);
    pool.close().await;
}

#[tokio::test]
async fn bad_answers_are_errors_and_the_connection_goes_on() {
    for mode in ["old", "modern"] {
        let pool = McpPool::new();
        let (_site, server) = Site::start(mode).await;
        let tools = pool.toolset(server.call_timeout(Duration::from_secs(20))).unwrap();
        let offered = list(&tools).await.unwrap();
        for (name, words) in [
            ("web_endless", "33554432 bytes"),
            ("web_endless_event", "not known whether"),
            ("web_broken", "500"),
            ("web_cut", "not known whether"),
            ("web_wrong", "text/html"),
        ] {
            let outcome = Caller::default().call_tool(&find(&offered, name), json!({})).await;
            let Err(ToolError::Failed(text)) = outcome else { panic!("{name}: {outcome:?}") };
            assert!(text.contains(words), "{mode} {name}: {text}");
            let ok = Caller::default().call_tool(&find(&offered, "web_ok"), json!({})).await;
            assert_eq!(ok.unwrap().to_text(), "fine", "after {name}");
        }
        pool.close().await;
    }
}

#[tokio::test]
async fn an_address_where_nobody_is_is_an_error_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    drop(listener);
    let pool = McpPool::new();
    let error = pool.toolset(McpServer::http("web", url)).unwrap().connect().await.unwrap_err();
    assert!(matches!(&error, Error::Connect { .. }), "{error}");
    pool.close().await;
}
