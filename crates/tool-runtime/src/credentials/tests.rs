//! Credentials, and tokens from a server that is really there.

use std::env::VarError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use provost_core::contract::{ToolContractError, ToolErrorCode};
use provost_core::resource::{AuthProfile, ToolAuth};
use provost_core::{Env, Secret};
use provost_net::{NetClient, NetPolicy};
use provost_redact::{Redactor, SECRETS_MAX};
use provost_secret::{EnvResolver, SecretService};
use provost_tool::CredentialProvider;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::AuthInjector;

const VARIABLES: [(&str, &str); 8] = [
    ("PROVOST_SECRET_KEY", "a-key-of-mine\n"),
    ("PROVOST_SECRET_PAIR", "me:swordfish"),
    ("PROVOST_SECRET_LINES", "swordfish\r\nX-Evil: 1"),
    ("PROVOST_SECRET_OAUTH__CLIENT_ID", "client-7"),
    ("PROVOST_SECRET_OAUTH__CLIENT_SECRET", "s3cr3t/+ &of mine"),
    ("PROVOST_SECRET_HALF__CLIENT_ID", "client-8"),
    ("PROVOST_SECRET__B__OAUTH__CLIENT_ID", "client-7"),
    ("PROVOST_SECRET__B__OAUTH__CLIENT_SECRET", "wrong secret"),
];

struct Fixture {
    injector: AuthInjector,
    redactor: Redactor,
    env: Env,
}

fn fixture() -> Fixture {
    let read = |name: &str| {
        let found = VARIABLES.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned()).ok_or(VarError::NotPresent)
    };
    let (redactor, env) = (Redactor::new(), Env::simulated(1));
    let secrets = SecretService::new(Arc::new(EnvResolver::with_reader(read)), redactor.clone());
    let policy = NetPolicy { allow_loopback: true, plain_http: true, ..NetPolicy::default() };
    let injector = AuthInjector::new(secrets, NetClient::new(policy), env.clone());
    Fixture { injector, redactor, env }
}

fn auth(profile: AuthProfile, secret_ref: &str) -> ToolAuth {
    ToolAuth { profile, secret_ref: secret_ref.to_owned(), ..ToolAuth::default() }
}

fn oauth(server: &Server, scopes: &[&str]) -> ToolAuth {
    ToolAuth {
        token_url: format!("http://127.0.0.1:{}/token", server.port),
        scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
        ..auth(AuthProfile::Oauth2ClientCredentials, "oauth")
    }
}

impl Fixture {
    async fn header(&self, auth: &ToolAuth) -> Result<(String, String), ToolContractError> {
        self.header_in("default", auth).await
    }

    async fn header_in(
        &self,
        namespace: &str,
        auth: &ToolAuth,
    ) -> Result<(String, String), ToolContractError> {
        let found = self.injector.credentials(namespace, auth).await?;
        assert_eq!(found.headers.len(), 1);
        let (name, value) = &found.headers[0];
        assert!(
            self.redactor.contains_secret(value.expose().as_bytes()),
            "it is known before it is handed out"
        );
        Ok((name.clone(), value.expose().clone()))
    }
}

/// A token server: what it answers by turn (the last one again and again), and what it was asked.
struct Server {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
    count: Arc<AtomicUsize>,
}

impl Server {
    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

async fn server(answers: Vec<(u16, &'static str)>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (asked, count) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<AtomicUsize>::default());
    let (seen, counted) = (asked.clone(), count.clone());
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let (seen, counted, answers) = (seen.clone(), counted.clone(), answers.clone());
            tokio::spawn(async move {
                let mut text = String::new();
                let mut bytes = [0; 4096];
                while !is_whole(&text) {
                    let len = socket.read(&mut bytes).await.unwrap();
                    if len == 0 {
                        return;
                    }
                    text.push_str(std::str::from_utf8(&bytes[..len]).unwrap());
                }
                let number = counted.fetch_add(1, Ordering::SeqCst);
                seen.lock().unwrap().push(text);
                let (status, body) = answers[number.min(answers.len() - 1)];
                let body = body.replace("NUMBER", &number.to_string());
                let answer = format!(
                    "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                );
                socket.write_all(answer.as_bytes()).await.unwrap();
            });
        }
    });
    Server { port, asked, count }
}

fn is_whole(text: &str) -> bool {
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| {
        line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned)
    });
    length.is_none_or(|length| body.len() >= length.parse().unwrap())
}

