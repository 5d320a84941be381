//! Handle of one session, for programs that read and write a session outside of a run.

use std::fmt;
use std::sync::Arc;

use provost_core::Message;

use crate::store::{SessionChange, SessionError, SessionStore, Transcript};

/// Maximum number of retries after conflicts with other writers.
const CONFLICT_RETRIES_MAX: u32 = 100;

/// Handle of one session of a store.
///
/// Each change reads the session first. If another writer commits in between, the change is repeated on the new
/// revision, so no write is lost.
#[derive(Clone)]
pub struct Session {
    store: Arc<dyn SessionStore>,
    id: String,
}

impl Session {
    /// Creates a handle. The session need not exist.
    pub fn new(store: Arc<dyn SessionStore>, id: impl Into<String>) -> Self {
        Self { store, id: id.into() }
    }

    /// Returns the id of the session.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the store that the session belongs to.
    pub fn store(&self) -> &Arc<dyn SessionStore> {
        &self.store
    }

    /// Returns true if the session exists, also without messages.
    pub async fn exists(&self) -> Result<bool, SessionError> {
        Ok(self.store.load(&self.id).await?.is_some())
    }

    /// Creates the session without messages. Fails with [`SessionError::Conflict`] if it exists.
    pub async fn create(&self) -> Result<(), SessionError> {
        self.store.commit(&self.id, 0, SessionChange::default()).await?;
        Ok(())
    }

    /// Returns the newest `limit` messages, oldest first; all messages if `limit` is `None`. Empty if the session
    /// does not exist.
    pub async fn messages(&self, limit: Option<usize>) -> Result<Vec<Arc<Message>>, SessionError> {
        let mut messages = self.transcript().await?.messages;
        let skip = messages.len() - limit.unwrap_or(usize::MAX).min(messages.len());
        messages.drain(..skip);
        Ok(messages)
    }

    /// Adds messages in one commit. Creates a missing session.
    pub async fn add(
        &self,
        messages: impl IntoIterator<Item = Message>,
    ) -> Result<(), SessionError> {
        let add: Vec<_> = messages.into_iter().map(Arc::new).collect();
        self.change(|_| Some(SessionChange { pop: 0, add: add.clone() })).await?;
        Ok(())
    }

    /// Removes the newest message and returns it; `None` if there is no message.
    pub async fn pop(&self) -> Result<Option<Message>, SessionError> {
        let before = self.change(|transcript| remove(transcript, 1)).await?;
        Ok(before.messages.last().map(|last| Message::clone(last)))
    }

    /// Removes all messages. The session remains.
    pub async fn clear(&self) -> Result<(), SessionError> {
        self.change(|transcript| remove(transcript, usize::MAX)).await?;
        Ok(())
    }

    /// Deletes the session. Returns false if it does not exist.
    pub async fn delete(&self) -> Result<bool, SessionError> {
        self.store.delete(&self.id).await
    }

    /// Loads the transcript. Empty with revision 0 if the session does not exist.
    async fn transcript(&self) -> Result<Transcript, SessionError> {
        Ok(self.store.load(&self.id).await?.unwrap_or_default())
    }

    /// Commits the change that `plan` derives from the stored transcript, and returns the transcript before it. `None`
    /// changes nothing. After a conflict, loads the session again and repeats.
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

/// Returns a change that removes the newest messages; `None` if there are no messages.
fn remove(transcript: &Transcript, pop: usize) -> Option<SessionChange> {
    (!transcript.messages.is_empty()).then(|| SessionChange { pop, add: Vec::new() })
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &self.id).finish_non_exhaustive()
    }
}
