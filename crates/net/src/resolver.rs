//! Resolution of names to addresses.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::limits::LOOKUPS_MAX;

/// Finds the addresses of a name. The caller checks the result.
pub trait Resolver: Send + Sync + 'static {
    /// Returns all addresses of a name in order of preference, with the port to dial.
    fn resolve(&self, host: &str, port: u16) -> BoxFuture<'_, io::Result<Vec<SocketAddr>>>;
}

/// Resolver of the system, with its hosts file and DNS.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

/// A caller can stop waiting for an unresponsive resolver, but its thread cannot be interrupted.
static LOOKUPS: Semaphore = Semaphore::const_new(LOOKUPS_MAX);

impl Resolver for SystemResolver {
    fn resolve(&self, host: &str, port: u16) -> BoxFuture<'_, io::Result<Vec<SocketAddr>>> {
        let host = host.to_owned();
        Box::pin(async move {
            let permit = LOOKUPS.acquire().await.map_err(io::Error::other)?;
            let queries = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                (host.as_str(), port).to_socket_addrs().map(Iterator::collect)
            });
            queries.await.map_err(io::Error::other)?
        })
    }
}

/// Resolver with fixed results for tests. A name can return different addresses on successive queries.
#[derive(Debug, Default)]
pub struct StaticResolver {
    names: Mutex<HashMap<String, StaticRecord>>,
}

/// Results of one name, and how often it was resolved.
#[derive(Debug, Default)]
struct StaticRecord {
    sequence: Vec<Vec<SocketAddr>>,
    queries: usize,
}

impl StaticResolver {
    /// Creates a resolver without names.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a name with fixed addresses. Port 0 is replaced by the requested port.
    #[must_use]
    pub fn name(self, name: &str, addresses: impl IntoIterator<Item = SocketAddr>) -> Self {
        self.sequence(name, [addresses.into_iter().collect::<Vec<_>>()])
    }

    /// Adds a name that returns the next result on each query. The last result is repeated.
    #[must_use]
    pub fn sequence(self, name: &str, sequence: impl IntoIterator<Item = Vec<SocketAddr>>) -> Self {
        let answers = StaticRecord { sequence: sequence.into_iter().collect(), queries: 0 };
        self.names.lock().insert(name.to_owned(), answers);
        self
    }

    /// Returns the number of queries for a name.
    pub fn queries(&self, name: &str) -> usize {
        let names = self.names.lock();
        names.get(name).map_or(0, |answers| answers.queries)
    }

    /// Returns the next result of a name and counts the query. Port 0 is replaced by `port`.
    fn answer(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let mut names = self.names.lock();
        let unknown = || io::Error::new(io::ErrorKind::NotFound, "no such name in the table");
        let answers = names.get_mut(host).ok_or_else(unknown)?;
        let turn = answers.queries.min(answers.sequence.len().saturating_sub(1));
        answers.queries += 1;
        let mut found = answers.sequence.get(turn).cloned().unwrap_or_default();
        for address in found.iter_mut().filter(|address| address.port() == 0) {
            address.set_port(port);
        }
        Ok(found)
    }
}

impl Resolver for StaticResolver {
    fn resolve(&self, host: &str, port: u16) -> BoxFuture<'_, io::Result<Vec<SocketAddr>>> {
        Box::pin(std::future::ready(self.answer(host, port)))
    }
}
