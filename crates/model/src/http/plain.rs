//! Requests without TLS, to servers on this machine or nearby.
//!
//! No task stands behind a connection: whoever waits for an answer moves its connection on itself, so that a piece of an answer
//! wakes one task and not two. Dropping what waits closes the connection.

mod line;

use std::collections::HashMap;
use std::env;
use std::ffi::OsString;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::Body as _;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Request, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use reqwest::Url;
use reqwest::header::{HOST, HeaderMap, HeaderValue};
use tokio::runtime::{self, Handle};
use tokio::time::{Instant, sleep, timeout};
use tower_service::Service as _;

use self::line::Line;
use super::Timeouts;
use super::answer::{Answer, Body, Broken};

/// How long a connection that nobody uses is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// Connections to one server that are kept while nobody uses them.
const IDLE_MAX: usize = 1024;
/// How often a peer that says nothing is asked whether it is still there, and how often in vain.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const KEEP_ALIVE_TRIES: u32 = 3;
/// How long what was sent may go without being acknowledged.
#[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(30);
/// Where a proxy for such requests is named.
const PROXY_VARIABLES: [&str; 4] = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

/// The servers that models of this process ask: models that ask the same one share its connections.
static KNOWN: LazyLock<Mutex<HashMap<Uri, Arc<Lines>>>> = LazyLock::new(Mutex::default);

/// One server, and the connections to it that nobody uses.
pub(super) struct Lines {
    /// Scheme, host and port.
    server: Uri,
    connector: HttpConnector,
    connect_timeout: Duration,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    /// Those that were used last are last.
    lines: Vec<Resting>,
    /// Somebody closes those that nobody wants any more.
    is_watched: bool,
}

struct Resting {
    line: Box<Line>,
    since: Instant,
}

/// How one address of a server is asked.
#[derive(Clone)]
pub(super) struct Plain {
    lines: Arc<Lines>,
    path: Uri,
}

impl Plain {
    /// How this address is asked; none, if it needs TLS or a proxy stands before it. The headers get the name of the server.
    pub(super) fn new(url: &Url, connect: Duration, headers: &mut HeaderMap) -> Option<Self> {
        if url.scheme() != "http" || is_proxied(|name| env::var_os(name)) {
            return None;
        }
        let host = url.host_str()?;
        let name = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let server = Uri::try_from(format!("http://{name}/")).ok()?;
        let path = match url.query() {
            Some(query) => Uri::try_from(format!("{}?{query}", url.path())).ok()?,
            None => Uri::try_from(url.path()).ok()?,
        };
        headers.entry(HOST).or_insert(HeaderValue::try_from(name).ok()?);
        Some(Self { lines: Lines::to(server, connect), path })
    }

    /// Sends a request and waits for the head of its answer.
    pub(super) async fn ask(self, headers: HeaderMap, body: Bytes) -> Result<Answer, Broken> {
        let Self { lines, path } = self;
        let mut request = Request::post(path).body(Full::new(body)).map_err(Broken::request)?;
        *request.headers_mut() = headers;
        let mut line = match lines.rested() {
            Some(line) => line,
            None => lines.dial().await?,
        };
        let mut answering = pin!(line.send(request));
        let answer = poll_fn(|cx| line.poll(cx, |cx| answering.as_mut().poll(cx))).await;
        let (head, incoming) = answer.map_err(Broken::line)?.into_parts();
        let body = Body::Plain(PlainBody { incoming, line: Some(line), lines });
        Ok(Answer { status: head.status, headers: head.headers, body })
    }
}

/// True if such requests go to a proxy.
fn is_proxied(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    PROXY_VARIABLES.iter().any(|name| variable(name).is_some_and(|value| !value.is_empty()))
}

