//! One connection, moved on by whoever waits for it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use futures::task::AtomicWaker;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::{self, Handle};

/// How often a connection is moved on in one turn before others have theirs.
const TURNS_MAX: usize = 16;

/// A connection and what is sent over it.
pub(super) struct Line {
    sender: SendRequest<Full<Bytes>>,
    connection: Connection<TokioIo<TcpStream>, Full<Bytes>>,
    is_over: bool,
    caller: Arc<Caller>,
    /// The caller, as the connection knows it.
    waker: Waker,
    runtime: Option<runtime::Id>,
}

impl Line {
    pub(super) async fn open(stream: TokioIo<TcpStream>) -> Result<Self, hyper::Error> {
        let (sender, connection) = http1::handshake(stream).await?;
        let caller = Arc::<Caller>::default();
        let waker = Waker::from(Arc::clone(&caller));
        let runtime = Handle::try_current().ok().map(|handle| handle.id());
        Ok(Self { sender, connection, is_over: false, caller, waker, runtime })
    }

    /// Where it is told that something came.
    pub(super) fn runtime(&self) -> Option<runtime::Id> {
        self.runtime
    }

    /// Sends a request. Its answer comes only while the connection is moved on.
    pub(super) fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> impl Future<Output = Result<Response<Incoming>, hyper::Error>> + Send + use<> {
        self.sender.send_request(request)
    }

    /// Moves the connection on until something has come of it.
    pub(super) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut something: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.caller.task.register(cx.waker());
        for _ in 0..TURNS_MAX {
            self.caller.begin();
            self.move_on();
            let come = something(&mut Context::from_waker(&self.waker));
            let again = self.caller.end();
            if come.is_ready() || !again {
                return come;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Nobody waits for it; false, if it cannot be used any more.
    pub(super) fn rest(&mut self) -> bool {
        self.caller.begin();
        self.move_on();
        self.caller.end();
        // Whoever used it last must not be kept for that.
        drop(self.caller.task.take());
        !self.is_over && self.sender.is_ready()
    }

    fn move_on(&mut self) {
        if !self.is_over {
            let cx = &mut Context::from_waker(&self.waker);
            // If it failed, those who wait for an answer or a body learn it there.
            self.is_over = Pin::new(&mut self.connection).poll(cx).is_ready();
        }
    }
}

const AWAY: u8 = 0;
const MOVING: u8 = 1;
const AGAIN: u8 = 2;

/// Who is woken by a connection: the task that waits, unless it is just moving the connection on.
///
/// The parts of a connection tell each other by waking that there is something for them to do. Where one task does all of it,
/// that would be a turn of the task for nothing each time.
#[derive(Default)]
struct Caller {
    task: AtomicWaker,
    state: AtomicU8,
}

impl Caller {
    fn begin(&self) {
        self.state.store(MOVING, Ordering::Release);
    }

    /// True if there is more to do.
    fn end(&self) -> bool {
        self.state.swap(AWAY, Ordering::AcqRel) == AGAIN
    }
}

impl Wake for Caller {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let moving =
            self.state.compare_exchange(MOVING, AGAIN, Ordering::AcqRel, Ordering::Acquire);
        if moving == Err(AWAY) {
            self.task.wake();
        }
    }
}
