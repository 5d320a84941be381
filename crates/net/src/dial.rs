//! Connections to checked addresses.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use futures::stream::{FuturesUnordered, StreamExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout_at};

use crate::error::NetError;
use crate::limits::{ADDRESSES_MAX, DIAL_STAGGER, DIALS_MAX};
use crate::policy::{DialTarget, NetPolicy};
use crate::resolver::Resolver;

/// Opens TCP connections under one policy, for protocols with their own implementation, such as gRPC.
#[derive(Clone)]
pub struct Dialer {
    policy: NetPolicy,
    resolver: Arc<dyn Resolver>,
}

impl Dialer {
    /// Creates a dialer with a policy and a resolver.
    pub fn new(policy: NetPolicy, resolver: Arc<dyn Resolver>) -> Self {
        Self { policy, resolver }
    }

    /// Returns the policy that every address must satisfy.
    pub fn policy(&self) -> NetPolicy {
        self.policy
    }

    /// Connects to a host until the deadline. A name is resolved once; if any of its addresses is forbidden, none is
    /// dialled. Dropping the future closes all sockets.
    pub async fn connect(
        &self,
        host: &str,
        port: u16,
        deadline: Instant,
    ) -> Result<TcpStream, NetError> {
        match timeout_at(deadline.into(), self.connect_without_deadline(host, port)).await {
            Ok(connected) => connected,
            Err(_) => Err(NetError::Timeout { sent: false }),
        }
    }

    /// Connects like [`Dialer::connect`], without a deadline. Sets `TCP_NODELAY`.
    pub(crate) async fn connect_without_deadline(
        &self,
        host: &str,
        port: u16,
    ) -> Result<TcpStream, NetError> {
        let addresses = self.addresses(host, port).await?;
        let stream = race(&addresses).await.map_err(|source| NetError::Connect {
            host: host.to_owned(),
            source: Arc::new(source),
            sent: false,
        })?;
        // Requests are small and latency matters.
        stream.set_nodelay(true).ok();
        Ok(stream)
    }

    /// Resolves a host and returns the first [`DIALS_MAX`] addresses. If the policy forbids any of the resolved
    /// addresses, or there are none or more than [`ADDRESSES_MAX`], the call fails.
    async fn addresses(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, NetError> {
        let name = match self.policy.check_host(host, port)? {
            DialTarget::Address(address) => return Ok(vec![SocketAddr::new(address, port)]),
            DialTarget::Name(name) => name,
        };
        let failed =
            |source| NetError::Lookup { host: name.clone(), source: Arc::new(source), sent: false };
        let mut found = self.resolver.resolve(&name, port).await.map_err(failed)?;
        match found.len() {
            0 => {
                return Err(failed(io::Error::new(
                    io::ErrorKind::NotFound,
                    "the name has no address",
                )));
            }
            1..=ADDRESSES_MAX => {}
            _ => return Err(failed(io::Error::other("the name has too many addresses"))),
        }
        for address in &found {
            let address = address.ip();
            let refused = |reason| NetError::refused(name.as_str(), Some(address), reason);
            self.policy.check_address(address).map_err(refused)?;
        }
        found.truncate(DIALS_MAX);
        Ok(found)
    }
}

/// Connects to the first address that accepts. Each address has a head start before the next one is tried; the other
/// attempts are cancelled. If all addresses refuse, returns the last error.
async fn race(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut remaining = addresses.iter();
    let mut dialled = FuturesUnordered::new();
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "no address to connect to");
    dialled.extend(remaining.next().map(TcpStream::connect));
    while !dialled.is_empty() {
        tokio::select! {
            biased;
            Some(connected) = dialled.next() => match connected {
                Ok(stream) => return Ok(stream),
                Err(error) => {
                    failure = error;
                    dialled.extend(remaining.next().map(TcpStream::connect));
                }
            },
            () = sleep(DIAL_STAGGER), if remaining.len() > 0 => {
                dialled.extend(remaining.next().map(TcpStream::connect));
            }
        }
    }
    Err(failure)
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer").field("policy", &self.policy).finish_non_exhaustive()
    }
}
