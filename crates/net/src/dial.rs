//! Making connections, to checked addresses only.

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
use crate::lookup::Lookup;
use crate::policy::{NetPolicy, Target};

/// Makes connections under one policy: for wires that are not ours to speak, such as gRPC.
#[derive(Clone)]
pub struct Dialer {
    policy: NetPolicy,
    lookup: Arc<dyn Lookup>,
}

impl Dialer {
    /// Dials what the policy allows, by names as the lookup knows them.
    pub fn new(policy: NetPolicy, lookup: Arc<dyn Lookup>) -> Self {
        Self { policy, lookup }
    }

    /// The rules that it keeps.
    pub fn policy(&self) -> NetPolicy {
        self.policy
    }

    /// Connects to a host. A name is looked up once; if any of its addresses is forbidden, none is dialled.
    /// Dropping the future leaves no socket behind.
    pub async fn connect(
        &self,
        host: &str,
        port: u16,
        deadline: Instant,
    ) -> Result<TcpStream, NetError> {
        match timeout_at(deadline.into(), self.dial(host, port)).await {
            Ok(connected) => connected,
            Err(_) => Err(NetError::Timeout { sent: false }),
        }
    }

    pub(crate) async fn dial(&self, host: &str, port: u16) -> Result<TcpStream, NetError> {
        let addresses = self.addresses(host, port).await?;
        let stream = race(&addresses).await.map_err(|source| NetError::Connect {
            host: host.to_owned(),
            source: Arc::new(source),
            sent: false,
        })?;
        // Requests are small and answers are waited for.
        stream.set_nodelay(true).ok();
        Ok(stream)
    }

    /// All that a host leads to, each checked.
    async fn addresses(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, NetError> {
        let name = match self.policy.check_host(host, port)? {
            Target::Address(address) => return Ok(vec![SocketAddr::new(address, port)]),
            Target::Name(name) => name,
        };
        let failed =
            |source| NetError::Lookup { host: name.clone(), source: Arc::new(source), sent: false };
        let mut found = self.lookup.lookup(&name, port).await.map_err(failed)?;
        match found.len() {
            0 => return Err(failed(io::Error::new(io::ErrorKind::NotFound, "it has no address"))),
            1..=ADDRESSES_MAX => {}
            _ => return Err(failed(io::Error::other("it has too many addresses"))),
        }
        for address in &found {
            let address = address.ip();
            let refused = |why| NetError::refused(name.as_str(), Some(address), why);
            self.policy.check_address(address).map_err(refused)?;
        }
        found.truncate(DIALS_MAX);
        Ok(found)
    }
}

/// Connects to the first that answers. Each has a head start before the next one; those that lose are closed.
async fn race(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut waiting = addresses.iter();
    let mut dialled = FuturesUnordered::new();
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "there is no address");
    dialled.extend(waiting.next().map(TcpStream::connect));
    while !dialled.is_empty() {
        tokio::select! {
            biased;
            Some(connected) = dialled.next() => match connected {
                Ok(stream) => return Ok(stream),
                Err(error) => {
                    failure = error;
                    dialled.extend(waiting.next().map(TcpStream::connect));
                }
            },
            () = sleep(DIAL_STAGGER), if waiting.len() > 0 => {
                dialled.extend(waiting.next().map(TcpStream::connect));
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
