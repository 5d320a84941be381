//! The tokens that were seen a moment ago, so that a request needs no look into the database.
//!
//! What is known may be [`FRESH`] old: a token that another process takes back works for so long here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use provost_core::{Timestamp, TokenId};
use tokio::time::Instant;

use super::Principal;
use super::token::Hash;

/// How long an entry counts.
pub(crate) const FRESH: Duration = Duration::from_secs(5);
/// How often it is noted that a token was used.
const NOTED: Duration = Duration::from_secs(60);
/// Entries at most, also of tokens that do not exist.
const ENTRIES_MAX: usize = 10_000;

/// A token that may be used.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) hash: Hash,
    pub(crate) who: Arc<Principal>,
    pub(crate) expires: Option<Timestamp>,
    pub(crate) last_used: Option<Timestamp>,
}

/// What is known of a token.
#[derive(Debug)]
pub(crate) struct Seen {
    /// Nothing if there is no such token, or it was taken back.
    pub(crate) token: Option<Arc<Known>>,
    /// True if it was noted a moment ago that it is used.
    pub(crate) noted: bool,
}

struct Entry {
    /// Nothing if there is no such token, or it was taken back.
    token: Option<Arc<Known>>,
    read: Instant,
    noted: Option<Instant>,
}

/// The tokens that were seen a moment ago.
#[derive(Default)]
pub(crate) struct KnownTokens {
    entries: Mutex<HashMap<TokenId, Entry>>,
}

impl KnownTokens {
    /// What is known of a token, if it is fresh: outer nothing means that the database must be asked.
    pub(crate) fn get(&self, id: TokenId) -> Option<Seen> {
        let (entries, now) = (self.entries(), Instant::now());
        let entry = entries.get(&id).filter(|entry| now.duration_since(entry.read) < FRESH)?;
        let noted = entry.noted.is_some_and(|at| now.duration_since(at) < NOTED);
        Some(Seen { token: entry.token.clone(), noted })
    }

    /// Keeps what the database said.
    pub(crate) fn put(&self, id: TokenId, token: Option<Arc<Known>>) {
        let mut entries = self.entries();
        if entries.len() >= ENTRIES_MAX {
            entries.retain(|_, entry| entry.token.is_some() && entry.read.elapsed() < FRESH);
            if entries.len() >= ENTRIES_MAX {
                entries.clear();
            }
        }
        let noted = entries.get(&id).and_then(|entry| entry.noted);
        entries.insert(id, Entry { token, read: Instant::now(), noted });
    }

    /// Forgets a token, so that the next request asks the database.
    pub(crate) fn forget(&self, id: TokenId) {
        self.entries().remove(&id);
    }

    /// True once a minute: then it is time to note that the token was used.
    pub(crate) fn is_due(&self, id: TokenId, now: Timestamp) -> bool {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(&id) else {
            return false;
        };
        let stored = entry.token.as_ref().and_then(|token| token.last_used);
        let stored = stored.is_some_and(|at| now.since(at) < NOTED);
        if entry.noted.is_some_and(|at| at.elapsed() < NOTED) || stored {
            return false;
        }
        entry.noted = Some(Instant::now());
        true
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<TokenId, Entry>> {
        // Nothing that can fail happens under this lock.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use provost_core::Env;

    use super::*;

    fn token(last_used: Option<Timestamp>) -> Arc<Known> {
        Arc::new(Known {
            hash: [0; 32],
            who: Arc::new(Principal::local()),
            expires: None,
            last_used,
        })
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_known_is_known_for_a_moment_only() {
        let (known, id) = (KnownTokens::default(), Env::system().id());
        assert!(known.get(id).is_none());
        known.put(id, None);
        assert!(known.get(id).unwrap().token.is_none());
        known.put(id, Some(token(None)));
        assert!(known.get(id).unwrap().token.is_some());
        tokio::time::advance(FRESH).await;
        assert!(known.get(id).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn use_is_noted_once_a_minute() {
        let (known, env) = (KnownTokens::default(), Env::system());
        let (id, other, now) = (env.id(), env.id(), env.now());
        known.put(id, Some(token(None)));
        known.put(other, Some(token(Some(now))));
        assert!(known.is_due(id, now) && !known.is_due(id, now));
        assert!(!known.is_due(other, now));
        tokio::time::advance(NOTED).await;
        known.put(id, Some(token(None)));
        assert!(known.is_due(id, now) && known.is_due(other, now.after(NOTED)));
    }

    #[tokio::test]
    async fn strangers_cannot_fill_the_memory() {
        let (known, env) = (KnownTokens::default(), Env::system());
        let good = env.id();
        known.put(good, Some(token(None)));
        for _ in 0..ENTRIES_MAX + 10 {
            known.put(env.id(), None);
        }
        assert!(known.entries().len() < ENTRIES_MAX);
        assert!(known.get(good).is_some());
    }
}
