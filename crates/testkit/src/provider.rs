//! Fake provider: a small HTTP/1.1 server on a port that the system chooses.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::body::ReplyBody;
use crate::reply::{Ending, Reply, Shape, WireKind, failure};

/// A recorded request.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Path, such as `/v1/messages`.
    pub path: String,
    /// Query, such as `alt=sse`.
    pub query: Option<String>,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
}

impl Recorded {
    /// Returns a header as text. `None` if the request does not have it or it is not valid text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns the body as JSON; null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

type Answer = dyn Fn(&Recorded) -> Reply + Send + Sync;

struct Shared {
    replies: Mutex<VecDeque<Reply>>,
    answer: Option<Box<Answer>>,
    requests: Mutex<Vec<Recorded>>,
    recording: AtomicBool,
    count: watch::Sender<usize>,
    connections: AtomicUsize,
    abandoned: watch::Sender<usize>,
}

/// HTTP server with the API of model vendors that responds from a script or a function.
///
/// Dropping it closes the port and all connections.
pub struct FakeProvider {
    address: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

impl FakeProvider {
    /// Starts a provider that sends the replies given to [`reply`](Self::reply), one for each request. A request
    /// without a reply gets status 400.
    ///
    /// # Panics
    /// If no port of the loopback interface can be opened.
    pub async fn start() -> Self {
        Self::serve(None).await
    }

    /// Starts a provider that calls a function for each request.
    ///
    /// # Panics
    /// If no port of the loopback interface can be opened.
    pub async fn answering(answer: impl Fn(&Recorded) -> Reply + Send + Sync + 'static) -> Self {
        Self::serve(Some(Box::new(answer))).await
    }

    /// Starts the server on a port that the system chooses.
    #[expect(clippy::expect_used, reason = "a test that has no port cannot go on")]
    async fn serve(answer: Option<Box<Answer>>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("a bound port has an address");
        let shared = Arc::new(Shared {
            replies: Mutex::default(),
            answer,
            requests: Mutex::default(),
            recording: AtomicBool::new(true),
            count: watch::Sender::new(0),
            connections: AtomicUsize::new(0),
            abandoned: watch::Sender::new(0),
        });
        let server = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared, server }
    }

    /// Returns the base URL for all wires, such as `http://127.0.0.1:4711/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns the listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds a reply to the script.
    pub fn reply(&self, reply: Reply) {
        lock(&self.shared.replies).push_back(reply);
    }

    /// Adds replies to the script.
    pub fn replies(&self, replies: impl IntoIterator<Item = Reply>) {
        lock(&self.shared.replies).extend(replies);
    }

    /// Stops recording requests, so that a measurement does not use memory for each request.
    pub fn forget_requests(&self) {
        self.shared.recording.store(false, Ordering::Relaxed);
        lock(&self.shared.requests).clear();
    }

    /// Returns the recorded requests, oldest first.
    pub fn requests(&self) -> Vec<Recorded> {
        lock(&self.shared.requests).clone()
    }

    /// Returns the bodies of the recorded requests, as JSON.
    pub fn bodies(&self) -> Vec<Value> {
        lock(&self.shared.requests).iter().map(Recorded::json).collect()
    }

    /// Returns the number of requests.
    pub fn request_count(&self) -> usize {
        *self.shared.count.borrow()
    }

