//! Tokens, scopes and namespaces over HTTP.

use provost_api::Scope;
use provost_core::TokenId;
use provost_store::table::governance::token;
use provost_store::{Store, StoreOptions};
use serde_json::json;

use crate::tcp_server::TcpServer;

const TASKS: &str = "/v1/namespaces/default/tasks";

#[tokio::test]
async fn every_broken_token_meets_the_same_answer() {
    let tcp_server = TcpServer::start().await;
    let good = &tcp_server.admin;
    let other_secret =
        format!("{}{}", &good[..good.len() - 1], if good.ends_with('A') { 'B' } else { 'A' });
    let unknown = format!("prv_{}{}", "0".repeat(26), &good[30..]);
    let long = "x".repeat(10_000);
    let mut bodies = Vec::new();
    for header in [
        String::new(),
        "authorization: \r\n".to_owned(),
        "authorization: Bearer\r\n".to_owned(),
        format!("authorization: Basic {good}\r\n"),
        format!("authorization: Bearer {other_secret}\r\n"),
        format!("authorization: Bearer {unknown}\r\n"),
        format!("authorization: Bearer {long}\r\n"),
        format!("authorization: Bearer {good}x\r\n"),
        format!("authorization: Bearer \u{e9}{good}\r\n"),
        format!("authorization: Bearer {good}\r\nauthorization: Bearer {good}\r\n"),
    ] {
        let reply = tcp_server.call_without_token(&format!("GET {TASKS}"), &header).await;
        assert_eq!((reply.status, reply.code().as_str()), (401, "unauthenticated"), "{header}");
        assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
        bodies.push(reply.json()["detail"].clone());
    }
    assert!(bodies.iter().all(|body| *body == bodies[0]));
    let good = tcp_server
        .call_without_token(&format!("GET {TASKS}"), &format!("authorization: bEaReR {good}\r\n"))
        .await;
    assert_eq!(good.status, 200);
}

#[tokio::test]
async fn a_token_does_what_its_scopes_say_and_sees_its_namespaces_only() {
    let tcp_server = TcpServer::start().await;
    let reader = tcp_server.token(&[Scope::Read], &["default"]).await.secret;
    assert_eq!(tcp_server.call(&format!("GET {TASKS}"), &reader, None).await.status, 200);
    let task = json!({"message": "hi"});
    let refused = tcp_server.call(&format!("POST {TASKS}"), &reader, Some(&task)).await;
    assert_eq!((refused.status, refused.code().as_str()), (403, "scope"));
    // A namespace that is not there, one that is not theirs and one that cannot be look the same.
    for name in ["elsewhere", "no%20name", "%ff", "UPPER"] {
        let refused =
            tcp_server.call(&format!("GET /v1/namespaces/{name}/tasks"), &reader, None).await;
        assert_eq!((refused.status, refused.code().as_str()), (404, "not_found"), "{name}");
    }
    let refused =
        tcp_server.call("POST /v1/namespaces/elsewhere/tasks", &reader, Some(&task)).await;
    assert_eq!(refused.status, 404, "404 comes before 403: nobody learns what is there");
}

#[tokio::test]
async fn a_token_that_is_taken_back_is_worth_nothing_at_once() {
    let tcp_server = TcpServer::start().await;
    let made = tcp_server.token(&[Scope::Read], &["*"]).await;
    assert_eq!(tcp_server.call("GET /v1/whoami", &made.secret, None).await.json()["name"], "user");
    let path = format!("DELETE /v1/tokens/{}", made.token.id);
    assert_eq!(tcp_server.call(&path, &tcp_server.admin, None).await.status, 200);
    assert_eq!(tcp_server.call("GET /v1/whoami", &made.secret, None).await.status, 401);
    let listed = tcp_server.call("GET /v1/tokens", &tcp_server.admin, None).await;
    assert!(!listed.body.contains(&made.secret), "secrets are not shown again");
    let store = std::fs::read(tcp_server.test_app.engine.store().path()).unwrap();
    let secret = made.secret.rsplit_once('_').unwrap().1;
    assert!(!store.windows(secret.len()).any(|bytes| bytes == secret.as_bytes()));
}

#[tokio::test]
async fn a_token_that_another_process_revokes_is_rejected_at_once() {
    let tcp_server = TcpServer::start().await;
    let made = tcp_server.token(&[Scope::Read], &["*"]).await;
    let id: TokenId = made.token.id.parse().unwrap();
    assert_eq!(tcp_server.call("GET /v1/whoami", &made.secret, None).await.status, 200);
    // A connection of its own shares no memory with the server, like another process.
    let path = tcp_server.test_app.engine.store().path();
    let other = Store::open(StoreOptions::for_test(path.parent().unwrap())).unwrap();
    assert_eq!(other.path(), path);
    other.write(move |tx| token::revoke(tx, id)).await.unwrap();
    assert_eq!(tcp_server.call("GET /v1/whoami", &made.secret, None).await.status, 401);
}