const TOKEN: (u16, &str) =
    (200, r#"{"access_token":"token-number-NUMBER","token_type":"Bearer","expires_in":60}"#);

#[tokio::test]
async fn plain_profiles_make_their_header() {
    let it = fixture();
    let header = it.header(&auth(AuthProfile::Bearer, "key")).await.unwrap();
    assert_eq!(header, ("authorization".into(), "Bearer a-key-of-mine".into()));
    let named =
        ToolAuth { header_name: "X-Api-Key".into(), ..auth(AuthProfile::ApiKeyHeader, "key") };
    assert_eq!(it.header(&named).await.unwrap(), ("x-api-key".into(), "a-key-of-mine".into()));
    let header = it.header(&auth(AuthProfile::Basic, "pair")).await.unwrap();
    assert_eq!(header.1, format!("Basic {}", BASE64_STANDARD.encode("me:swordfish")));
    assert!(it.redactor.contains_secret(b"swordfish"), "the password alone is known, too");
    assert!(!it.injector.invalidate("default", &auth(AuthProfile::Bearer, "key")).await);
}

#[tokio::test]
async fn what_cannot_be_a_header_is_refused_without_telling_it() {
    let it = fixture();
    let host = ToolAuth { header_name: "Host".into(), ..auth(AuthProfile::ApiKeyHeader, "key") };
    let split = ToolAuth { header_name: "x\r\ny".into(), ..auth(AuthProfile::ApiKeyHeader, "key") };
    for auth in [
        auth(AuthProfile::Bearer, "lines"),
        auth(AuthProfile::Basic, "key"),
        auth(AuthProfile::Bearer, "none"),
        host,
        split,
        auth(AuthProfile::Bearer, "b/oauth:client_secret"),
        auth(AuthProfile::Bearer, "../x"),
        ToolAuth {
            token_url: "http://127.0.0.1:1/".into(),
            ..auth(AuthProfile::Oauth2ClientCredentials, "half")
        },
        ToolAuth {
            token_url: "no address".into(),
            ..auth(AuthProfile::Oauth2ClientCredentials, "oauth")
        },
    ] {
        let fault = it.header(&auth).await.unwrap_err();
        assert_eq!(fault.code, ToolErrorCode::SecretResolutionFailed, "{fault}");
        assert!(
            !fault.to_string().contains("swordfish") && !fault.to_string().contains("a-key"),
            "{fault}"
        );
    }
}

#[tokio::test]
async fn a_token_is_fetched_once_and_again_before_it_ends() {
    let (it, server) = (fixture(), server(vec![TOKEN]).await);
    let auth = oauth(&server, &["b", "a"]);
    for _ in 0..3 {
        assert_eq!(it.header(&auth).await.unwrap().1, "Bearer token-number-0");
    }
    let asked = server.asked();
    assert_eq!(asked.len(), 1);
    let request = asked[0].to_ascii_lowercase();
    assert!(request.starts_with("post /token "));
    assert!(request.contains("content-type: application/x-www-form-urlencoded"));
    assert!(asked[0].ends_with("grant_type=client_credentials&scope=a+b"), "{}", asked[0]);
    let pair = BASE64_STANDARD.encode("client-7:s3cr3t%2F%2B+%26of+mine");
    assert!(asked[0].contains(&format!("Basic {pair}")));
    // 60 seconds less 30.
    it.env.advance(Duration::from_secs(29));
    it.header(&auth).await.unwrap();
    assert_eq!(server.count.load(Ordering::SeqCst), 1);
    it.env.advance(Duration::from_secs(2));
    assert_eq!(it.header(&auth).await.unwrap().1, "Bearer token-number-1");
    // Scopes in another order are the same, other scopes are not.
    it.header(&oauth(&server, &["a", "b"])).await.unwrap();
    assert_eq!(server.count.load(Ordering::SeqCst), 2);
    assert_eq!(it.header(&oauth(&server, &["a"])).await.unwrap().1, "Bearer token-number-2");
}

#[tokio::test]
async fn a_token_that_is_kept_is_known_whenever_it_is_handed_out() {
    let (it, server) = (fixture(), server(vec![TOKEN]).await);
    let auth = oauth(&server, &[]);
    it.header(&auth).await.unwrap();
    for number in 0..=SECRETS_MAX {
        it.redactor.register(&Secret::new(format!("another-secret-{number}"))).unwrap();
    }
    assert!(
        !it.redactor.contains_secret(b"token-number-0"),
        "so many others came that it was forgotten"
    );
    it.header(&auth).await.unwrap();
    assert_eq!(server.count.load(Ordering::SeqCst), 1, "it was kept");
    assert!(it.redactor.contains_secret(b"token-number-0"));
}

#[tokio::test]
async fn sixty_four_callers_fetch_one_token_and_throw_it_away_once() {
    let (it, server) = (fixture(), server(vec![TOKEN]).await);
    let auth = oauth(&server, &[]);
    let all = futures::future::join_all((0..64).map(|_| it.header(&auth))).await;
    assert!(all.into_iter().all(|header| header.unwrap().1 == "Bearer token-number-0"));
    assert_eq!(server.count.load(Ordering::SeqCst), 1);
    // All of them are told that it is not valid; each throws it away and asks again.
    let again = (0..64).map(|_| async {
        assert!(it.injector.invalidate("default", &auth).await);
        it.header(&auth).await.unwrap().1
    });
    let all = futures::future::join_all(again).await;
    assert!(all.into_iter().all(|header| header == "Bearer token-number-1"));
    assert_eq!(server.count.load(Ordering::SeqCst), 2);
    // Later the next one can be thrown away as well.
    it.env.advance(Duration::from_secs(11));
    assert!(it.injector.invalidate("default", &auth).await);
    assert!(!it.injector.invalidate("other", &auth).await, "it has no such secret");
    assert_eq!(it.header(&auth).await.unwrap().1, "Bearer token-number-2");
}

#[tokio::test]
async fn a_server_that_wants_the_body_gets_the_body() {
    let refusal = (401, r#"{"error":"invalid_client"}"#);
    let (it, server) = (fixture(), server(vec![refusal, TOKEN]).await);
    assert_eq!(it.header(&oauth(&server, &[])).await.unwrap().1, "Bearer token-number-1");
    let asked = server.asked();
    assert!(asked[1].ends_with("&client_id=client-7&client_secret=s3cr3t%2F%2B+%26of+mine"));
    assert!(!asked[1].to_ascii_lowercase().contains("authorization:"));
}

#[tokio::test]
async fn who_has_another_secret_gets_no_token_of_others() {
    let refusal = (401, r#"{"error":"invalid_client"}"#);
    let (it, server) = (fixture(), server(vec![TOKEN, refusal]).await);
    let auth = oauth(&server, &[]);
    it.header(&auth).await.unwrap();
    let fault = it.header_in("b", &auth).await.unwrap_err();
    assert_eq!(fault.code, ToolErrorCode::SecretResolutionFailed);
    assert_eq!(it.header(&auth).await.unwrap().1, "Bearer token-number-0");
}

#[tokio::test]
async fn bad_answers_fail_for_all_who_wait_and_are_not_kept() {
    for (answer, retryable) in [
        ((500, "oops"), true),
        ((429, "{}"), true),
        ((403, r#"{"error":"access_denied"}"#), false),
        ((200, "s3cr3t/+ &of mine is not JSON"), false),
        ((200, "{}"), false),
        ((200, r#"{"access_token":""}"#), false),
        ((200, r#"{"access_token":"ab"}"#), false),
        ((200, r#"{"access_token":"abcdefgh","token_type":"mac"}"#), false),
        ((200, r#"{"access_token":"abcdefgh","expires_in":"soon"}"#), false),
        ((302, ""), false),
    ] {
        let (it, server) = (fixture(), server(vec![answer, TOKEN]).await);
        let auth = oauth(&server, &[]);
        let all = futures::future::join_all((0..8).map(|_| it.header(&auth))).await;
        for fault in all.into_iter().map(Result::unwrap_err) {
            assert_eq!(
                (fault.code, fault.retryable),
                (ToolErrorCode::SecretResolutionFailed, retryable),
                "{fault}"
            );
            assert!(!fault.to_string().contains("s3cr3t"), "{fault}");
        }
        assert_eq!(server.count.load(Ordering::SeqCst), 1, "{answer:?}");
        assert_eq!(it.header(&auth).await.unwrap().1, "Bearer token-number-1");
    }
}

#[tokio::test]
async fn a_caller_who_goes_away_leaves_the_fetch_to_the_others() {
    let (it, server) = (fixture(), server(vec![TOKEN]).await);
    let auth = oauth(&server, &[]);
    {
        let mut gone = std::pin::pin!(it.header(&auth));
        assert!(futures::poll!(gone.as_mut()).is_pending());
    }
    let (one, two) = futures::join!(it.header(&auth), it.header(&auth));
    assert_eq!(one.unwrap(), two.unwrap());
}

#[tokio::test]
async fn expiry_has_a_floor_and_a_default() {
    for (answer, seconds) in [
        ((200, r#"{"access_token":"token-number-NUMBER","expires_in":10}"#), 1),
        ((200, r#"{"access_token":"token-number-NUMBER","expires_in":"40"}"#), 10),
        ((200, r#"{"access_token":"token-number-NUMBER"}"#), 3570),
    ] {
        let (it, server) = (fixture(), server(vec![answer]).await);
        let auth = oauth(&server, &[]);
        it.header(&auth).await.unwrap();
        it.env.advance(Duration::from_millis(seconds * 1000 - 1));
        it.header(&auth).await.unwrap();
        assert_eq!(server.count.load(Ordering::SeqCst), 1, "{answer:?}");
        it.env.advance(Duration::from_millis(1));
        it.header(&auth).await.unwrap();
        assert_eq!(server.count.load(Ordering::SeqCst), 2, "{answer:?}");
    }
}
