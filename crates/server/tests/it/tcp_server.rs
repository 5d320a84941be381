//! A server on a TCP port, and raw requests to it.

use std::net::SocketAddr;

use provost_api::{CreatedToken, NewToken, Scope};
use provost_server::{App, AppOptions, Limits, serve};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::test_app::TestApp;

/// A server on a local TCP port.
pub(crate) struct TcpServer {
    pub(crate) test_app: TestApp,
    pub(crate) app: App,
    pub(crate) address: SocketAddr,
    pub(crate) admin: String,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

/// A complete response.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    /// Returns a header. `None` if it is absent.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// Returns the body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the code of a problem.
    pub(crate) fn code(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        self.json()["code"].as_str().unwrap().to_owned()
    }
}

impl TcpServer {
    /// Starts a server with the default limits.
    pub(crate) async fn start() -> Self {
        Self::with(Limits::default()).await
    }

    /// Starts a server with these limits.
    pub(crate) async fn with(limits: Limits) -> Self {
        Self::on(TestApp::idle(Vec::new()).await, limits).await
    }

    /// Starts a server for an app.
    pub(crate) async fn on(test_app: TestApp, limits: Limits) -> Self {
        let app = App::new(test_app.engine.clone(), AppOptions { limits, ..AppOptions::default() });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let admin = app.bootstrap_admin_token().await.unwrap().unwrap();
        let serving = tokio::spawn(serve(app.clone(), listener, async { drop(stopped.await) }));
        Self { test_app, app, address, admin, stop, serving }
    }

    /// Opens a connection.
    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes over a new connection and reads the response until the connection ends.
    pub(crate) async fn raw(&self, request: &[u8]) -> Reply {
        let mut stream = self.connect().await;
        stream.write_all(request).await.unwrap();
        reply(&mut stream).await
    }

    /// Sends a request with a token and an optional body.
    pub(crate) async fn call(&self, line: &str, token: &str, body: Option<&Value>) -> Reply {
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = format!(
            "{line} HTTP/1.1\r\nhost: here\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.raw(request.as_bytes()).await
    }

    /// Sends a request without a token.
    pub(crate) async fn call_without_token(&self, line: &str, headers: &str) -> Reply {
        let request =
            format!("{line} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n{headers}\r\n");
        self.raw(request.as_bytes()).await
    }

    /// Creates a token.
    pub(crate) async fn token(&self, scopes: &[Scope], namespaces: &[&str]) -> CreatedToken {
        self.token_named("user", scopes, namespaces).await
    }

    /// Creates a token with a name.
    pub(crate) async fn token_named(
        &self,
        name: &str,
        scopes: &[Scope],
        namespaces: &[&str],
    ) -> CreatedToken {
        let new = NewToken {
            name: name.to_owned(),
            scopes: scopes.to_vec(),
            namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
            expires: None,
        };
        let reply = self.call("POST /v1/tokens", &self.admin, Some(&json!(new))).await;
        assert_eq!(reply.status, 201, "{reply:?}");
        serde_json::from_str(&reply.body).unwrap()
    }

    /// Shuts the server down and waits until it has stopped.
    pub(crate) async fn stop(self) {
        self.begin_stop().await.unwrap();
    }

    /// Starts the shutdown of the server.
    pub(crate) fn begin_stop(self) -> JoinHandle<()> {
        self.stop.send(()).unwrap();
        self.serving
    }
}

/// Reads a response until the connection ends.
pub(crate) async fn reply(stream: &mut TcpStream) -> Reply {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Reply { status: status.unwrap(), head: head.to_owned(), body: body.to_owned() }
}

/// Reads the headers of a response and leaves the connection open.
pub(crate) async fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}
