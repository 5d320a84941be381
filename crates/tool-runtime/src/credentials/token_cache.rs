//! Cache of access tokens. Concurrent callers share one token request.

use std::collections::HashMap;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;
use provost_core::{Env, Secret, Timestamp};
use provost_secret::SecretError;

use super::SharedError;
use super::oauth::{Client, ClientId, Fetcher, Token};

/// Maximum number of cached tokens. The least recently used token is evicted.
pub const TOKENS_MAX: usize = 1024;
/// Time after an invalidation in which further rejections of the same token are ignored.
const REJECTION_GRACE: Duration = Duration::from_secs(10);

type TokenRequest = BoxFuture<'static, Result<Token, SharedError>>;

/// Tokens by client, with the requests that fetch them.
pub(super) struct TokenCache {
    entries: Mutex<CacheEntries>,
    env: Env,
}

/// Entries by client, with a counter that orders their last uses.
#[derive(Default)]
struct CacheEntries {
    map: HashMap<ClientId, CacheEntry>,
    clock: u64,
}

/// Token of one client, and the request that fetches it.
#[derive(Default)]
struct CacheEntry {
    token: Option<Token>,
    /// The running token request. Its caller may be gone.
    request: Option<WeakShared<TokenRequest>>,
    /// Number of callers that received the token.
    token_uses: u64,
    /// Number of callers of the previous token whose rejections are still ignored, and until when.
    ignored_rejections: (u64, Timestamp),
    last_used: u64,
}

impl TokenCache {
    pub(super) fn new(env: Env) -> Self {
        Self { entries: Mutex::default(), env }
    }

    /// Returns the token of a client. Fetches it if it is not cached or has expired. Concurrent callers share one
    /// request.
    pub(super) async fn get(
        &self,
        client: &Client,
        fetcher: &Fetcher,
    ) -> Result<Secret<String>, SecretError> {
        let request = match self.lookup(client, fetcher) {
            Ok(token) => return Ok(token),
            Err(request) => request,
        };
        let result = request.clone().await;
        let mut entries = self.entries.lock();
        let entry = entries.entry(&client.id);
        match result {
            Ok(token) => {
                // The first task that resumes stores the token for all.
                if entry
                    .request
                    .take_if(|current| current.upgrade().is_some_and(|it| it.ptr_eq(&request)))
                    .is_some()
                {
                    entry.token = Some(token.clone());
                    entry.token_uses = 0;
                }
                entry.token_uses += 1;
                Ok(token.value)
            }
            Err(error) => {
                entry
                    .request
                    .take_if(|current| current.upgrade().is_some_and(|it| it.ptr_eq(&request)));
                Err((*error).clone())
            }
        }
    }

    /// Removes a rejected token. Returns true if the caller can try a new token: the cache had the token, or another
    /// caller has just removed it.
    pub(super) fn invalidate(&self, client: &Client) -> bool {
        let now = self.env.now();
        let mut entries = self.entries.lock();
        let entry = entries.entry(&client.id);
        // All callers of a rejected token report it. Only the first report removes it; later ones must not remove its
        // successor.
        if entry.ignored_rejections.0 > 0 && now < entry.ignored_rejections.1 {
            entry.ignored_rejections.0 -= 1;
            return true;
        }
        let was_cached = entry.token.take().is_some();
        if was_cached {
            entry.ignored_rejections =
                (entry.token_uses.saturating_sub(1), now.after(REJECTION_GRACE));
            entry.token_uses = 0;
        }
        was_cached
    }

    /// Returns the cached token. Otherwise returns the running request for it, and starts one if there is none.
    fn lookup(
        &self,
        client: &Client,
        fetcher: &Fetcher,
    ) -> Result<Secret<String>, Shared<TokenRequest>> {
        let now = self.env.now();
        let mut entries = self.entries.lock();
        let entry = entries.entry(&client.id);
        if let Some(token) = entry.token.as_ref().filter(|token| now < token.until) {
            entry.token_uses += 1;
            return Ok(token.value.clone());
        }
        entry.token = None;
        if let Some(request) = entry.request.as_ref().and_then(WeakShared::upgrade) {
            return Err(request);
        }
        let request: Shared<TokenRequest> =
            fetcher.fetch(client.clone(), self.env.clone()).boxed().shared();
        entry.request = request.downgrade();
        Err(request)
    }
}

impl CacheEntries {
    /// Returns the entry of a client, and adds it if needed. Evicts the least recently used entry if there are too
    /// many.
    fn entry(&mut self, id: &ClientId) -> &mut CacheEntry {
        self.clock += 1;
        if self.map.len() >= TOKENS_MAX && !self.map.contains_key(id) {
            let oldest = self.map.iter().min_by_key(|(_, entry)| entry.last_used);
            if let Some(oldest) = oldest.map(|(id, _)| id.clone()) {
                self.map.remove(&oldest);
            }
        }
        let entry = self.map.entry(id.clone()).or_default();
        entry.last_used = self.clock;
        entry
    }
}
