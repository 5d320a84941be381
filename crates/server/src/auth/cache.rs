//! Cache of recently used tokens, so that most requests need no database lookup.
//!
//! An entry is valid for [`TTL`]. A token that another process revokes remains valid here for that time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use provost_core::{Timestamp, TokenId};
use tokio::time::Instant;

use super::Principal;
use super::token::Hash;

/// Lifetime of an entry.
pub(crate) const TTL: Duration = Duration::from_secs(5);
/// Minimum interval between two records of a token's use.
const USE_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of entries, including those of tokens that do not exist.
const ENTRIES_MAX: usize = 10_000;

/// A valid token.
#[derive(Debug)]
pub(crate) struct CachedToken {
    pub(crate) hash: Hash,
    pub(crate) principal: Arc<Principal>,
    pub(crate) expires: Option<Timestamp>,
    pub(crate) last_used: Option<Timestamp>,
}

/// Result of a cache lookup.
#[derive(Debug)]
pub(crate) struct CacheLookup {
    /// The token. `None` if it does not exist or is revoked.
    pub(crate) token: Option<Arc<CachedToken>>,
    /// True if the use of the token was recorded recently.
    pub(crate) is_use_recorded: bool,
}

struct Entry {
    /// The token. `None` if it does not exist or is revoked.
    token: Option<Arc<CachedToken>>,
    read: Instant,
    use_recorded: Option<Instant>,
}

/// Cache of tokens by id.
#[derive(Default)]
pub(crate) struct TokenCache {
    entries: Mutex<HashMap<TokenId, Entry>>,
}

impl TokenCache {
    /// Looks up a token. `None` if the cache has no valid entry.
    pub(crate) fn get(&self, id: TokenId) -> Option<CacheLookup> {
        let (entries, now) = (self.entries.lock(), Instant::now());
        let entry = entries.get(&id).filter(|entry| now.duration_since(entry.read) < TTL)?;
        let is_use_recorded =
            entry.use_recorded.is_some_and(|at| now.duration_since(at) < USE_INTERVAL);
        Some(CacheLookup { token: entry.token.clone(), is_use_recorded })
    }

    /// Stores the result of a database lookup.
    pub(crate) fn put(&self, id: TokenId, token: Option<Arc<CachedToken>>) {
        let mut entries = self.entries.lock();
        if entries.len() >= ENTRIES_MAX {
            entries.retain(|_, entry| entry.token.is_some() && entry.read.elapsed() < TTL);
            if entries.len() >= ENTRIES_MAX {
                entries.clear();
            }
        }
        let use_recorded = entries.get(&id).and_then(|entry| entry.use_recorded);
        entries.insert(id, Entry { token, read: Instant::now(), use_recorded });
    }

    /// Removes a token, so that the next request reads the database.
    pub(crate) fn forget(&self, id: TokenId) {
        self.entries.lock().remove(&id);
    }

    /// Returns true if the use of the token must be recorded now. It returns true at most once per interval.
    pub(crate) fn should_record_use(&self, id: TokenId, now: Timestamp) -> bool {
        let mut entries = self.entries.lock();
        let Some(entry) = entries.get_mut(&id) else {
            return false;
        };
        let stored = entry.token.as_ref().and_then(|token| token.last_used);
        let stored = stored.is_some_and(|at| now.since(at) < USE_INTERVAL);
        if entry.use_recorded.is_some_and(|at| at.elapsed() < USE_INTERVAL) || stored {
            return false;
        }
        entry.use_recorded = Some(Instant::now());
        true
    }
}

#[cfg(test)]
mod tests {
    use provost_core::Env;

    use super::*;

    fn token(last_used: Option<Timestamp>) -> Arc<CachedToken> {
        Arc::new(CachedToken {
            hash: [0; 32],
            principal: Arc::new(Principal::local()),
            expires: None,
            last_used,
        })
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_known_is_known_for_a_moment_only() {
        let (cache, id) = (TokenCache::default(), Env::system().id());
        assert!(cache.get(id).is_none());
        cache.put(id, None);
        assert!(cache.get(id).unwrap().token.is_none());
        cache.put(id, Some(token(None)));
        assert!(cache.get(id).unwrap().token.is_some());
        tokio::time::advance(TTL).await;
        assert!(cache.get(id).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn use_is_noted_once_a_minute() {
        let (cache, env) = (TokenCache::default(), Env::system());
        let (id, other, now) = (env.id(), env.id(), env.now());
        cache.put(id, Some(token(None)));
        cache.put(other, Some(token(Some(now))));
        assert!(cache.should_record_use(id, now) && !cache.should_record_use(id, now));
        assert!(!cache.should_record_use(other, now));
        tokio::time::advance(USE_INTERVAL).await;
        cache.put(id, Some(token(None)));
        assert!(
            cache.should_record_use(id, now)
                && cache.should_record_use(other, now.after(USE_INTERVAL))
        );
    }

    #[tokio::test]
    async fn strangers_cannot_fill_the_memory() {
        let (cache, env) = (TokenCache::default(), Env::system());
        let good = env.id();
        cache.put(good, Some(token(None)));
        for _ in 0..ENTRIES_MAX + 10 {
            cache.put(env.id(), None);
        }
        assert!(cache.entries.lock().len() < ENTRIES_MAX);
        assert!(cache.get(good).is_some());
    }
}
