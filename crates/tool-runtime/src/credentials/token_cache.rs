//! Tokens that were fetched: each one once, however many ask, and not longer than it is good for.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use provost_core::{Env, Secret, Timestamp};
use provost_secret::SecretError;

use super::SharedError;
use super::oauth::{Client, ClientId, Fetcher, Token};

/// Tokens that are kept at once. Beyond it the one that was used longest ago goes.
pub const TOKENS_MAX: usize = 1024;
/// How long after a token was thrown away others may still complain about it.
const COMPLAINT_TIME: Duration = Duration::from_secs(10);

type Flight = BoxFuture<'static, Result<Token, SharedError>>;

/// Tokens by who fetched them.
pub(super) struct TokenCache {
    entries: Mutex<Entries>,
    env: Env,
}

#[derive(Default)]
struct Entries {
    map: HashMap<ClientId, Entry>,
    clock: u64,
}

#[derive(Default)]
struct Entry {
    token: Option<Token>,
    /// Somebody fetches it. Nobody may be left who does.
    flight: Option<WeakShared<Flight>>,
    /// How many got the token.
    handed: u64,
    /// How many who got the token before may still say that it is not valid, and until when they are heard.
    complaints: (u64, Timestamp),
    used: u64,
}

impl TokenCache {
    pub(super) fn new(env: Env) -> Self {
        Self { entries: Mutex::default(), env }
    }

    /// The token, fetched if there is none. Those who come while it is fetched wait for the same answer.
    pub(super) async fn get(
        &self,
        client: &Client,
        fetcher: &Fetcher,
    ) -> Result<Secret<String>, SecretError> {
        let flight = match self.look(client, fetcher) {
            Ok(token) => return Ok(token),
            Err(flight) => flight,
        };
        let landed = flight.clone().await;
        let mut entries = self.lock();
        let entry = entries.entry(&client.id);
        match landed {
            Ok(token) => {
                // The first one to wake up puts it there for all.
                if entry
                    .flight
                    .take_if(|mine| mine.upgrade().is_some_and(|it| it.ptr_eq(&flight)))
                    .is_some()
                {
                    entry.token = Some(token.clone());
                    entry.handed = 0;
                }
                entry.handed += 1;
                Ok(token.value)
            }
            Err(error) => {
                entry.flight.take_if(|mine| mine.upgrade().is_some_and(|it| it.ptr_eq(&flight)));
                Err((*error).clone())
            }
        }
    }

    /// Throws the token away. True if there was one, or if it was thrown away just now for somebody else.
    pub(super) fn evict(&self, client: &Client) -> bool {
        let now = self.env.now();
        let mut entries = self.lock();
        let entry = entries.entry(&client.id);
        // Many had the same token and all were told that it is bad: one of them throws it away, not each of them the next one.
        if entry.complaints.0 > 0 && now < entry.complaints.1 {
            entry.complaints.0 -= 1;
            return true;
        }
        let had = entry.token.take().is_some();
        if had {
            entry.complaints = (entry.handed.saturating_sub(1), now.after(COMPLAINT_TIME));
            entry.handed = 0;
        }
        had
    }

    /// The token, or the flight that brings it.
    fn look(&self, client: &Client, fetcher: &Fetcher) -> Result<Secret<String>, Shared<Flight>> {
        let now = self.env.now();
        let mut entries = self.lock();
        let entry = entries.entry(&client.id);
        if let Some(token) = entry.token.as_ref().filter(|token| now < token.until) {
            entry.handed += 1;
            return Ok(token.value.clone());
        }
        entry.token = None;
        if let Some(flight) = entry.flight.as_ref().and_then(WeakShared::upgrade) {
            return Err(flight);
        }
        let flight: Shared<Flight> =
            fetcher.fetch(client.clone(), self.env.clone()).boxed().shared();
        entry.flight = flight.downgrade();
        Err(flight)
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn entry(&mut self, id: &ClientId) -> &mut Entry {
        self.clock += 1;
        if self.map.len() >= TOKENS_MAX && !self.map.contains_key(id) {
            let oldest = self.map.iter().min_by_key(|(_, entry)| entry.used);
            if let Some(oldest) = oldest.map(|(id, _)| id.clone()) {
                self.map.remove(&oldest);
            }
        }
        let entry = self.map.entry(id.clone()).or_default();
        entry.used = self.clock;
        entry
    }
}
