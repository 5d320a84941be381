//! Asks a ledger that runs in a process of its own.

use std::io;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::book::{Call, EffectPath};

/// A ledger in another process, with the same questions as [`LedgerServer`](super::LedgerServer).
#[derive(Debug, Clone)]
pub struct RemoteLedger {
    address: SocketAddr,
}

impl RemoteLedger {
    /// Takes the URL, or a line that ends with it, such as the one a ledger process prints.
    pub fn at(line: &str) -> io::Result<Self> {
        let address = line.trim().rsplit_once("http://").map_or("", |(_, address)| address);
        let address = address.parse().map_err(|e| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("no URL in {line:?}: {e}"))
        })?;
        Ok(Self { address })
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How often the thing of this key was really done.
    pub async fn effects(&self, key: &str) -> io::Result<u64> {
        Ok(self.ask("GET", "/ledger", &Value::Null).await?["effects"][key].as_u64().unwrap_or(0))
    }

    /// How many calls came for this key, whether they had an effect or not.
    pub async fn calls(&self, key: &str) -> io::Result<usize> {
        let is_call = |call: &Call| call.path != EffectPath::Probe && call.key == key;
        Ok(self.log().await?.into_iter().filter(is_call).count())
    }

    /// All keys that were called, sorted.
    pub async fn keys(&self) -> io::Result<Vec<String>> {
        let ledger = self.ask("GET", "/ledger", &Value::Null).await?;
        let keys = ledger["effects"].as_object().into_iter().flatten();
        Ok(keys.map(|(key, _)| key.clone()).collect())
    }

    /// All calls and probes in the order in which they took effect.
    pub async fn log(&self) -> io::Result<Vec<Call>> {
        let ledger = self.ask("GET", "/ledger", &Value::Null).await?;
        let calls = ledger["calls"].as_array().into_iter().flatten();
        calls.map(|call| Call::from_json(call).ok_or_else(|| broken(call))).collect()
    }

    /// Waits until so many calls came; their effects are done by then, their answers may be held.
    pub async fn wait_for_calls(&self, wanted: usize) -> io::Result<()> {
        self.ask("GET", &format!("/ledger/wait/{wanted}"), &Value::Null).await.map(drop)
    }

    /// Holds the answers of a path from now on, after their effects.
    pub async fn hold(&self, path: EffectPath) -> io::Result<()> {
        self.ask("POST", "/ledger/hold", &json!({ "path": path.as_str() })).await.map(drop)
    }

    /// Lets all answers go that are held, and holds no more.
    pub async fn release(&self) -> io::Result<()> {
        self.ask("POST", "/ledger/release", &Value::Null).await.map(drop)
    }

    /// Makes probes of this effect key unsure.
    pub async fn doubt(&self, key: &str) -> io::Result<()> {
        self.ask("POST", "/ledger/doubt", &json!({ "key": key })).await.map(drop)
    }

    async fn ask(&self, method: &str, path: &str, body: &Value) -> io::Result<Value> {
        let mut stream = TcpStream::connect(self.address).await?;
        let body = body.to_string();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: ledger\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| broken(&answer))?;
        if !head.starts_with("HTTP/1.1 200 ") {
            return Err(broken(&answer));
        }
        Ok(serde_json::from_str(body)?)
    }
}

fn broken(answer: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the ledger answered {answer}"))
}