#[tokio::test]
async fn nobody_gives_away_more_than_they_have() {
    let tcp_server = TcpServer::start().await;
    let local_admin = tcp_server.token(&[Scope::Admin], &["a"]).await.secret;
    let new = |namespace: &str| json!({"name": "x", "scopes": ["read"], "namespaces": [namespace]});
    let mine = tcp_server.call("POST /v1/tokens", &local_admin, Some(&new("a"))).await;
    assert_eq!(mine.status, 201);
    for namespace in ["*", "b"] {
        let refused = tcp_server.call("POST /v1/tokens", &local_admin, Some(&new(namespace))).await;
        assert_eq!(refused.status, 404, "{namespace}");
    }
    let listed = tcp_server.call("GET /v1/tokens", &local_admin, None).await.json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 2, "not the one that enters everywhere");
    let all = tcp_server.call("GET /v1/tokens", &tcp_server.admin, None).await.json();
    let first = all["items"][0]["id"].as_str().unwrap();
    let refused = tcp_server.call(&format!("DELETE /v1/tokens/{first}"), &local_admin, None).await;
    assert_eq!(refused.status, 404);
    assert_eq!(tcp_server.call("GET /metrics", &local_admin, None).await.status, 403);
}

#[tokio::test]
async fn what_is_wrong_with_a_new_token_is_said() {
    let tcp_server = TcpServer::start().await;
    for (field, new) in [
        ("name", json!({"name": "", "scopes": ["read"], "namespaces": ["a"]})),
        ("name", json!({"name": "x\ny", "scopes": ["read"], "namespaces": ["a"]})),
        ("scopes", json!({"name": "x", "scopes": [], "namespaces": ["a"]})),
        ("scopes[0]", json!({"name": "x", "scopes": ["root"], "namespaces": ["a"]})),
        ("namespaces", json!({"name": "x", "scopes": ["read"], "namespaces": []})),
        ("namespaces", json!({"name": "x", "scopes": ["read"], "namespaces": ["A B"]})),
        (
            "expires",
            json!({"name": "x", "scopes": ["read"], "namespaces": ["a"], "expires": "2001-01-01T00:00:00Z"}),
        ),
    ] {
        let refused = tcp_server.call("POST /v1/tokens", &tcp_server.admin, Some(&new)).await;
        assert_eq!((refused.status, &refused.json()["fields"][0]["field"]), (400, &json!(field)));
    }
}

#[tokio::test]
async fn the_first_token_is_made_once() {
    let tcp_server = TcpServer::start().await;
    assert_eq!(tcp_server.app.bootstrap_admin_token().await.unwrap(), None);
    let who = tcp_server.call("GET /v1/whoami", &tcp_server.admin, None).await.json();
    assert_eq!((&who["scopes"], &who["namespaces"]), (&json!(["admin"]), &json!(["*"])));
    let id = who["token"].as_str().unwrap().parse().unwrap();
    tcp_server.test_app.engine.tokens().revoke(id).await.unwrap();
    assert!(
        tcp_server.app.bootstrap_admin_token().await.unwrap().is_some(),
        "a new admin token is created"
    );
}

#[tokio::test]
async fn use_is_noted_beside_the_request() {
    let tcp_server = TcpServer::start().await;
    let made = tcp_server.token(&[Scope::Read], &["*"]).await;
    let id = made.token.id.parse().unwrap();
    assert_eq!(tcp_server.call("GET /v1/whoami", &made.secret, None).await.status, 200);
    // The use is written after the response, so the test polls for it.
    loop {
        if tcp_server.test_app.engine.tokens().get(id).await.unwrap().last_used.is_some() {
            break;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_is_open_is_open_and_the_same_process_needs_no_token() {
    let tcp_server = TcpServer::start().await;
    for path in ["/healthz", "/readyz", "/openapi.json", "/docs"] {
        assert_eq!(
            tcp_server.call_without_token(&format!("GET {path}"), "").await.status,
            200,
            "{path}"
        );
    }
    for path in ["/metrics", "/v1/whoami", "/v1/version", "/v1/tokens", TASKS] {
        assert_eq!(
            tcp_server.call_without_token(&format!("GET {path}"), "").await.status,
            401,
            "{path}"
        );
    }
    assert_eq!(tcp_server.test_app.client.identity().await.unwrap().name, "local");
    // Nothing that arrives over a connection makes a caller a local one.
    let reply = tcp_server
        .call_without_token(
            "GET /v1/whoami",
            "local: true\r\nx-local: 1\r\nforwarded: for=127.0.0.1\r\n",
        )
        .await;
    assert_eq!(reply.status, 401);
}
