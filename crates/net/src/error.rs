//! Errors of requests, and whether the request may have arrived nevertheless.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use provost_core::ErrorKind;

use crate::limits::{REDIRECTS_MAX, URL_BYTES_MAX};
use crate::tls::TlsError;

/// A request failed. Messages contain only the host of a URL, because the remainder may contain a key.
///
/// `sent` states whether the request, or an earlier request of a redirect, may have reached the server.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NetError {
    /// The policy forbids the request. No connection was opened.
    #[error("{}", refusal_text(host, *address, *reason))]
    Refused {
        /// Host of the request.
        host: String,
        /// Address of the host, if it is the reason.
        address: Option<IpAddr>,
        /// Reason of the refusal.
        reason: RefusalReason,
        /// True if a redirect led to this host.
        sent: bool,
    },
    /// The URL or the request is invalid.
    #[error("the URL is invalid: {problem}")]
    Url {
        /// Reason for the rejection.
        problem: String,
        /// True if a redirect led to this URL.
        sent: bool,
    },
    /// The name cannot be resolved at the moment.
    #[error("cannot resolve `{host}`: {source}")]
    Lookup {
        /// Name of the host.
        host: String,
        /// Error of the resolver.
        source: Arc<io::Error>,
        /// True if a redirect led to this host.
        sent: bool,
    },
    /// The connection cannot be opened.
    #[error("cannot connect to `{host}`: {source}")]
    Connect {
        /// Name of the host.
        host: String,
        /// Error of the last address.
        source: Arc<io::Error>,
        /// True if a redirect led to this host.
        sent: bool,
    },
    /// The TLS handshake failed.
    #[error("TLS handshake with `{host}` failed: {source}")]
    Tls {
        /// Name of the host.
        host: String,
        /// Error of the handshake.
        source: Arc<io::Error>,
        /// True if a redirect led to this host.
        sent: bool,
    },
    /// The trusted certificates cannot be loaded.
    #[error(transparent)]
    Trust(#[from] TlsError),
    /// The deadline passed, or the connection was not established in time.
    #[error("the request timed out")]
    Timeout {
        /// True if the request already had a connection.
        sent: bool,
    },
    /// The body exceeds the limit of its reader.
    #[error("the response exceeds {max} bytes")]
    TooLarge {
        /// Limit of the reader, in bytes.
        max: usize,
    },
    /// A redirect cannot be followed.
    #[error("cannot follow the redirect of `{host}`: {problem}")]
    Redirects {
        /// Host that sent the redirect.
        host: String,
        /// Reason for the failure.
        problem: String,
    },
    /// The response is not valid HTTP, or has an unrequested encoding.
    #[error("invalid response from `{host}`: {problem}")]
    Malformed {
        /// Name of the host.
        host: String,
        /// Reason for the failure.
        problem: String,
    },
    /// The connection was closed before the end of the response.
    #[error("the connection to `{host}` was closed before the end of the response: {source}")]
    Closed {
        /// Name of the host.
        host: String,
        /// Error of the connection.
        source: Arc<dyn Error + Send + Sync>,
    },
}

