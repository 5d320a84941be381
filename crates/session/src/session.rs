//! One session of a store, for programs that read and write it outside of a run.

use std::fmt;
use std::sync::Arc;

use provost_core::Message;

use crate::store::{SessionChange, SessionError, SessionStore, Transcript};

/// Times a change is tried again because somebody else wrote first.
const CONFLICT_RETRIES_MAX: u32 = 100;

/// One session of a store.
///
/// Each change reads the session first and, if somebody else wrote in between, starts over: no write is lost.
#[derive(Clone)]
pub struct Session {
    store: Arc<dyn SessionStore>,
    id: String,
}

impl Session {
    /// The session of this id, whether it exists yet or not.
    pub fn new(store: Arc<dyn SessionStore>, id: impl Into<String>) -> Self {
        Self { store, id: id.into() }
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Where it is kept.
    pub fn store(&self) -> &Arc<dyn SessionStore> {
        &self.store
    }

    /// True if it exists, be it without messages.
    pub async fn exists(&self) -> Result<bool, SessionError> {
        Ok(self.store.load(&self.id).await?.is_some())
    }

    /// Creates it without messages. One that exists already is a [`SessionError::Conflict`].
    pub async fn create(&self) -> Result<(), SessionError> {
        self.store.commit(&self.id, 0, SessionChange::default()).await?;
        Ok(())
    }

    /// The newest messages, at most `limit` of them, oldest first; `None` means all. Without a session there are none.
    pub async fn messages(&self, limit: Option<usize>) -> Result<Vec<Arc<Message>>, SessionError> {
        let mut messages = self.transcript().await?.messages;
        let skip = messages.len() - limit.unwrap_or(usize::MAX).min(messages.len());
        messages.drain(..skip);
        Ok(messages)
    }

    /// Adds messages, all or none; creates the session if it does not exist.
    pub async fn add(
        &self,
        messages: impl IntoIterator<Item = Message>,
    ) -> Result<(), SessionError> {
        let add: Vec<_> = messages.into_iter().map(Arc::new).collect();
        self.change(|_| Some(SessionChange { pop: 0, add: add.clone() })).await?;
        Ok(())
    }

    /// Removes the newest message and returns it; `None` if there is none.
    pub async fn pop(&self) -> Result<Option<Message>, SessionError> {
        let before = self.change(|transcript| remove(transcript, 1)).await?;
        Ok(before.messages.last().map(|last| Message::clone(last)))
    }

    /// Removes all messages; the session stays.
    pub async fn clear(&self) -> Result<(), SessionError> {
        self.change(|transcript| remove(transcript, usize::MAX)).await?;
        Ok(())
    }

    /// Removes the session; true if there was one.
    pub async fn delete(&self) -> Result<bool, SessionError> {
        self.store.delete(&self.id).await
    }

    async fn transcript(&self) -> Result<Transcript, SessionError> {
        Ok(self.store.load(&self.id).await?.unwrap_or_default())
    }

    /// Commits what `plan` makes of the stored messages, and returns these as they were before.
    async fn change(
        &self,
        plan: impl Fn(&Transcript) -> Option<SessionChange>,
    ) -> Result<Transcript, SessionError> {
        let mut retries = 0;
        loop {
            let before = self.transcript().await?;
            let Some(change) = plan(&before) else {
                return Ok(before);
            };
            match self.store.commit(&self.id, before.revision, change).await {
                Ok(_) => return Ok(before),
                Err(SessionError::Conflict { .. }) if retries < CONFLICT_RETRIES_MAX => {
                    retries += 1;
                    tokio::task::yield_now().await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Removes the newest messages, if there are any.
fn remove(transcript: &Transcript, pop: usize) -> Option<SessionChange> {
    (!transcript.messages.is_empty()).then(|| SessionChange { pop, add: Vec::new() })
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &self.id).finish_non_exhaustive()
    }
}
