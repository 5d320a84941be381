//! Effect server: a tool server on a real socket that counts performed effects.
//!
//! A call is `POST /<class>` with the JSON `{"key", "tool", "arguments"}` and the header `Idempotency-Key`. The key of
//! the body identifies the effect that must happen once, and the server counts by it. The header is the caller's means
//! to detect repeats and is used for nothing else. The counts therefore expose a caller that changes its header in a
//! repeat.
//!
//! | path | effect of a call |
//! | --- | --- |
//! | `/effect`, `/opaque` | an effect each time |
//! | `/keyed` | an effect for a new header; the same response for a known one, a conflict if its arguments differ |
//! | `/idempotent` | sets the state of the key: an effect only if the arguments differ from the last ones |
//! | `/pure` | reads: never an effect |
//! | `/provable` | an effect each time; `GET /probe/<header or key>` returns `done` with the response, `not_done` or `unsure` |
//!
//! `GET /ledger` returns the counts. [`RemoteEffectServer`] reads them from a server in another process.

mod effect_log;
mod remote;
mod serve;

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use effect_log::EffectLog;
pub use effect_log::{Call, EffectKind};
pub use remote::RemoteEffectServer;
pub use serve::serve_until_stdin_closes;

/// Server that counts effects.
///
/// Dropping it closes the port and all connections.
pub struct EffectServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

/// State that the server and its handle share.
struct Shared {
    effect_log: Mutex<EffectLog>,
    calls: watch::Sender<usize>,
}

impl Shared {
    /// Waits until the server has recorded this number of calls, without probes.
    async fn wait_for_calls(&self, expected: usize) {
        let mut calls = self.calls.subscribe();
        // The sender lives as long as the server, so the wait cannot fail.
        let _seen = calls.wait_for(|count| *count >= expected).await.is_ok();
    }
}

impl EffectServer {
    /// Starts a server on a port that the system chooses.
    ///
    /// # Panics
    /// If no port of the loopback interface can be opened.
    #[expect(clippy::expect_used, reason = "a test cannot continue without a port")]
    pub async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("a bound port has an address");
        let shared =
            Arc::new(Shared { effect_log: Mutex::default(), calls: watch::Sender::new(0) });
        let server = tokio::spawn(serve::accept(listener, Arc::clone(&shared)));
        Self { address, shared, server }
    }

    /// Returns the URL, such as `http://127.0.0.1:4711`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns how often the effect of this key was performed.
    pub fn effects(&self, key: &str) -> u64 {
        self.shared.effect_log.lock().effects(key)
    }

    /// Returns the number of calls for this key, with or without an effect.
    pub fn calls(&self, key: &str) -> usize {
        self.log().iter().filter(|call| call.path != EffectKind::Probe && call.key == key).count()
    }

    /// Returns the number of probes for this effect key.
    pub fn probes(&self, key: &str) -> usize {
        self.log().iter().filter(|call| call.path == EffectKind::Probe && call.key == key).count()
    }

    /// Returns all keys of calls, sorted.
    pub fn keys(&self) -> Vec<String> {
        self.shared.effect_log.lock().keys()
    }

    /// Returns all calls and probes in the order of their effects.
    pub fn log(&self) -> Vec<Call> {
        self.shared.effect_log.lock().log().to_vec()
    }

    /// Returns the number of all calls, without probes.
    pub fn call_count(&self) -> usize {
        *self.shared.calls.borrow()
    }

    /// Waits until the server has recorded this number of calls, without probes. Their effects are performed by then;
    /// their responses may be paused.
    pub async fn wait_for_calls(&self, expected: usize) {
        self.shared.wait_for_calls(expected).await;
    }

    /// Pauses every later response of a path. The effects are performed without delay.
    pub fn pause_responses(&self, path: EffectKind) {
        self.shared.effect_log.lock().pause_responses(path);
    }

    /// Returns the number of paused responses whose caller still waits.
    pub fn paused_count(&self) -> usize {
        self.shared.effect_log.lock().paused_count()
    }

    /// Sends all paused responses and stops pausing.
    pub fn resume_responses(&self) {
        self.shared.effect_log.lock().resume_responses();
    }

    /// Makes later probes of this effect key return `unsure`.
    pub fn set_uncertain(&self, key: &str) {
        self.shared.effect_log.lock().set_uncertain(key);
    }
}

impl Drop for EffectServer {
    fn drop(&mut self) {
        self.server.abort();
    }
}
