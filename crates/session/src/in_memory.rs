//! A session store in the memory of this process, for tests and for programs that need no persistence.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use provost_core::{Env, Timestamp};

use crate::store::{
    SessionChange, SessionError, SessionFuture, SessionInfo, SessionStore, Transcript, check_base,
    check_id,
};

/// Session store in the memory of this process. Clones share the sessions, which are lost when the last clone is
/// dropped.
#[derive(Debug, Clone, Default)]
pub struct InMemorySessionStore {
    sessions: Arc<Mutex<HashMap<String, StoredSession>>>,
    env: Env,
}

/// Transcript of a session and the time of its last change.
#[derive(Debug, Default)]
struct StoredSession {
    transcript: Transcript,
    updated_at: Timestamp,
}

impl InMemorySessionStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the source of time. The default is the system clock.
    #[must_use]
    pub fn with_env(mut self, env: Env) -> Self {
        self.env = env;
        self
    }

    /// Applies a change to a session, creates a missing one, and returns the new revision. Fails if `base` is not its
    /// revision.
    fn apply(&self, id: &str, base: u64, change: SessionChange) -> Result<u64, SessionError> {
        check_id(id)?;
        let mut sessions = self.sessions.lock();
        let found = sessions.get(id).map_or(0, |stored| stored.transcript.revision);
        check_base(id, base, found)?;
        let stored = sessions.entry(id.to_owned()).or_default();
        let messages = &mut stored.transcript.messages;
        messages.truncate(messages.len().saturating_sub(change.pop));
        messages.extend(change.add);
        stored.transcript.revision = found + 1;
        stored.updated_at = self.env.now();
        Ok(found + 1)
    }

    /// Returns all sessions, most recently changed first.
    fn infos(&self) -> Vec<SessionInfo> {
        let mut infos: Vec<_> = self
            .sessions
            .lock()
            .iter()
            .map(|(id, stored)| SessionInfo {
                id: id.clone(),
                messages: stored.transcript.messages.len(),
                updated_at: stored.updated_at,
            })
            .collect();
        infos.sort_by(|a, b| b.updated_at.cmp(&a.updated_at).then_with(|| a.id.cmp(&b.id)));
        infos
    }
}

impl SessionStore for InMemorySessionStore {
    fn load<'a>(&'a self, id: &'a str) -> SessionFuture<'a, Option<Transcript>> {
        Box::pin(async move {
            check_id(id)?;
            Ok(self.sessions.lock().get(id).map(|stored| stored.transcript.clone()))
        })
    }

    fn commit<'a>(
        &'a self,
        id: &'a str,
        base: u64,
        change: SessionChange,
    ) -> SessionFuture<'a, u64> {
        Box::pin(async move { self.apply(id, base, change) })
    }

    fn delete<'a>(&'a self, id: &'a str) -> SessionFuture<'a, bool> {
        Box::pin(async move {
            check_id(id)?;
            Ok(self.sessions.lock().remove(id).is_some())
        })
    }

    fn list(&self) -> SessionFuture<'_, Vec<SessionInfo>> {
        Box::pin(async move { Ok(self.infos()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance;

    #[tokio::test]
    async fn s219_s220_memory_sessions_conform() {
        let sessions = InMemorySessionStore::new();
        conformance::all(move || Arc::new(sessions.clone())).await.unwrap();
    }

    #[tokio::test]
    async fn listing_is_newest_first() {
        let env = Env::simulated(1);
        let sessions = InMemorySessionStore::new().with_env(env.clone());
        conformance::listing_is_newest_first(&sessions, || {
            env.advance(std::time::Duration::from_secs(1))
        })
        .await
        .unwrap();
    }
}
