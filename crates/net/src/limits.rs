//! The bounds of everything that comes in or goes out.

use std::time::Duration;

/// The longest address, in bytes.
pub const URL_BYTES_MAX: usize = 16 * 1024;
/// The longest name of a host, in bytes, as DNS has it.
pub const NAME_BYTES_MAX: usize = 253;
/// Headers of one answer. It is what the HTTP/1 parser takes on its stack; HTTP/2 is bounded by [`HEAD_BYTES_MAX`].
pub const HEADERS_MAX: usize = 100;
/// The head of one answer, in bytes.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Redirects that are followed at most, whatever a request allows.
pub const REDIRECTS_MAX: u8 = 10;
/// Answers to one lookup: more are a mistake or an attack.
pub const ADDRESSES_MAX: usize = 64;
/// Addresses of one name that are tried.
pub const DIALS_MAX: usize = 8;
/// How long one address has the line for itself before the next one is tried beside it.
pub const DIAL_STAGGER: Duration = Duration::from_millis(250);
/// How long a connection may take until it can carry a request, unless a client says otherwise.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections of one client at once. Requests beyond wait, within their deadline.
pub const CONNECTIONS_MAX: usize = 512;
/// Idle connections that are kept for one host.
pub const IDLE_PER_HOST_MAX: usize = 16;
/// How long an idle connection is kept.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// How often an HTTP/2 connection with requests under way is asked whether it still lives.
pub const PING_INTERVAL: Duration = Duration::from_secs(20);
/// How long it may take to say so.
pub const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// Lookups of the system at once: each holds a thread that cannot be stopped.
pub const LOOKUPS_MAX: usize = 32;
/// How much is unpacked in one step: the window of deflate (32 KiB), and room for what the last bytes of a piece become.
pub const UNPACK_BYTES: usize = 64 * 1024;
