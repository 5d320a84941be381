//! Why a request has no answer, and whether it may have arrived all the same.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use provost_core::ErrorKind;

use crate::limits::{REDIRECTS_MAX, URL_BYTES_MAX};
use crate::tls::TlsError;

/// Why there is no answer. No text of it holds more of an address than its host: the rest may hold a key.
///
/// `sent` says whether the request, or one before it on the way of a redirect, may have reached the other side.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NetError {
    /// The policy forbids it. Nothing was dialled.
    #[error("{}", refusal(host, *address, *why))]
    Refused {
        /// The host that was named.
        host: String,
        /// The address that it leads to, where one was the reason.
        address: Option<IpAddr>,
        /// What is wrong with it.
        why: Why,
        /// True if a redirect led there.
        sent: bool,
    },
    /// The address or the request cannot be used.
    #[error("the address cannot be used: {problem}")]
    Url {
        /// What is wrong with it.
        problem: String,
        /// True if a redirect led there.
        sent: bool,
    },
    /// The name has no address, as far as is known now.
    #[error("the name `{host}` cannot be looked up: {source}")]
    Lookup {
        /// The name.
        host: String,
        /// What the resolver said.
        source: Arc<io::Error>,
        /// True if a redirect led there.
        sent: bool,
    },
    /// No connection: nobody listens, or the way is broken.
    #[error("no connection to `{host}`: {source}")]
    Connect {
        /// The host.
        host: String,
        /// What the system said of the last address.
        source: Arc<io::Error>,
        /// True if a redirect led there.
        sent: bool,
    },
    /// The other side could not prove who it is, or does not speak TLS.
    #[error("no secure connection to `{host}`: {source}")]
    Tls {
        /// The host.
        host: String,
        /// What is wrong.
        source: Arc<io::Error>,
        /// True if a redirect led there.
        sent: bool,
    },
    /// Whom to trust is not known.
    #[error(transparent)]
    Trust(#[from] TlsError),
    /// The deadline passed, or no connection stood in time.
    #[error("no answer in time")]
    Timeout {
        /// True if the request had a connection by then.
        sent: bool,
    },
    /// The body is larger than its reader takes.
    #[error("the answer has more than {max} bytes")]
    TooLarge {
        /// What the reader takes.
        max: usize,
    },
    /// A redirect cannot be followed.
    #[error("`{host}` redirects, and it cannot be followed: {problem}")]
    Redirects {
        /// Who redirects.
        host: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The other side does not speak HTTP, or not in the way that was asked for.
    #[error("`{host}` answers what cannot be read: {problem}")]
    Malformed {
        /// The host.
        host: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The connection ended before the answer did.
    #[error("the connection to `{host}` ended too early: {source}")]
    Closed {
        /// The host.
        host: String,
        /// What the connection said.
        source: Arc<dyn Error + Send + Sync>,
    },
}

impl NetError {
    /// What sort of failure it is.
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

    /// True if the same request may succeed later. Whether it may be made again is another question: see
    /// [`sent`](Self::sent).
    pub fn retryable(&self) -> bool {
        self.kind().retryable()
    }

    /// True if the request may have reached the other side: a second one could do its work twice.
    /// False means that it certainly did not.
    pub fn sent(&self) -> bool {
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

    /// The same, after an earlier request of the same call was answered.
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

    pub(crate) fn refused(host: impl Into<String>, address: Option<IpAddr>, why: Why) -> Self {
        Self::Refused { host: host.into(), address, why, sent: false }
    }

    pub(crate) fn url(problem: impl Into<String>) -> Self {
        Self::Url { problem: problem.into(), sent: false }
    }

    pub(crate) fn too_long() -> Self {
        Self::url(format!("it is too long: use at most {URL_BYTES_MAX} bytes"))
    }

    pub(crate) fn malformed(host: &str, problem: impl Into<String>) -> Self {
        Self::Malformed { host: host.to_owned(), problem: problem.into() }
    }

    /// What the pool says of a connection that it did not get.
    pub(crate) fn of_connect(host: &str, error: impl Error + Send + Sync + 'static) -> Self {
        match Self::of_transport(host, error) {
            // The handshake of HTTP/2 broke off, before any request.
            Self::Closed { host, source } => {
                Self::Connect { host, source: Arc::new(io::Error::other(source)), sent: false }
            }
            Self::Timeout { .. } => Self::Timeout { sent: false },
            error => error,
        }
    }

    /// What the transport says of a request that had a connection.
    pub(crate) fn of_transport(host: &str, error: impl Error + Send + Sync + 'static) -> Self {
        let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
        while let Some(inner) = cause {
            if let Some(error) = inner.downcast_ref::<Self>() {
                return error.clone();
            }
            match inner.downcast_ref::<hyper::Error>() {
                Some(error) if error.is_parse_too_large() => {
                    return Self::malformed(host, "its head is too large");
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

/// What a policy has against an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    /// This machine.
    Loopback,
    /// The wire that this machine is on.
    LinkLocal,
    /// What a cloud tells its machines about themselves, keys included.
    Metadata,
    /// The network this machine is in.
    Private,
    /// The network of a provider, between its customers (100.64.0.0/10).
    Shared,
    /// No address at all, which systems take for their own.
    Unspecified,
    /// Many machines.
    Multicast,
    /// Set aside, never given out.
    Reserved,
    /// For examples in books.
    Documentation,
    /// For measuring networks.
    Benchmark,
    /// An address inside, wrapped in one of another kind.
    Wrapped,
    /// A name that means this machine.
    LocalName,
    /// A name that means a cloud's metadata.
    MetadataName,
    /// A port of another protocol.
    Port,
    /// Neither `https` nor `http`.
    Scheme,
    /// `http`, which anybody on the way can read.
    PlainHttp,
    /// A user or a password in the address.
    Credentials,
    /// A method that is for proxies.
    Method,
    /// A redirect from `https` to `http`.
    Downgrade,
    /// A redirect that would give the body to another host.
    BodyElsewhere,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "this machine itself (allow_loopback opens it)",
            Self::LinkLocal => "a link-local address",
            Self::Metadata => "a metadata service",
            Self::Private => "a private network (allow_private opens it)",
            Self::Shared => "a provider's shared network",
            Self::Unspecified => "no address at all",
            Self::Multicast => "a multicast address",
            Self::Reserved => "a reserved address",
            Self::Documentation => "an address for documentation",
            Self::Benchmark => "an address for benchmarks",
            Self::Wrapped => "an inside address wrapped in another one",
            Self::LocalName => "a name of this machine (allow_loopback opens it)",
            Self::MetadataName => "the name of a metadata service",
            Self::Port => "a port of another protocol than HTTP",
            Self::Scheme => "a scheme other than https and http",
            Self::PlainHttp => "http without TLS (plain_http opens it)",
            Self::Credentials => "an address with a user or a password in it: send a header",
            Self::Method => "a method for proxies",
            Self::Downgrade => "a redirect from https to http",
            Self::BodyElsewhere => "a redirect that would give the body to another host",
        })
    }
}

fn refusal(host: &str, address: Option<IpAddr>, why: Why) -> String {
    match address {
        Some(address) if host != address.to_string() => {
            format!("`{host}` is refused: it leads to {address}, {why}")
        }
        _ if host.is_empty() => format!("the address is refused: {why}"),
        _ => format!("`{host}` is refused: {why}"),
    }
}

/// The redirects were too many.
pub(crate) fn too_many(host: &str, allowed: u8) -> NetError {
    let problem = format!("more than {allowed} in a row (never more than {REDIRECTS_MAX})");
    NetError::Redirects { host: host.to_owned(), problem }
}
