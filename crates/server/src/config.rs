//! What callers may use of the server: bytes, requests in a second, connections, time.
//!
//! Every limit has a name and a number in [`Limits`]; memory that strangers can fill is bounded by their product.

use std::time::Duration;

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
    /// Bytes of all bodies that are being read or worked on.
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
    /// How long a stream may stay open; then its caller goes on elsewhere. As long as it likes, if there is nothing here.
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
