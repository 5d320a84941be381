//! How a server behaves, and what its callers may use: bytes, requests per second, connections, time.
//!
//! Every limit has a name and a number in [`Limits`]; the memory that callers can fill is bounded by their product.

use std::sync::Arc;
use std::time::Duration;

use provost_core::Env;

use crate::tool_catalog::ToolHouse;
use crate::webhook::MasterKey;

/// How the server behaves.
#[derive(Clone)]
pub struct AppOptions {
    /// Bytes of a request body at most.
    pub body_bytes_max: usize,
    /// Limits for callers.
    pub limits: Limits,
    /// True if `/metrics` needs no token.
    pub open_metrics: bool,
    /// The clock by which tokens expire.
    pub env: Env,
    /// The key from which the keys of webhooks are derived; without it none can be made.
    pub master_key: Option<MasterKey>,
    /// True if webhooks may lead into this machine's network, and without TLS: for tests.
    pub allow_private_webhooks: bool,
    /// The tools that the server knows.
    pub tools: Option<Arc<dyn ToolHouse>>,
}

impl Default for AppOptions {
    fn default() -> Self {
        Self {
            body_bytes_max: 32 * 1024 * 1024,
            limits: Limits::default(),
            open_metrics: false,
            env: Env::system(),
            master_key: None,
            allow_private_webhooks: false,
            tools: None,
        }
    }
}

/// The limits of a server. Every number has a default.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at once.
    pub connections_max: usize,
    /// Requests of one token, or of one address without a token, in a second; zero is no limit.
    pub rate_per_second: u32,
    /// Requests that may come at once.
    pub rate_burst: u32,
    /// Headers of a request.
    pub headers_max: usize,
    /// Bytes of a request's line and headers.
    pub head_bytes_max: usize,
    /// Bytes of a request's target.
    pub uri_bytes_max: usize,
    /// Bytes of all bodies that are being read or processed.
    pub bodies_bytes_max: usize,
    /// How long the head of a request may take.
    pub head_timeout: Duration,
    /// How long a body may stand still.
    pub body_stall_timeout: Duration,
    /// How long a body may take in all.
    pub body_timeout: Duration,
    /// How long an answer may take to begin, except for streams and waits.
    pub answer_timeout: Duration,
    /// How long a caller may take nothing of an answer.
    pub write_timeout: Duration,
    /// How long a stream may stay open; its client then reconnects. Without it a stream has no time limit.
    pub stream_timeout: Option<Duration>,
    /// How long a connection may be without a request.
    pub idle_timeout: Duration,
    /// How long requests that are under way may take once the server stops.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 20_000,
            rate_per_second: 500,
            rate_burst: 1_000,
            headers_max: 100,
            head_bytes_max: 64 * 1024,
            uri_bytes_max: 8 * 1024,
            bodies_bytes_max: 512 * 1024 * 1024,
            head_timeout: Duration::from_secs(10),
            body_stall_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(300),
            answer_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(60),
            stream_timeout: None,
            idle_timeout: Duration::from_secs(75),
            drain_timeout: Duration::from_secs(10),
        }
    }
}