impl Lines {
    fn to(server: Uri, connect_timeout: Duration) -> Arc<Self> {
        if connect_timeout != Timeouts::default().connect {
            return Arc::new(Self::new(server, connect_timeout));
        }
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lines) = known.get(&server) {
            return Arc::clone(lines);
        }
        known.retain(|_, lines| Arc::strong_count(lines) > 1 || !lines.lock().lines.is_empty());
        let lines = Arc::new(Self::new(server.clone(), connect_timeout));
        known.insert(server, Arc::clone(&lines));
        lines
    }

    fn new(server: Uri, connect_timeout: Duration) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_keepalive(Some(KEEP_ALIVE));
        connector.set_keepalive_interval(Some(KEEP_ALIVE));
        connector.set_keepalive_retries(Some(KEEP_ALIVE_TRIES));
        #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
        connector.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX));
        Self { server, connector, connect_timeout, idle: Mutex::default() }
    }

    async fn dial(&self) -> Result<Box<Line>, Broken> {
        let mut connector = self.connector.clone();
        match timeout(self.connect_timeout, connector.call(self.server.clone())).await {
            Ok(connected) => {
                let stream = connected.map_err(Broken::connect)?;
                Ok(Box::new(Line::open(stream).await.map_err(Broken::line)?))
            }
            Err(_elapsed) => Err(Broken::ConnectTimeout),
        }
    }

    /// A connection that somebody has used before and that still stands.
    fn rested(&self) -> Option<Box<Line>> {
        let here = Handle::try_current().ok()?.id();
        loop {
            let Resting { mut line, since } = self.lock().take(here)?;
            if since.elapsed() < IDLE_TIMEOUT && line.rest() {
                return Some(line);
            }
        }
    }

    /// Keeps a connection for whoever asks next.
    fn keep(self: &Arc<Self>, mut line: Box<Line>) {
        if !line.rest() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        let mut idle = self.lock();
        if idle.lines.len() >= IDLE_MAX {
            return;
        }
        idle.lines.push(Resting { line, since: Instant::now() });
        let is_watched = std::mem::replace(&mut idle.is_watched, true);
        drop(idle);
        if !is_watched {
            let watch = Watch { lines: Arc::downgrade(self), runtime: runtime.id() };
            drop(runtime.spawn(watch.run()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        // Nothing that can fail happens under this lock.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Idle {
    /// Connections belong to the runtime that made them: in another one nobody would tell that something came.
    fn take(&mut self, runtime: runtime::Id) -> Option<Resting> {
        let at = self.lines.iter().rposition(|resting| resting.line.runtime() == Some(runtime))?;
        Some(self.lines.remove(at))
    }
}

/// Closes connections that nobody wants any more. It ends with the last of them, or with its runtime.
struct Watch {
    lines: Weak<Lines>,
    runtime: runtime::Id,
}

impl Watch {
    async fn run(self) {
        loop {
            sleep(IDLE_TIMEOUT).await;
            let Some(lines) = self.lines.upgrade() else { return };
            let mut idle = lines.lock();
            let old = idle.lines.partition_point(|resting| resting.since.elapsed() >= IDLE_TIMEOUT);
            let old: Vec<Resting> = idle.lines.drain(..old).collect();
            let is_last = idle.lines.is_empty();
            drop(idle);
            drop(old);
            if is_last {
                return;
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(lines) = self.lines.upgrade() else { return };
        let mut idle = lines.lock();
        idle.is_watched = false;
        let mine = |resting: &mut Resting| resting.line.runtime() == Some(self.runtime);
        let mine: Vec<Resting> = idle.lines.extract_if(.., mine).collect();
        drop(idle);
        drop(mine);
    }
}

/// The body of an answer. Once it is read, its connection can be used again.
pub(crate) struct PlainBody {
    incoming: Incoming,
    line: Option<Box<Line>>,
    lines: Arc<Lines>,
}

impl PlainBody {
    /// The next piece; `None` at the end.
    pub(super) fn poll_bytes(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Broken>>> {
        loop {
            let Some(line) = &mut self.line else { return Poll::Ready(None) };
            let incoming = &mut self.incoming;
            match ready!(line.poll(cx, |cx| Pin::new(&mut *incoming).poll_frame(cx))) {
                Some(Ok(frame)) => {
                    // Trailers tell us nothing.
                    if let Ok(bytes) = frame.into_data() {
                        return Poll::Ready(Some(Ok(bytes)));
                    }
                }
                Some(Err(error)) => {
                    self.line = None;
                    return Poll::Ready(Some(Err(Broken::line(error))));
                }
                None => {
                    if let Some(line) = self.line.take() {
                        self.lines.keep(line);
                    }
                    return Poll::Ready(None);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
