//! Client of an effect server in another process.

use std::io;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::effect_log::{Call, EffectKind};

/// Effect server in another process, with the queries of [`EffectServer`](super::EffectServer).
#[derive(Debug, Clone)]
pub struct RemoteEffectServer {
    address: SocketAddr,
}

impl RemoteEffectServer {
    /// Parses the URL of a server, or a line that ends with the URL, such as the first line of the server's output.
    pub fn at(line: &str) -> io::Result<Self> {
        let address = line.trim().rsplit_once("http://").map_or("", |(_, address)| address);
        let address = address.parse().map_err(|e| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("no URL in {line:?}: {e}"))
        })?;
        Ok(Self { address })
    }

    /// Returns the URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns how often the effect of this key was performed.
    pub async fn effects(&self, key: &str) -> io::Result<u64> {
        Ok(self.request("GET", "/ledger", &Value::Null).await?["effects"][key]
            .as_u64()
            .unwrap_or(0))
    }

    /// Returns the number of calls for this key, with or without an effect.
    pub async fn calls(&self, key: &str) -> io::Result<usize> {
        let is_call = |call: &Call| call.path != EffectKind::Probe && call.key == key;
        Ok(self.log().await?.into_iter().filter(is_call).count())
    }

    /// Returns all keys of calls, sorted.
    pub async fn keys(&self) -> io::Result<Vec<String>> {
        let ledger = self.request("GET", "/ledger", &Value::Null).await?;
        let keys = ledger["effects"].as_object().into_iter().flatten();
        Ok(keys.map(|(key, _)| key.clone()).collect())
    }

    /// Returns all calls and probes in the order of their effects.
    pub async fn log(&self) -> io::Result<Vec<Call>> {
        let ledger = self.request("GET", "/ledger", &Value::Null).await?;
        let calls = ledger["calls"].as_array().into_iter().flatten();
        calls.map(|call| Call::from_json(call).ok_or_else(|| invalid_response(call))).collect()
    }

    /// Waits until the server has recorded this number of calls, without probes. Their effects are performed by then;
    /// their responses may be paused.
    pub async fn wait_for_calls(&self, expected: usize) -> io::Result<()> {
        self.request("GET", &format!("/ledger/wait/{expected}"), &Value::Null).await.map(drop)
    }

    /// Pauses every later response of a path. The effects are performed without delay.
    pub async fn pause_responses(&self, path: EffectKind) -> io::Result<()> {
        self.request("POST", "/ledger/hold", &json!({ "path": path.as_str() })).await.map(drop)
    }

    /// Sends all paused responses and stops pausing.
    pub async fn resume_responses(&self) -> io::Result<()> {
        self.request("POST", "/ledger/release", &Value::Null).await.map(drop)
    }

    /// Makes later probes of this effect key return `unsure`.
    pub async fn set_uncertain(&self, key: &str) -> io::Result<()> {
        self.request("POST", "/ledger/doubt", &json!({ "key": key })).await.map(drop)
    }

    /// Sends a request on a new connection. Returns the JSON body, or an error if the status is not 200.
    async fn request(&self, method: &str, path: &str, body: &Value) -> io::Result<Value> {
        let mut stream = TcpStream::connect(self.address).await?;
        let body = body.to_string();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: ledger\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (head, body) =
            answer.split_once("\r\n\r\n").ok_or_else(|| invalid_response(&answer))?;
        if !head.starts_with("HTTP/1.1 200 ") {
            return Err(invalid_response(&answer));
        }
        Ok(serde_json::from_str(body)?)
    }
}

/// Returns an error that contains the response.
fn invalid_response(answer: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the ledger answered {answer}"))
}
