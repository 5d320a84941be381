//! Minimal client of the effect server.

use std::io;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Client of the server that performs and counts effects.
#[derive(Debug, Clone)]
pub(crate) struct EffectServerClient {
    address: String,
}

impl EffectServerClient {
    pub(crate) fn at(url: &str) -> Self {
        Self { address: url.trim_start_matches("http://").to_owned() }
    }

    /// Requests an effect under an idempotency key.
    pub(crate) async fn post(&self, path: &str, key: &str, body: &Value) -> io::Result<Value> {
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: ledger\r\nconnection: close\r\nidempotency-key: {key}\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        self.ask(head + &body).await
    }

    /// Sends a GET request.
    pub(crate) async fn get(&self, path: &str) -> io::Result<Value> {
        self.ask(format!("GET {path} HTTP/1.1\r\nhost: ledger\r\nconnection: close\r\n\r\n")).await
    }

    async fn ask(&self, request: String) -> io::Result<Value> {
        let mut stream = TcpStream::connect(&self.address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        match answer.split_once("\r\n\r\n") {
            Some((head, body)) if head.starts_with("HTTP/1.1 200 ") => {
                Ok(serde_json::from_str(body)?)
            }
            _ => Err(io::Error::other(format!("the ledger answered {answer:?}"))),
        }
    }
}
