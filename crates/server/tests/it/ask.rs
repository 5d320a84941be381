//! Plain requests to the router, and what it tells.

use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;
use http::{HeaderMap, Request};
use provost_api::Transport;
use provost_server::LocalTransport;
use serde_json::Value;

use crate::stage::Stage;

/// An answer, whole.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// The body; nothing if there is none.
    pub(crate) body: Value,
}

impl Told {
    /// A header, if it is there.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The status and the code of a problem. That it is one is checked.
    pub(crate) fn problem(&self) -> (u16, &str) {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        assert_eq!(self.body["status"], self.status, "{self:?}");
        (self.status, self.body["code"].as_str().unwrap())
    }

    /// The first field that a problem names.
    pub(crate) fn field(&self) -> &str {
        assert_eq!(self.status / 100, 4, "{self:?}");
        self.body["fields"][0]["field"].as_str().unwrap_or("")
    }

    /// The body of a success.
    pub(crate) fn good(self) -> Value {
        assert_eq!(self.status / 100, 2, "{self:?}");
        self.body
    }
}

impl Stage {
    /// Asks without a body; the path is inside the namespace unless it begins with a slash.
    pub(crate) async fn ask(&self, line: &str) -> Told {
        self.ask_with(line, &[]).await
    }

    /// Asks without a body, with headers.
    pub(crate) async fn ask_with(&self, line: &str, headers: &[(&str, &str)]) -> Told {
        let request = headers
            .iter()
            .fold(request(line), |request, (name, value)| request.header(*name, *value));
        self.send(request.body(Bytes::new()).unwrap()).await
    }

    /// Asks with a JSON body.
    pub(crate) async fn tell(&self, line: &str, body: &Value) -> Told {
        self.tell_with(line, body, &[]).await
    }

    /// Asks with a JSON body and headers.
    pub(crate) async fn tell_with(
        &self,
        line: &str,
        body: &Value,
        headers: &[(&str, &str)],
    ) -> Told {
        let mut request = request(line).header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(body.to_string().into()).unwrap()).await
    }

    /// Asks.
    pub(crate) async fn send(&self, request: Request<Bytes>) -> Told {
        let answer = LocalTransport::new(self.app.clone()).send(request).await.unwrap();
        let (head, body) = answer.into_parts();
        let body: BytesMut = body.try_collect().await.unwrap();
        let body = match body.is_empty() {
            true => Value::Null,
            false => serde_json::from_slice(&body)
                .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&body).into_owned())),
        };
        Told { status: head.status.as_u16(), headers: head.headers, body }
    }
}

/// A request of a line such as `GET tasks`.
pub(crate) fn request(line: &str) -> http::request::Builder {
    let (method, path) = line.split_once(' ').unwrap();
    let path = match path.starts_with('/') {
        true => path.to_owned(),
        false => format!("/v1/namespaces/default/{path}"),
    };
    Request::builder().method(method).uri(path)
}
