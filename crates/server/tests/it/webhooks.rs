//! Webhooks with a receiver that fails, times out and disappears.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, StatusCode};
use provost_api::{NewWebhook, RunEvent, WebhookDelivery};
use provost_core::Env;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::test_database::{Server, TEST_TIMEOUT, TestDatabase};

/// Status of a receiver that does not respond.
const NEVER: u16 = 0;

/// A received delivery.
#[derive(Debug, Clone)]
struct Got {
    headers: HashMap<String, String>,
    body: String,
}

impl Got {
    fn id(&self) -> &str {
        &self.headers["webhook-id"]
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// Receiver with scripted responses.
struct Receiver {
    url: String,
    got: mpsc::UnboundedReceiver<Got>,
    answers: Arc<Mutex<Vec<u16>>>,
}

#[derive(Clone)]
struct Desk {
    got: mpsc::UnboundedSender<Got>,
    answers: Arc<Mutex<Vec<u16>>>,
}

impl Receiver {
    /// Starts a receiver that returns these statuses, last one first, and then 204.
    async fn responding(answers: &[u16]) -> Self {
        let (sender, got) = mpsc::unbounded_channel();
        let answers = Arc::new(Mutex::new(answers.to_vec()));
        let desk = Desk { got: sender, answers: Arc::clone(&answers) };
        let router = Router::new().route("/hook", post(take)).with_state(desk);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, got, answers }
    }

    async fn next(&mut self) -> Got {
        tokio::time::timeout(TEST_TIMEOUT, self.got.recv()).await.expect("a post").unwrap()
    }
}

async fn take(State(desk): State<Desk>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let text = |value: &http::HeaderValue| value.to_str().unwrap().to_owned();
    let headers = headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    desk.got.send(Got { headers, body: String::from_utf8(body.to_vec()).unwrap() }).unwrap();
    let answer = desk.answers.lock().unwrap().pop().unwrap_or(204);
    if answer == NEVER {
        std::future::pending::<()>().await;
    }
    StatusCode::from_u16(answer).unwrap()
}

/// Independent implementation of HMAC-SHA256, so that the test does not use the code of the server.
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut block = [0_u8; 64];
    block[..key.len()].copy_from_slice(key);
    let inner: Vec<u8> =
        block.iter().map(|byte| byte ^ 0x36).chain(message.iter().copied()).collect();
    let inner = Sha256::digest(&inner);
    let outer: Vec<u8> =
        block.iter().map(|byte| byte ^ 0x5c).chain(inner.iter().copied()).collect();
    Sha256::digest(&outer).to_vec()
}

fn is_signed(got: &Got, secret: &str) -> bool {
    let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    let signed = format!("{}.{}.{}", got.id(), got.headers["webhook-timestamp"], got.body);
    let wanted = format!("v1,{}", STANDARD.encode(hmac(&key, signed.as_bytes())));
    got.headers["webhook-signature"] == wanted
}

async fn hook(server: &Server, url: &str, kinds: &[&str]) -> (String, String) {
    let kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
    let made =
        server.client.create_webhook(&NewWebhook { url: url.to_owned(), kinds }).await.unwrap();
    (made.webhook.id, made.secret)
}

async fn posts(server: &Server, hook: &str) -> Vec<WebhookDelivery> {
    server.client.webhook_deliveries(hook, &provost_api::PageQuery::default()).await.unwrap().items
}

