//! A server at a real port, and callers who may do what no decent client does.

use std::net::SocketAddr;

use provost_api::{NewToken, Scope, TokenCreated};
use provost_server::{App, AppOptions, Limits, serve};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::stage::Stage;

/// A server at a port of this machine.
pub(crate) struct Served {
    pub(crate) stage: Stage,
    pub(crate) app: App,
    pub(crate) address: SocketAddr,
    pub(crate) admin: String,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

/// An answer, whole.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    /// A header, if it is there.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The code of a problem.
    pub(crate) fn code(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        self.json()["code"].as_str().unwrap().to_owned()
    }
}

impl Served {
    /// A server with the usual limits.
    pub(crate) async fn start() -> Self {
        Self::with(Limits::default()).await
    }

    /// A server with these limits.
    pub(crate) async fn with(limits: Limits) -> Self {
        Self::on(Stage::idle(Vec::new()).await, limits).await
    }

    /// A server over this stage.
    pub(crate) async fn on(stage: Stage, limits: Limits) -> Self {
        let app = App::new(stage.engine.clone(), AppOptions { limits, ..AppOptions::default() });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let admin = app.first_token().await.unwrap().unwrap();
        let serving = tokio::spawn(serve(app.clone(), listener, async { drop(stopped.await) }));
        Self { stage, app, address, admin, stop, serving }
    }

    /// A connection.
    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends these bytes over a new connection and reads until its end.
    pub(crate) async fn raw(&self, request: &[u8]) -> Reply {
        let mut stream = self.connect().await;
        stream.write_all(request).await.unwrap();
        reply(&mut stream).await
    }

    /// A call with a token and perhaps a body.
    pub(crate) async fn call(&self, line: &str, token: &str, body: Option<&Value>) -> Reply {
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = format!(
            "{line} HTTP/1.1\r\nhost: here\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.raw(request.as_bytes()).await
    }

    /// A call without a token.
    pub(crate) async fn bare(&self, line: &str, headers: &str) -> Reply {
        let request =
            format!("{line} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n{headers}\r\n");
        self.raw(request.as_bytes()).await
    }

    /// Makes a token.
    pub(crate) async fn token(&self, scopes: &[Scope], namespaces: &[&str]) -> TokenCreated {
        self.token_of("somebody", scopes, namespaces).await
    }

    /// Makes a token for somebody.
    pub(crate) async fn token_of(
        &self,
        name: &str,
        scopes: &[Scope],
        namespaces: &[&str],
    ) -> TokenCreated {
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

    /// Asks the server to stop and waits until it has.
    pub(crate) async fn stop(self) {
        self.begin_stop().await.unwrap();
    }

    /// Asks the server to stop.
    pub(crate) fn begin_stop(self) -> JoinHandle<()> {
        self.stop.send(()).unwrap();
        self.serving
    }
}

/// Reads an answer until the connection ends.
pub(crate) async fn reply(stream: &mut TcpStream) -> Reply {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Reply { status: status.unwrap(), head: head.to_owned(), body: body.to_owned() }
}

/// Reads the head of an answer and leaves the connection open.
pub(crate) async fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}
