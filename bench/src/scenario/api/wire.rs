//! Minimal HTTP client: prepared request bytes, and responses that are only counted.

use std::time::{Duration, Instant};

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Result;

const BODY: &str = r#"{"message":"What is 6 * 7?"}"#;
const BUFFER: usize = 64 * 1024;

/// One connection.
pub(super) struct Wire {
    stream: TcpStream,
    request: Vec<u8>,
    head: String,
    buffer: Vec<u8>,
}

impl Wire {
    pub(super) async fn open(address: &str, token: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let head = format!("Host: {address}\r\nAuthorization: Bearer {token}\r\n");
        let request = format!(
            "POST /v1/namespaces/default/tasks HTTP/1.1\r\n{head}Content-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{BODY}",
            BODY.len()
        );
        Ok(Self { stream, request: request.into_bytes(), head, buffer: Vec::new() })
    }

    /// Submits a task. Returns the time until the response.
    pub(super) async fn submit(&mut self) -> Result<Duration> {
        let started = Instant::now();
        self.stream.write_all(&self.request).await?;
        self.buffer.clear();
        loop {
            let mut piece = [0; 4096];
            let read = self.stream.read(&mut piece).await?;
            self.buffer.extend_from_slice(&piece[..read]);
            if read == 0 {
                return Err("the server closed the connection".into());
            }
            if self.is_whole()? {
                return Ok(started.elapsed());
            }
        }
    }

    fn is_whole(&self) -> Result<bool> {
        let Some(end) = memmem::find(&self.buffer, b"\r\n\r\n") else { return Ok(false) };
        let head = std::str::from_utf8(&self.buffer[..end])?.to_ascii_lowercase();
        if !head.starts_with("http/1.1 201") {
            return Err(format!("not accepted: {}", String::from_utf8_lossy(&self.buffer)).into());
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.ok_or("an answer without a length")?.trim().parse()?;
        Ok(self.buffer.len() >= end + 4 + length)
    }

    /// Opens a stream of events.
    pub(super) async fn stream(mut self, path: &str) -> Result<Stream> {
        let request = format!("GET /v1/namespaces/default/{path} HTTP/1.1\r\n{}\r\n", self.head);
        self.stream.write_all(request.as_bytes()).await?;
        let mut stream = Stream { stream: self.stream, waiting: 0, rest: Vec::new() };
        // The head of the response, and the first bytes of the stream.
        stream.read().await?;
        if !stream.rest.starts_with(b"HTTP/1.1 200") {
            return Err(format!("no stream: {}", String::from_utf8_lossy(&stream.rest)).into());
        }
        stream.count();
        Ok(stream)
    }
}

/// A stream that counts its events.
pub(super) struct Stream {
    stream: TcpStream,
    waiting: usize,
    rest: Vec<u8>,
}

impl Stream {
    /// Waits for the next event. `None` if the server closed the stream.
    pub(super) async fn event(&mut self) -> Result<Option<()>> {
        while self.waiting == 0 {
            if !self.read().await? {
                return Ok(None);
            }
            self.count();
        }
        self.waiting -= 1;
        Ok(Some(()))
    }

    async fn read(&mut self) -> Result<bool> {
        let start = self.rest.len();
        // An idle stream needs no buffer.
        self.stream.readable().await?;
        self.rest.resize(start + BUFFER, 0);
        let read = self.stream.read(&mut self.rest[start..]).await?;
        self.rest.truncate(start + read);
        Ok(read > 0)
    }

    /// Counts the received events. An event is a line with an id, a line with its kind and a line of data.
    fn count(&mut self) {
        self.waiting += memmem::find_iter(&self.rest, b"\nevent: ").count();
        // A delimiter that is split between two reads is found with the next read.
        let kept = self.rest.len().min(7);
        self.rest.drain(..self.rest.len() - kept);
        if self.rest.ends_with(b"\nevent: ") {
            self.rest.clear();
        }
        self.rest.shrink_to(16);
    }
}
