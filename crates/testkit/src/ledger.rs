//! The ledger: a tool server on a real socket that counts what was really done.
//!
//! A call is `POST /<class>` with the JSON `{"key", "tool", "arguments"}` and the header `Idempotency-Key`. The key of
//! the body names the thing that should be done once and is what counts; the header is what the caller offers for
//! finding repeats, and is used for nothing else. A caller that changes its header on a repeat is thus found out.
//!
//! | path | what a call does |
//! | --- | --- |
//! | `/effect`, `/opaque` | an effect each time |
//! | `/keyed` | an effect for a new header; the same answer for a known one, a conflict if its arguments differ |
//! | `/idempotent` | sets the state of the key: an effect only if the arguments differ from the last ones |
//! | `/pure` | reads: never an effect |
//! | `/provable` | an effect each time; `GET /probe/<header or key>` says `done` with its answer, `not_done` or `unsure` |
//!
//! `GET /ledger` gives the counts, and [`RemoteLedger`] asks a ledger that runs in a process of its own.

mod book;
mod remote;
mod serve;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use book::Book;
pub use book::{Call, EffectPath};
pub use remote::RemoteLedger;
pub use serve::serve_until_stdin_closes;

/// A server that counts effects.
///
/// Dropping it closes the port and all connections.
pub struct LedgerServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

struct Shared {
    book: Mutex<Book>,
    calls: watch::Sender<usize>,
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn wait_for_calls(&self, wanted: usize) {
        let mut calls = self.calls.subscribe();
        // The sender lives as long as the server, so the wait cannot fail.
        let _seen = calls.wait_for(|count| *count >= wanted).await.is_ok();
    }
}

impl LedgerServer {
    /// Starts a server on a port that the system chooses.
    ///
    /// # Panics
    /// If no port of the loopback interface can be opened.
    #[expect(clippy::expect_used, reason = "a test that has no port cannot go on")]
    pub async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("a bound port has an address");
        let shared = Arc::new(Shared { book: Mutex::default(), calls: watch::Sender::new(0) });
        let server = tokio::spawn(serve::accept(listener, Arc::clone(&shared)));
        Self { address, shared, server }
    }

    /// Its URL, such as `http://127.0.0.1:4711`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How often the thing of this key was really done.
    pub fn effects(&self, key: &str) -> u64 {
        self.shared.book().effects(key)
    }

    /// How many calls came for this key, whether they had an effect or not.
    pub fn calls(&self, key: &str) -> usize {
        self.log().iter().filter(|call| call.path != EffectPath::Probe && call.key == key).count()
    }

    /// How many probes came for this effect key.
    pub fn probes(&self, key: &str) -> usize {
        self.log().iter().filter(|call| call.path == EffectPath::Probe && call.key == key).count()
    }

    /// All keys that were called, sorted.
    pub fn keys(&self) -> Vec<String> {
        self.shared.book().keys()
    }

    /// All calls and probes in the order in which they took effect.
    pub fn log(&self) -> Vec<Call> {
        self.shared.book().log().to_vec()
    }

    /// How many calls came in all, without probes.
    pub fn call_count(&self) -> usize {
        *self.shared.calls.borrow()
    }

    /// Waits until so many calls came; their effects are done by then, their answers may be held.
    pub async fn wait_for_calls(&self, wanted: usize) {
        self.shared.wait_for_calls(wanted).await;
    }

    /// Holds the answers of a path from now on, after their effects.
    pub fn hold(&self, path: EffectPath) {
        self.shared.book().hold(path);
    }

    /// How many answers are held and waited for.
    pub fn held(&self) -> usize {
        self.shared.book().held()
    }

    /// Lets all answers go that are held, and holds no more.
    pub fn release(&self) {
        self.shared.book().release();
    }

    /// Makes probes of this effect key unsure.
    pub fn doubt(&self, key: &str) {
        self.shared.book().doubt(key);
    }
}

impl Drop for LedgerServer {
    fn drop(&mut self) {
        self.server.abort();
    }
}
