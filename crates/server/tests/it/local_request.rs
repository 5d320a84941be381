//! Requests to the router without a socket.

use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;
use http::{HeaderMap, Request};
use provost_api::Transport;
use provost_server::LocalTransport;
use serde_json::Value;

use crate::test_app::TestApp;

/// A complete response.
#[derive(Debug)]
pub(crate) struct TestResponse {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// The body. Null if it is empty.
    pub(crate) body: Value,
}

impl TestResponse {
    /// Returns a header. `None` if it is absent.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Returns the status and the code of a problem. Panics if the response is not a problem.
    pub(crate) fn problem(&self) -> (u16, &str) {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        assert_eq!(self.body["status"], self.status, "{self:?}");
        (self.status, self.body["code"].as_str().unwrap())
    }

    /// Returns the first invalid field of a problem.
    pub(crate) fn field(&self) -> &str {
        assert_eq!(self.status / 100, 4, "{self:?}");
        self.body["fields"][0]["field"].as_str().unwrap_or("")
    }

    /// Returns the body. Panics if the status is not a success.
    pub(crate) fn success(self) -> Value {
        assert_eq!(self.status / 100, 2, "{self:?}");
        self.body
    }
}

impl TestApp {
    /// Sends a request without a body. A path without a leading slash is relative to the namespace.
    pub(crate) async fn request(&self, line: &str) -> TestResponse {
        self.request_with_headers(line, &[]).await
    }

    /// Sends a request with headers and without a body.
    pub(crate) async fn request_with_headers(
        &self,
        line: &str,
        headers: &[(&str, &str)],
    ) -> TestResponse {
        let request = headers
            .iter()
            .fold(request(line), |request, (name, value)| request.header(*name, *value));
        self.send(request.body(Bytes::new()).unwrap()).await
    }

    /// Sends a request with a JSON body.
    pub(crate) async fn send_json(&self, line: &str, body: &Value) -> TestResponse {
        self.send_json_with_headers(line, body, &[]).await
    }

    /// Sends a request with a JSON body and headers.
    pub(crate) async fn send_json_with_headers(
        &self,
        line: &str,
        body: &Value,
        headers: &[(&str, &str)],
    ) -> TestResponse {
        let mut request = request(line).header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(body.to_string().into()).unwrap()).await
    }

    /// Sends a request.
    pub(crate) async fn send(&self, request: Request<Bytes>) -> TestResponse {
        let response = LocalTransport::new(self.app.clone()).send(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body: BytesMut = body.try_collect().await.unwrap();
        let body = match body.is_empty() {
            true => Value::Null,
            false => serde_json::from_slice(&body)
                .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&body).into_owned())),
        };
        TestResponse { status: head.status.as_u16(), headers: head.headers, body }
    }
}

/// Builds a request from a line such as `GET tasks`.
pub(crate) fn request(line: &str) -> http::request::Builder {
    let (method, path) = line.split_once(' ').unwrap();
    let path = match path.starts_with('/') {
        true => path.to_owned(),
        false => format!("/v1/namespaces/default/{path}"),
    };
    Request::builder().method(method).uri(path)
}
