//! A server that does what a test tells it, byte by byte.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use provost_net::{NetClient, NetPolicy, NetRequest, StaticResolver, Url};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Long enough for a busy machine.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// This machine over plain HTTP, and nothing else inside.
pub(crate) const LOCAL: NetPolicy =
    NetPolicy { allow_private: false, allow_loopback: true, plain_http: true };

/// A server; its connections end with it.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Server {
    /// Gives each connection to a function.
    pub(crate) async fn start<F, Fut>(handle: F) -> Self
    where
        F: Fn(Peer) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        let task = tokio::spawn(async move {
            let mut handled = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                handled.spawn(handle(Peer { stream }));
            }
        });
        Self { address, accepted, task }
    }

    /// StaticRecord every request on every connection with the same bytes.
    pub(crate) async fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let answer: Arc<[u8]> = answer.into().into();
        Self::start(move |mut peer| {
            let answer = Arc::clone(&answer);
            async move { while peer.head().await.is_some() && peer.write(&answer).await {} }
        })
        .await
    }

    /// Connections so far.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    pub(crate) fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://{}{path}", self.address)).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One connection, seen from the server.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
}

impl Peer {
    /// The head of the next request, with the body as far as it is known to follow.
    pub(crate) async fn head(&mut self) -> Option<String> {
        let mut read = Vec::new();
        while !read.ends_with(b"\r\n\r\n") {
            read.push(self.stream.read_u8().await.ok()?);
        }
        let head = String::from_utf8(read).unwrap().to_lowercase();
        let length = head.split("content-length: ").nth(1);
        let length = length.and_then(|rest| rest.split("\r\n").next()?.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        self.stream.read_exact(&mut body).await.ok()?;
        Some(head + &String::from_utf8_lossy(&body))
    }

    /// Writes; false if nobody reads any more.
    pub(crate) async fn write(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).await.is_ok()
    }

    /// Waits until the other side goes.
    pub(crate) async fn wait_until_closed(&mut self) {
        let mut rest = [0; 1024];
        while self.stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
    }
}

pub(crate) fn soon(wait: Duration) -> Instant {
    Instant::now() + wait
}

pub(crate) fn get(url: Url) -> NetRequest {
    NetRequest::get(url, soon(TEST_TIMEOUT))
}

pub(crate) fn local() -> NetClient {
    NetClient::new(LOCAL)
}

pub(crate) fn with_names(
    policy: NetPolicy,
    names: StaticResolver,
) -> (NetClient, Arc<StaticResolver>) {
    let names = Arc::new(names);
    (NetClient::with_resolver(policy, Arc::<StaticResolver>::clone(&names)), names)
}

pub(crate) fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}