/// Waits until all deliveries of a webhook have a state.
async fn settled(server: &Server, hook: &str, state: &str) -> Vec<WebhookDelivery> {
    let waiting = async {
        loop {
            let posts = posts(server, hook).await;
            if !posts.is_empty() && posts.iter().all(|post| post.state == state) {
                return posts;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, waiting).await.expect("posts are settled")
}

#[tokio::test(flavor = "multi_thread")]
async fn g48_an_event_is_posted_signed_and_in_the_standard_format() {
    let database = TestDatabase::new();
    let server = database.open().await;
    let _sender = server.app.send_webhooks().unwrap();
    let mut receiver = Receiver::responding(&[]).await;
    let (id, secret) = hook(&server, &receiver.url, &["finished"]).await;
    let accepted = server.submit_text("chat", "work 1").await;
    let got = receiver.next().await;
    assert!(is_signed(&got, &secret), "{got:?}");
    assert!(!is_signed(&Got { body: format!("{} ", got.body), ..got.clone() }, &secret));
    assert_eq!(got.headers["content-type"], "application/json");
    let body = got.json();
    assert_eq!(body["type"], "finished");
    let event: RunEvent = serde_json::from_value(body["data"].clone()).unwrap();
    assert_eq!((event.run, event.kind.as_str()), (accepted.run, "finished"));
    assert_eq!(body["timestamp"], event.at.to_string());
    let posts = settled(&server, &id, "delivered").await;
    assert_eq!((posts.len(), posts[0].id.as_str(), posts[0].tries), (1, got.id(), 1));
    assert_eq!(posts[0].event, format!("{}:{}", event.run, event.seq));
    // Sent once more, it is the same message.
    server.client.resend_webhook_delivery(&id, got.id()).await.unwrap();
    let again = receiver.next().await;
    assert_eq!((again.id(), &again.body), (got.id(), &got.body));
    // The secret is nowhere in the database, nor in an answer.
    let key = secret.strip_prefix("whsec_").unwrap();
    let shown = serde_json::to_string(&server.client.webhook(&id).await.unwrap()).unwrap();
    assert!(!shown.contains(key));
    for suffix in ["", "-wal"] {
        let bytes =
            std::fs::read(database.file(&format!("provost.db{suffix}"))).unwrap_or_default();
        assert!(!bytes.windows(key.len()).any(|window| window == key.as_bytes()));
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g48_a_receiver_that_fails_is_told_again_with_the_same_id() {
    let database = TestDatabase::new();
    let env = Env::simulated(48);
    let server = database.idle_with(env.clone()).await;
    let _sender = server.app.send_webhooks().unwrap();
    let mut receiver = Receiver::responding(&[302, 500, 503]).await;
    let (id, secret) = hook(&server, &receiver.url, &["accepted"]).await;
    server.submit_text("chat", "hello").await;
    let first = receiver.next().await;
    for status in [503, 500, 302] {
        // The clock is the test's own: it waits for the failure to be stored, and then the time is over.
        let pending = settled(&server, &id, "pending").await;
        assert_eq!(pending[0].last_status, Some(status));
        env.advance(Duration::from_secs(3600 * 2));
        let again = receiver.next().await;
        assert_eq!((again.id(), &again.body), (first.id(), &first.body));
        assert!(is_signed(&again, &secret));
        assert_ne!(again.headers["webhook-timestamp"], first.headers["webhook-timestamp"]);
    }
    let posts = settled(&server, &id, "delivered").await;
    assert_eq!((posts[0].tries, posts[0].last_status), (4, Some(204)));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g48_a_server_that_dies_between_post_and_settlement_posts_again() {
    let database = TestDatabase::new();
    let env = Env::simulated(49);
    let server = database.idle_with(env.clone()).await;
    // The first post is taken in and not answered.
    let mut receiver = Receiver::responding(&[NEVER]).await;
    let (id, secret) = hook(&server, &receiver.url, &[]).await;
    let sender = server.app.send_webhooks().unwrap();
    server.submit_text("chat", "hello").await;
    let first = receiver.next().await;
    assert_eq!(posts(&server, &id).await[0].state, "sending");
    drop(sender);
    server.stop().await;
    let server = database.idle_with(env.clone()).await;
    let _sender = server.app.send_webhooks().unwrap();
    env.advance(Duration::from_secs(46));
    let got = receiver.next().await;
    assert_eq!((got.id(), &got.body), (first.id(), &first.body));
    assert!(is_signed(&got, &secret), "the key outlives the server");
    assert_eq!(settled(&server, &id, "delivered").await[0].tries, 2);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_wants_no_more_is_left_alone() {
    let database = TestDatabase::new();
    let server = database.idle().await;
    let _sender = server.app.send_webhooks().unwrap();
    let mut receiver = Receiver::responding(&[410]).await;
    let (id, _) = hook(&server, &receiver.url, &["accepted"]).await;
    server.submit_text("chat", "hello").await;
    receiver.next().await;
    settled(&server, &id, "failed").await;
    assert!(server.client.webhook(&id).await.unwrap().disabled.is_some());
    server.submit_text("other", "hello").await;
    assert_eq!(posts(&server, &id).await.len(), 1);
    assert!(receiver.answers.lock().unwrap().is_empty());
    server.client.delete_webhook(&id).await.unwrap();
    let gone = server.client.webhook(&id).await.unwrap_err();
    assert_eq!(gone.code(), "not_found");
    server.stop().await;
}

#[tokio::test]
async fn webhooks_that_cannot_be_are_refused() {
    let database = TestDatabase::new();
    let server = database.idle().await;
    for (url, kinds) in
        [("ftp://127.0.0.1/", vec![]), ("http://127.0.0.1/", vec!["No Kind".to_owned()])]
    {
        let refused =
            server.client.create_webhook(&NewWebhook { url: url.to_owned(), kinds }).await;
        assert_eq!(refused.unwrap_err().code(), "invalid", "{url}");
    }
    assert_eq!(server.client.webhook("whk_nonsense").await.unwrap_err().code(), "not_found");
    server.stop().await;
}
