//! A server that wants to know who calls, and what becomes of those that cannot say.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use provost_mcp::{Error, McpPool, McpServer, OAuth};
use serde_json::{Value, json};

use crate::support::say;

/// What the server has seen.
#[derive(Default)]
pub(crate) struct Seen {
    tokens: AtomicUsize,
    revoked: AtomicUsize,
}

/// A server whose tool answers whoever has the newest token.
pub(crate) async fn serve() -> (String, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let metadata = json!({
        "issuer": base,
        "authorization_endpoint": format!("{base}/authorize"),
        "token_endpoint": format!("{base}/token"),
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
    });
    let resource = json!({"resource": format!("{base}/mcp"), "authorization_servers": [base]});
    let app = Router::new()
        .route("/mcp", post(mcp))
        .route("/.well-known/oauth-protected-resource/mcp", get(async || axum::Json(resource)))
        .route("/.well-known/oauth-authorization-server", get(async || axum::Json(metadata)))
        .route("/token", post(token))
        .with_state(Arc::clone(&seen));
    tokio::spawn(async move { axum::serve(listener, app).await });
    (format!("{base}/mcp"), seen)
}

async fn token(State(seen): State<Arc<Seen>>) -> axum::Json<Value> {
    let number = seen.tokens.fetch_add(1, Ordering::SeqCst) + 1;
    axum::Json(json!({
        "access_token": format!("token-{number}"), "token_type": "bearer", "expires_in": 3600,
    }))
}

async fn mcp(State(seen): State<Arc<Seen>>, headers: HeaderMap, body: String) -> Response {
    let sent = headers.get("authorization").and_then(|value| value.to_str().ok());
    let number = sent.and_then(|sent| sent.strip_prefix("Bearer token-")?.parse::<usize>().ok());
    if number.is_none_or(|number| number <= seen.revoked.load(Ordering::SeqCst)) {
        return (StatusCode::UNAUTHORIZED, [("www-authenticate", "Bearer")]).into_response();
    }
    let request: Value = serde_json::from_str(&body).unwrap();
    let result = match request["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "vault", "version": "1"},
        }),
        "tools/list" => json!({"tools": [
            {"name": "peek", "inputSchema": {"type": "object", "properties": {}}},
        ]}),
        "tools/call" => json!({"content": [{"type": "text", "text": "gold"}]}),
        method if method.starts_with("notifications/") => {
            return StatusCode::ACCEPTED.into_response();
        }
        _ => {
            let error = json!({"code": -32601, "message": "no such method"});
            let answer = json!({"jsonrpc": "2.0", "id": request["id"], "error": error});
            return axum::Json(answer).into_response();
        }
    };
    axum::Json(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).into_response()
}

#[tokio::test]
async fn a_program_proves_itself_once_and_again_when_its_token_is_revoked() {
    let (url, seen) = serve().await;
    let pool = McpPool::new();
    let server =
        McpServer::http("vault", url).oauth(OAuth::client_credentials("reports", "its secret"));
    let vault = pool.toolset(server).unwrap();
    for _ in 0..3 {
        assert_eq!(say(&vault, "vault_peek", json!({})).await, "gold");
    }
    assert_eq!(seen.tokens.load(Ordering::SeqCst), 1);
    seen.revoked.store(1, Ordering::SeqCst);
    let (one, other) =
        tokio::join!(say(&vault, "vault_peek", json!({})), say(&vault, "vault_peek", json!({})));
    assert_eq!((one.as_str(), other.as_str()), ("gold", "gold"));
    assert_eq!(seen.tokens.load(Ordering::SeqCst), 2, "two callers fetched one token");
    pool.close().await;
}

#[tokio::test]
async fn a_server_that_refuses_every_token_is_not_asked_for_ever() {
    let (url, seen) = serve().await;
    seen.revoked.store(usize::MAX, Ordering::SeqCst);
    let pool = McpPool::new();
    let server =
        McpServer::http("vault", url).oauth(OAuth::client_credentials("reports", "its secret"));
    let refused = pool.toolset(server).unwrap().connect().await.unwrap_err();
    assert!(refused.to_string().contains("rejects every token"), "{refused}");
    assert!(!refused.to_string().contains("its secret"));
    assert!(seen.tokens.load(Ordering::SeqCst) <= 4);
    pool.close().await;
}

#[tokio::test]
async fn a_secret_goes_to_nobody_but_whom_it_is_for() {
    let (url, seen) = serve().await;
    let pool = McpPool::new();
    let oauth =
        OAuth::client_credentials("reports", "its secret").issuer("https://login.example.com");
    let server = McpServer::http("vault", url).oauth(oauth);
    let refused = pool.toolset(server).unwrap().connect().await.unwrap_err();
    assert!(refused.to_string().contains("not for"), "{refused}");
    assert_eq!(seen.tokens.load(Ordering::SeqCst), 0);
    pool.close().await;
}

#[tokio::test]
async fn a_header_and_oauth_do_not_go_together() {
    let server = McpServer::http("vault", "https://example.com/mcp")
        .header("authorization", "Bearer 1")
        .oauth(OAuth::client_credentials("reports", "its secret"));
    let refused = McpPool::new().toolset(server).unwrap_err();
    assert!(matches!(refused, Error::Definition { .. }), "{refused}");
}
