//! Limits of requests, responses and connections.

use std::time::Duration;

/// Maximum length of a URL, in bytes.
pub const URL_BYTES_MAX: usize = 16 * 1024;
/// Maximum length of a host name, in bytes, as in DNS.
pub const NAME_BYTES_MAX: usize = 253;
/// Maximum number of response headers. The HTTP/1 parser reserves them on its stack; HTTP/2 is limited by
/// [`HEAD_BYTES_MAX`].
pub const HEADERS_MAX: usize = 100;
/// Maximum size of a response head, in bytes.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of redirects, whatever a request permits.
pub const REDIRECTS_MAX: u8 = 10;
/// Maximum number of addresses of a name. More indicate a mistake or an attack.
pub const ADDRESSES_MAX: usize = 64;
/// Maximum number of addresses of a name that are tried.
pub const DIALS_MAX: usize = 8;
/// Head start of an address before the next one is tried.
pub const DIAL_STAGGER: Duration = Duration::from_millis(250);
/// Default time limit of a connection until it can carry a request.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of connections of a client. Further requests wait within their deadline.
pub const CONNECTIONS_MAX: usize = 512;
/// Maximum number of idle connections per host.
pub const IDLE_PER_HOST_MAX: usize = 16;
/// Time after which an idle connection is closed.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval of pings on an HTTP/2 connection with active requests.
pub const PING_INTERVAL: Duration = Duration::from_secs(20);
/// Time limit of the reply to a ping.
pub const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of concurrent lookups of the system. Each occupies a thread that cannot be interrupted.
pub const LOOKUPS_MAX: usize = 32;
/// Size of the decoding buffer, in bytes: the window of deflate (32 KiB) and the expansion of the final input bytes.
pub const UNPACK_BYTES: usize = 64 * 1024;