    /// Returns the number of opened connections.
    pub fn connection_count(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Returns the number of replies that were not sent yet.
    pub fn replies_left(&self) -> usize {
        lock(&self.shared.replies).len()
    }

    /// Waits until the provider has received this number of requests.
    pub async fn wait_for_requests(&self, wanted: usize) {
        wait(&self.shared.count, wanted).await;
    }

    /// Waits until clients have abandoned this number of responses.
    pub async fn wait_for_abandoned(&self, wanted: usize) {
        wait(&self.shared.abandoned, wanted).await;
    }
}

/// Waits until the counter reaches a number.
async fn wait(counter: &watch::Sender<usize>, wanted: usize) {
    let mut counter = counter.subscribe();
    // The sender lives as long as the provider, so the wait cannot fail.
    let _seen = counter.wait_for(|count| *count >= wanted).await.is_ok();
}

impl Drop for FakeProvider {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Accepts connections until the task is aborted, and handles each in its own task.
async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    shared.connections.fetch_add(1, Ordering::Relaxed);
                    connections.spawn(serve_connection(stream, Arc::clone(&shared)));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Serves the requests of one connection.
async fn serve_connection(stream: TcpStream, shared: Arc<Shared>) {
    let nodelay = stream.set_nodelay(true);
    debug_assert!(nodelay.is_ok(), "{nodelay:?}");
    let service = service_fn(move |request| respond(request, Arc::clone(&shared)));
    let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // Some scripts break connections, so errors are expected.
    let _broken = served.await.is_err();
}

/// Error that closes the connection.
#[derive(Debug)]
struct Reset;

impl std::fmt::Display for Reset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the script closes the connection")
    }
}

impl std::error::Error for Reset {}

/// Records a request and sends the next reply. Lists one model for `GET /v1/models`, and returns 404 for other paths.
async fn respond(
    request: Request<Incoming>,
    shared: Arc<Shared>,
) -> Result<Response<ReplyBody>, Reset> {
    let (head, body) = request.into_parts();
    let posted = WireKind::at(head.uri.path()).filter(|_| head.method == Method::POST);
    let wire = match (posted, &head.method, head.uri.path()) {
        (Some(wire), ..) => wire,
        (None, &Method::GET, "/v1/models") => {
            let models = r#"{"object":"list","data":[{"id":"fake-1","object":"model","created":1700000000,"owned_by":"fake"}]}"#;
            let reply = Reply::raw_response(200, "application/json", models);
            return build_response(&reply, WireKind::OpenAiChat, &shared).await;
        }
        _ => {
            let reply = Reply::raw_response(404, "text/plain", "404 page not found");
            return build_response(&reply, WireKind::OpenAiChat, &shared).await;
        }
    };
    let recorded = Recorded {
        path: head.uri.path().to_owned(),
        query: head.uri.query().map(str::to_owned),
        headers: head.headers,
        body: read(body).await,
    };
    let reply = match &shared.answer {
        Some(answer) => answer(&recorded),
        None => lock(&shared.replies).pop_front().unwrap_or_else(no_reply_left),
    };
    if shared.recording.load(Ordering::Relaxed) {
        lock(&shared.requests).push(recorded);
    }
    shared.count.send_modify(|count| *count += 1);
    build_response(&reply, wire, &shared).await
}

/// Returns the response to a request after the last reply of the script.
fn no_reply_left() -> Reply {
    let body =
        r#"{"error":{"message":"the script has no reply left","type":"invalid_request_error"}}"#;
    Reply::raw_response(400, "application/json", body)
}

/// Reads a body until its end or a connection error.
async fn read(mut body: Incoming) -> Bytes {
    let mut whole = Vec::new();
    while let Some(Ok(frame)) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await
    {
        whole.extend_from_slice(&frame.into_data().unwrap_or_default());
    }
    Bytes::from(whole)
}

/// Builds the response of a reply, after its delay. Returns an error if the reply closes the connection.
async fn build_response(
    reply: &Reply,
    wire: WireKind,
    shared: &Shared,
) -> Result<Response<ReplyBody>, Reset> {
    if !reply.delay.is_zero() {
        tokio::time::sleep(reply.delay).await;
    }
    let (status, content_type, frames, pause, ending) = match &reply.shape {
        Shape::Stream => {
            let frames = reply.frames(wire);
            (200, wire.content_type().to_owned(), frames, reply.chunk_delay, reply.ending)
        }
        Shape::Failure(kind) => {
            let (status, body) = failure(*kind, wire);
            let frames = Arc::from([Bytes::from(body)]);
            (status, "application/json".to_owned(), frames, Duration::ZERO, Ending::Complete)
        }
        Shape::Raw { status, content_type, body } => {
            let frames = Arc::from([body.clone()]);
            (*status, content_type.clone(), frames, Duration::ZERO, reply.ending)
        }
        Shape::Reset => return Err(Reset),
        Shape::NoResponse => {
            let never: Infallible = std::future::pending().await;
            match never {}
        }
    };
    let body = ReplyBody::new(frames, pause, ending, shared.abandoned.clone());
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    let headers = response.headers_mut();
    let content_type = HeaderValue::try_from(content_type);
    headers.extend(content_type.ok().map(|value| (CONTENT_TYPE, value)));
    for (name, value) in &reply.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.insert(name, value);
        }
    }
    Ok(response)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
