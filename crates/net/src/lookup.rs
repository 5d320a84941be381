//! From names to addresses.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Mutex, PoisonError};

use futures::future::BoxFuture;
use tokio::sync::Semaphore;

use crate::limits::LOOKUPS_MAX;

/// Finds the addresses of a name. What it says is checked, never trusted.
pub trait Lookup: Send + Sync + 'static {
    /// All addresses of a name, the best first, with the port to dial.
    fn lookup(&self, host: &str, port: u16) -> BoxFuture<'_, io::Result<Vec<SocketAddr>>>;
}

/// What the system says: its hosts file, its resolver.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemLookup;

/// Whoever waits for a resolver that does not answer can go; the thread that asks it cannot.
static LOOKUPS: Semaphore = Semaphore::const_new(LOOKUPS_MAX);

impl Lookup for SystemLookup {
    fn lookup(&self, host: &str, port: u16) -> BoxFuture<'_, io::Result<Vec<SocketAddr>>> {
        let host = host.to_owned();
        Box::pin(async move {
            let permit = LOOKUPS.acquire().await.map_err(io::Error::other)?;
            let asked = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                (host.as_str(), port).to_socket_addrs().map(Iterator::collect)
            });
            asked.await.map_err(io::Error::other)?
        })
    }
}

/// Names with their answers, by turn: for tests, also of names that change what they say.
#[derive(Debug, Default)]
pub struct TableLookup {
    names: Mutex<HashMap<String, Answers>>,
}

#[derive(Debug, Default)]
struct Answers {
    turns: Vec<Vec<SocketAddr>>,
    asked: usize,
}

impl TableLookup {
    /// Knows no name yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A name that always has the same addresses. Port 0 stands for the port that is asked for.
    #[must_use]
    pub fn name(self, name: &str, addresses: impl IntoIterator<Item = SocketAddr>) -> Self {
        self.turns(name, [addresses.into_iter().collect::<Vec<_>>()])
    }

    /// A name that says something else each time it is asked; the last answer stays.
    #[must_use]
    pub fn turns(self, name: &str, turns: impl IntoIterator<Item = Vec<SocketAddr>>) -> Self {
        let answers = Answers { turns: turns.into_iter().collect(), asked: 0 };
        self.names.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), answers);
        self
    }

    /// How often a name was asked for.
    pub fn asked(&self, name: &str) -> usize {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(name).map_or(0, |answers| answers.asked)
    }

    fn answer(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let unknown = || io::Error::new(io::ErrorKind::NotFound, "no such name in the table");
        let answers = names.get_mut(host).ok_or_else(unknown)?;
        let turn = answers.asked.min(answers.turns.len().saturating_sub(1));
        answers.asked += 1;
        let mut found = answers.turns.get(turn).cloned().unwrap_or_default();
        for address in found.iter_mut().filter(|address| address.port() == 0) {
            address.set_port(port);
        }
        Ok(found)
    }
}

impl Lookup for TableLookup {
    fn lookup(&self, host: &str, port: u16) -> BoxFuture<'_, io::Result<Vec<SocketAddr>>> {
        Box::pin(std::future::ready(self.answer(host, port)))
    }
}
