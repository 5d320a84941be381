//! Options and limits of a server.
//!
//! Every limit is a field of [`Limits`]. Together they bound the memory that clients can use.

use std::sync::Arc;
use std::time::Duration;

use provost_core::Env;

use crate::tool_service::ToolService;
use crate::webhook::WebhookSigningKey;

/// Options of a server.
#[derive(Clone)]
pub struct AppOptions {
    /// Maximum size of a request body in bytes.
    pub body_bytes_max: usize,
    /// Limits for clients.
    pub limits: Limits,
    /// True allows `/metrics` without a token.
    pub open_metrics: bool,
    /// Clock and random source.
    pub env: Env,
    /// Key from which the signing keys of webhooks are derived. Without it, webhooks cannot be created.
    pub webhook_signing_key: Option<WebhookSigningKey>,
    /// True allows webhook URLs in private networks and without TLS. For tests.
    pub allow_private_webhooks: bool,
    /// Declared tools. `None` if the server has no tools.
    pub tools: Option<Arc<dyn ToolService>>,
}

impl Default for AppOptions {
    fn default() -> Self {
        Self {
            body_bytes_max: 32 * 1024 * 1024,
            limits: Limits::default(),
            open_metrics: false,
            env: Env::system(),
            webhook_signing_key: None,
            allow_private_webhooks: false,
            tools: None,
        }
    }
}

/// Limits of a server.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Maximum number of open connections.
    pub connections_max: usize,
    /// Maximum requests per second of one token, or of one address without a token. Zero means no limit.
    pub rate_per_second: u32,
    /// Maximum number of requests in a burst.
    pub rate_burst: u32,
    /// Maximum number of headers of a request.
    pub headers_max: usize,
    /// Maximum size of a request's line and headers in bytes.
    pub head_bytes_max: usize,
    /// Maximum size of a request's URI in bytes.
    pub uri_bytes_max: usize,
    /// Maximum total size of all request bodies in memory, in bytes.
    pub bodies_bytes_max: usize,
    /// Maximum time to receive the line and headers of a request.
    pub head_timeout: Duration,
    /// Maximum time without data while a body is received.
    pub body_stall_timeout: Duration,
    /// Maximum time to receive a body.
    pub body_timeout: Duration,
    /// Maximum time until a response starts. Streams and waits are exempt.
    pub answer_timeout: Duration,
    /// Maximum time in which a client reads nothing of a response.
    pub write_timeout: Duration,
    /// Maximum duration of a stream, after which its client reconnects. `None` means no limit.
    pub stream_timeout: Option<Duration>,
    /// Maximum idle time of a connection.
    pub idle_timeout: Duration,
    /// Maximum time for requests in progress to end when the server shuts down.
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
