//! A client of the ledger, as small as it can be.

use std::io;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Where effects happen and are counted.
#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    address: String,
}

impl Ledger {
    pub(crate) fn at(url: &str) -> Self {
        Self { address: url.trim_start_matches("http://").to_owned() }
    }

    /// Does something under an idempotency key.
    pub(crate) async fn post(&self, path: &str, key: &str, body: &Value) -> io::Result<Value> {
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: ledger\r\nconnection: close\r\nidempotency-key: {key}\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        self.ask(head + &body).await
    }

    /// Asks for something.
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