impl NetError {
    /// Returns the category of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Refused { .. } => ErrorKind::Denied,
            Self::Url { .. } | Self::Trust(_) => ErrorKind::Invalid,
            Self::Lookup { .. } | Self::Connect { .. } | Self::Closed { .. } => {
                ErrorKind::Unavailable
            }
            Self::Timeout { .. } => ErrorKind::Timeout,
            Self::TooLarge { .. } => ErrorKind::Exhausted,
            Self::Tls { .. } | Self::Redirects { .. } | Self::Malformed { .. } => {
                ErrorKind::Malformed
            }
        }
    }

    /// Returns true if the same request may succeed later. Repeating it may be unsafe: see
    /// [`may_have_arrived`](Self::may_have_arrived).
    pub fn retryable(&self) -> bool {
        self.kind().retryable()
    }

    /// Returns true if the request may have reached the server, so that a repetition could have a second effect.
    /// Returns false if it certainly has not.
    pub fn may_have_arrived(&self) -> bool {
        match self {
            Self::Refused { sent, .. }
            | Self::Url { sent, .. }
            | Self::Lookup { sent, .. }
            | Self::Connect { sent, .. }
            | Self::Tls { sent, .. }
            | Self::Timeout { sent } => *sent,
            Self::Trust(_) => false,
            Self::TooLarge { .. }
            | Self::Redirects { .. }
            | Self::Malformed { .. }
            | Self::Closed { .. } => true,
        }
    }

    /// Marks the error as sent, because an earlier request of the same call reached a server.
    pub(crate) fn after_redirect(mut self) -> Self {
        if let Self::Refused { sent, .. }
        | Self::Url { sent, .. }
        | Self::Lookup { sent, .. }
        | Self::Connect { sent, .. }
        | Self::Tls { sent, .. }
        | Self::Timeout { sent } = &mut self
        {
            *sent = true;
        }
        self
    }

    /// Creates the error of a request that the policy forbids, before it was sent.
    pub(crate) fn refused(
        host: impl Into<String>,
        address: Option<IpAddr>,
        reason: RefusalReason,
    ) -> Self {
        Self::Refused { host: host.into(), address, reason, sent: false }
    }

    /// Creates the error of a URL that cannot be requested.
    pub(crate) fn url(problem: impl Into<String>) -> Self {
        Self::Url { problem: problem.into(), sent: false }
    }

    /// Creates the error of a URL that exceeds [`URL_BYTES_MAX`].
    pub(crate) fn too_long() -> Self {
        Self::url(format!("it exceeds {URL_BYTES_MAX} bytes"))
    }

    /// Creates the error of a response that violates its format.
    pub(crate) fn malformed(host: &str, problem: impl Into<String>) -> Self {
        Self::Malformed { host: host.to_owned(), problem: problem.into() }
    }

    /// Converts an error of the connection pool like [`from_transport`](Self::from_transport), but as not sent: a
    /// closed connection is [`NetError::Connect`].
    pub(crate) fn from_connect(host: &str, error: impl Error + Send + Sync + 'static) -> Self {
        match Self::from_transport(host, error) {
            // The HTTP/2 handshake failed before any request.
            Self::Closed { host, source } => {
                Self::Connect { host, source: Arc::new(io::Error::other(source)), sent: false }
            }
            Self::Timeout { .. } => Self::Timeout { sent: false },
            error => error,
        }
    }

    /// Converts a transport error of a request that had a connection: the [`NetError`] in its chain of sources, an
    /// error of the response head, a timeout, or else [`NetError::Closed`].
    pub(crate) fn from_transport(host: &str, error: impl Error + Send + Sync + 'static) -> Self {
        let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
        while let Some(inner) = cause {
            if let Some(error) = inner.downcast_ref::<Self>() {
                return error.clone();
            }
            match inner.downcast_ref::<hyper::Error>() {
                Some(error) if error.is_parse_too_large() => {
                    return Self::malformed(host, "the response head is too large");
                }
                Some(error) if error.is_parse() => {
                    return Self::malformed(host, error.to_string());
                }
                Some(error) if error.is_timeout() => return Self::Timeout { sent: true },
                _ => cause = inner.source(),
            }
        }
        Self::Closed { host: host.to_owned(), source: Arc::new(error) }
    }
}

/// Reason why a policy refuses a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefusalReason {
    /// The loopback interface of this machine.
    Loopback,
    /// The local link.
    LinkLocal,
    /// The metadata service of a cloud, which returns credentials.
    Metadata,
    /// A private network.
    Private,
    /// The shared address space of a provider (100.64.0.0/10).
    Shared,
    /// The unspecified address, which systems treat as their own.
    Unspecified,
    /// A multicast address.
    Multicast,
    /// A reserved address.
    Reserved,
    /// An address for documentation.
    Documentation,
    /// An address for network benchmarks.
    Benchmark,
    /// A non-public address that is embedded in another one.
    Wrapped,
    /// A name of this machine.
    LocalName,
    /// The name of a cloud's metadata service.
    MetadataName,
    /// A port of another protocol.
    Port,
    /// Neither `https` nor `http`.
    Scheme,
    /// `http`, which is not encrypted.
    PlainHttp,
    /// A user name or password in the URL.
    Credentials,
    /// A method for proxies.
    Method,
    /// A redirect from `https` to `http`.
    Downgrade,
    /// A redirect that would send the body to another host.
    BodyElsewhere,
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "a loopback address (permit it with allow_loopback)",
            Self::LinkLocal => "a link-local address",
            Self::Metadata => "a metadata service",
            Self::Private => "a private network (permit it with allow_private)",
            Self::Shared => "a shared address of a provider",
            Self::Unspecified => "the unspecified address",
            Self::Multicast => "a multicast address",
            Self::Reserved => "a reserved address",
            Self::Documentation => "an address for documentation",
            Self::Benchmark => "an address for benchmarks",
            Self::Wrapped => "a non-public address embedded in another one",
            Self::LocalName => "a name of this machine (permit it with allow_loopback)",
            Self::MetadataName => "the name of a metadata service",
            Self::Port => "a port of another protocol",
            Self::Scheme => "a scheme other than https and http",
            Self::PlainHttp => "http without TLS (permit it with plain_http)",
            Self::Credentials => "a URL with a user name or password: use a header instead",
            Self::Method => "a method for proxies",
            Self::Downgrade => "a redirect from https to http",
            Self::BodyElsewhere => "a redirect that would send the body to another host",
        })
    }
}

/// Returns the message of a refusal, with the resolved address if the host is a name.
fn refusal_text(host: &str, address: Option<IpAddr>, reason: RefusalReason) -> String {
    match address {
        Some(address) if host != address.to_string() => {
            format!("`{host}` is refused: it resolves to {address}, {reason}")
        }
        _ if host.is_empty() => format!("the URL is refused: {reason}"),
        _ => format!("`{host}` is refused: {reason}"),
    }
}

/// Returns the error of a response that redirects after `allowed` redirects.
pub(crate) fn too_many(host: &str, allowed: u8) -> NetError {
    let problem = format!("more than {allowed} redirects (the maximum is {REDIRECTS_MAX})");
    NetError::Redirects { host: host.to_owned(), problem }
}
